"""The change feed, and what every derived table reads: the changes of the merged table since a version."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.decoding import staged
from lakehouse.errors import ConflictError
from lakehouse.errors.troubles import PASSING, find_trouble
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.consumption import Consumption, version_to_consume
from lakehouse.ledger.ledger import Ledger
from lakehouse.settings import Settings
from lakehouse.spark.own_session import rows_expected
from lakehouse.storage.layout import TEXT_TYPES, Layout, TableColumn
from lakehouse.storage.merge_spec import MergeSpec, comparable, comparable_row, equal_keys, from_source
from lakehouse.storage.row_changes import ChangesGoneError, OtherColumnsError, change_failures
from lakehouse.storage.row_order import identity
from lakehouse.storage.statement import session_settings
from lakehouse.storage.stored_table import ExpectedRows, StoredTable

_ALLOW_OTHER_COLUMNS = {
    "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "true"
}
# the changes that were read last: feed and rollups of a table usually read the same
_CACHED_CHANGES: list[tuple[object, DataFrame | None]] = []
_TEXT_PER_CHANGE = 48  # bytes of the kind of a change and the id of a table


@dataclass(frozen=True)
class Derived:
    """The result of one update of a derived table.

    ``source_version`` is the version of the merged table that it now corresponds to. ``changed`` is the number of rows
    that were inserted, updated or deleted. ``rebuilt``: it was computed from all rows and not from the changes.
    ``computed_groups`` are the changed groups of a rollup as computed; ``None`` if there are none.
    """

    name: str
    version: int
    source_version: int
    changed: int
    rebuilt: bool
    computed_groups: DataFrame | None = field(default=None, repr=False, compare=False)

    @property
    def facts(self) -> dict[str, int | str | bool]:
        """The values of the result by name, without ``computed_groups``."""
        return {name: getattr(self, name) for name in ("name", "version", "source_version", "changed", "rebuilt")}


@dataclass(frozen=True)
class Upstream:
    """The merged table of a derived table, with its declaration and its ledger."""

    table: StreamTable
    merged: StoredTable
    ledger: Ledger

    @property
    def read_version(self) -> int:
        """The version to read: it has the rows of the version to consume, in files that still exist."""
        return self.ledger.version

    def as_of(self, version: int) -> "Upstream":
        """Return the table as of an earlier version, read from the newest version with the same rows."""
        read_version = min(self.ledger.next_change(version) - 1, self.ledger.version)
        return replace(self, ledger=replace(self.ledger, version=read_version))

    @property
    def row_columns(self) -> dict[str, str]:
        """The types of the columns outside the key, by name: declared columns and the partition column."""
        return {column.name: column.type for column in self.table.stored_columns if column.name not in self.table.key}


@contextmanager
def changes_since(upstream: Upstream, consumption: Consumption) -> Iterator[DataFrame | None]:
    """Yield the net changes since a version, read once for all derived tables of a table in this session.

    If the block fails, the changes are read again the next time: the cached data may be lost.
    """
    spark, uri = upstream.merged.spark, upstream.merged.layout.uri
    newest = version_to_consume(upstream.ledger)
    cache_key = (spark, uri, upstream.table.fingerprint, consumption.consumed, newest)
    cached_key, changes = _CACHED_CHANGES.pop() if _CACHED_CHANGES else (None, None)
    if changes is None or cached_key != cache_key:
        with rows_expected(spark, consumption.changed_rows):
            changes = net_changes(upstream, consumption)
    yield changes
    _CACHED_CHANGES[:] = [(cache_key, changes)]


def net_changes(upstream: Upstream, consumption: Consumption) -> DataFrame | None:
    """Return the net changes of the merged table since a version, or ``None`` if they can no longer be read.

    There is one row for each key (in a log table: record) and version that changed it, with the key,
    ``source_version``, ``committed_at``, ``_before`` and ``_after``. The last two are structs of the other columns, and
    NULL if there is no such row. If both are equal, there is no change.
    """
    if consumption.consumed and not consumption.has_source:
        return None
    start = consumption.next_version
    try:
        with change_failures():
            return _read_changes(upstream, start).localCheckpoint()
    except OtherColumnsError:
        return _read_across_other_columns(upstream, start)
    except ChangesGoneError:
        return None


def _read_across_other_columns(upstream: Upstream, start: int) -> DataFrame | None:
    """Read changes of versions with other columns, as before a rewrite; return ``None`` if that is not possible.

    By default, Delta refuses such a range as a whole. This reads only declared columns, which the table has now. The
    read fails if one of them was missing or had another type in a version.
    """
    try:
        with session_settings(upstream.merged.spark, _ALLOW_OTHER_COLUMNS), change_failures():
            return _read_changes(upstream, start).localCheckpoint()
    except (OtherColumnsError, ChangesGoneError):
        return None
    except AnalysisException as error:
        if find_trouble(error, PASSING):
            raise
        return None


def _read_changes(upstream: Upstream, start: int) -> DataFrame:
    changes = upstream.merged.changes(start, upstream.ledger.rows_version)
    types, greatest = upstream.row_columns, _greatest_row(upstream.row_columns)
    before = F.expr(f"{greatest} FILTER (WHERE _change_type IN ('update_preimage', 'delete'))")
    after = F.expr(f"{greatest} FILTER (WHERE _change_type IN ('update_postimage', 'insert'))")
    # other programs may write several rows of one record, even equal rows, into a log table: count all of them
    surplus = "sum(IF(_change_type IN ('insert', 'update_postimage'), 1, -1))" if upstream.table.is_log else "0"
    value_columns = [F.expr(comparable(f"`{name}`", type_)).alias(name) for name, type_ in types.items()]
    groups = changes.groupBy(
        *map(F.expr, identity(upstream.table)), *(value_columns if upstream.table.is_log else []), "_commit_version"
    )
    net_rows = groups.agg(
        F.max("_commit_timestamp").alias("committed_at"),
        before.alias(staged.BEFORE),
        after.alias(staged.AFTER),
        F.expr(surplus).alias("_surplus"),
    )
    is_equal = f"{comparable_row(staged.BEFORE, types)} <=> {comparable_row(staged.AFTER, types)}"
    is_changed = f"NOT ({is_equal}) OR _surplus <> 0"
    return net_rows.withColumnRenamed("_commit_version", "source_version").where(is_changed).drop("_surplus")


def _greatest_row(types: Mapping[str, str]) -> str:
    """Return SQL for the greatest of several rows: with duplicate keys, from other programs, the choice is stable."""
    row = f"struct({', '.join(f'`{name}`' for name in types)})"
    order = f"struct({', '.join(comparable(f'`{name}`', type_) for name, type_ in types.items())})"
    return f"max({row})" if order == row else f"max_by({row}, {order})"


def consumption_of(ledger: Ledger, upstream: Upstream) -> Consumption:
    """Return how far a derived table is; ``ConflictError`` if another process has derived a newer version meanwhile."""
    consumption = Consumption(upstream.ledger, ledger.consumed)
    if consumption.is_ahead and not consumption.is_of_lost_version:
        message = f"Another process has derived a newer version of {upstream.table.name}"
        raise ConflictError(message, where=ledger.uri, action="Nothing was written. Run it again.")
    return consumption


def derived_commit(ledger: Ledger, upstream: Upstream, run: str) -> Commit:
    """Build the commit of a derived table that consumes the merged table up to its version."""
    consumed = version_to_consume(upstream.ledger)
    return ledger.next_commit("derived", run).with_fields(consumed=consumed, declaration=upstream.table.fingerprint)


def derived_from(name: str, upstream: Upstream, entry: Entry, *, rebuilt: bool) -> Derived:
    """Return the result of an update from the commit of a derived table."""
    metrics = entry.metrics
    changed_count = metrics.inserted + metrics.updated + metrics.deleted
    return Derived(name, entry.version, upstream.ledger.rows_version, changed_count, rebuilt)


def changes_layout(table: StreamTable, settings: Settings) -> Layout:
    """Return the layout of the change feed: one row for each key and version of the merged table that changed it."""
    keys = [TableColumn.from_declaration(table.by_name[name]) for name in table.key]
    values = [
        TableColumn.from_declaration(column, f"{column.name}_{side}", f"{side.title()} the change: {column.doc}")
        for column in (table.by_name[name] for name in table.values)
        for side in ("before", "after")
    ]
    change_columns = [
        TableColumn("change", "STRING", "insert, update or delete."),
        TableColumn("source_table_id", "STRING", f"Id of the table {table.name} that changed."),
        TableColumn("source_version", "BIGINT", f"Version of {table.name} that made the change."),
        TableColumn("since_version", "BIGINT", "The change covers the versions after this one."),
        TableColumn("committed_at", "TIMESTAMP", "When that version was committed, UTC; NULL if reconciled."),
        TableColumn("number", "BIGINT", "Number of the feed's own commit."),
        TableColumn(
            "reconciled",
            "BOOLEAN",
            "True if the row combines several changes, because the single ones were deleted before the feed read them.",
        ),
    ]
    return Layout(
        table.changes_name,
        settings.table_uri(table.changes_name),
        f"Changes of {table.name}: one row for each key and version that changed it.",
        [*keys, *change_columns, *values],
        statistics=["source_version"],
        retention=table.upkeep.retention,
        anchors=[column.name for column in (*keys, *change_columns)],
        declaration=table.fingerprint,
        declaration_name=table.name,
        fixed_columns=table.key,
        sync=settings.sync,
    )


def update_changes(upstream: Upstream, feed: StoredTable, run: str) -> Derived:
    """Update the change feed to the version of the merged table; write nothing if it already has that version."""
    layout, ledger = feed.layout, feed.ensured_ledger()
    consumption = consumption_of(ledger, upstream)
    if consumption.is_current:
        return Derived(layout.name, ledger.version, upstream.ledger.rows_version, 0, rebuilt=False)
    commit, spec = derived_commit(ledger, upstream, run), insert_spec(upstream.table, layout.names)
    with changes_since(upstream, consumption) as changes:
        if changes is not None:
            kept_changes = _without_erasures(changes, upstream)
            rows = _cast_rows(_feed_rows(kept_changes, upstream, commit, F.col("source_version") - 1), layout)
            # after a RESTORE that voided a commit, or without a lakehouse commit, the feed may already have the changes
            is_recorded = ledger.consumed is not None and not ledger.undone_numbers
            expected_rows = consumption.changed_rows if is_recorded else None
            with rows_expected(feed.spark, expected_rows):
                if is_recorded:
                    expected = ExpectedRows(expected_rows, _text_size(upstream.table, expected_rows))
                    entry = feed.append(rows, commit, expected)
                else:
                    entry = feed.merge(rows, spec, commit)
            return derived_from(layout.name, upstream, entry, rebuilt=False)
    commit = commit.with_fields(reconciled=True)
    since = F.lit(ledger.consumed.version if ledger.consumed else -1).cast("bigint")
    rows = _cast_rows(_feed_rows(_net_difference(upstream, feed).localCheckpoint(), upstream, commit, since), layout)
    return derived_from(layout.name, upstream, feed.merge(rows, spec, commit), rebuilt=True)


def _without_erasures(changes: DataFrame, upstream: Upstream) -> DataFrame:
    """Leave out what erasures removed: the feed would keep the values."""
    versions = [entry.version for entry in upstream.ledger.entries if entry.commit.kind == "erasure"]
    return changes.where(~F.col("source_version").isin(versions)) if versions else changes


def _text_size(table: StreamTable, change_count: int | None) -> int | None:
    """Return the bytes of text in this number of changes; ``None`` if unknown, as with text columns in the table."""
    if change_count is None or any(column.type in TEXT_TYPES for column in table.columns):
        return None
    return change_count * _TEXT_PER_CHANGE


def insert_spec(table: StreamTable, names: Sequence[str]) -> MergeSpec:
    """Return a MERGE that inserts the changes that the feed does not have yet.

    A version number is used again if the table is restored from a backup, but not with the same commit time. A net
    difference has no commit time, so it equals no row.
    """
    key = [*table.key, "source_table_id", "source_version", "committed_at"]
    return MergeSpec(equal_keys(key), insert=from_source(names))


def _feed_rows(changes: DataFrame, upstream: Upstream, commit: Commit, since: Column) -> DataFrame:
    before, after = staged.BEFORE, staged.AFTER
    kind = f"CASE WHEN {before} IS NULL THEN 'insert' WHEN {after} IS NULL THEN 'delete' ELSE 'update' END"
    sides = [F.col(f"{side}.{n}").alias(f"{n}{side}") for n in upstream.table.values for side in (before, after)]
    return changes.select(
        *upstream.table.key,
        F.expr(kind).alias("change"),
        F.lit(upstream.ledger.table_id).alias("source_table_id"),
        "source_version",
        "committed_at",
        since.alias("since_version"),
        F.lit(commit.number).cast("bigint").alias("number"),
        F.lit(commit.reconciled).alias("reconciled"),
        *sides,
    )


def _cast_rows(rows: DataFrame, layout: Layout) -> DataFrame:
    """Cast changes to the types of the feed: the merged table may not have widened a column yet."""
    types = {column.name: column.type for column in layout.columns}
    flat_types = {name: types[name].lower() for name in rows.columns if "<" not in types[name]}  # only these widen
    return rows.withColumns({name: F.col(f"`{name}`").cast(type_) for name, type_ in flat_types.items()})


def _net_difference(upstream: Upstream, feed: StoredTable) -> DataFrame:
    """Return the difference between the state that the changes in the feed add up to and the merged table now."""
    table = upstream.table
    values = [f"`{name}`" for name in table.values]
    latest_values = ", ".join(["change AS _change", *(f"`{name}_after` AS `{name}`" for name in table.values)])
    # ordered by the feed's own commit numbers: the versions of a recreated table start again
    newest = F.expr(f"max_by(struct({latest_values}), struct(number, source_version))")
    state = feed.rows().groupBy(*table.key).agg(newest.alias("_row")).where("_row._change <> 'delete'")
    before = F.expr(f"struct({', '.join(f'_row.{value} AS {value}' for value in values)})")
    former_rows = state.select(*table.key, before.alias(staged.BEFORE))
    # with the types of the feed: a restored table may have narrower types
    casts = (f"CAST(`{name}` AS {table.by_name[name].type}) AS `{name}`" for name in table.values)
    after = F.expr(f"struct({', '.join(casts)})")
    present_rows = upstream.merged.rows(upstream.read_version).select(*table.key, after.alias(staged.AFTER))
    types = {name: table.by_name[name].type for name in table.values}
    is_changed = f"NOT ({comparable_row(staged.BEFORE, types)} <=> {comparable_row(staged.AFTER, types)})"
    joined_rows = former_rows.join(present_rows, list(table.key), "full").where(is_changed)
    version = F.lit(upstream.ledger.rows_version).cast("bigint").alias("source_version")
    return joined_rows.select(
        *table.key, staged.BEFORE, staged.AFTER, version, F.lit(None).cast("timestamp").alias("committed_at")
    )
