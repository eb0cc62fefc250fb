"""The change feed: one row for each key and version of the merged table that changed it."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.decoding import staged
from lakehouse.derived.changes import (
    Derived,
    Upstream,
    changes_since,
    consumption_of,
    derived_commit,
    derived_from,
)
from lakehouse.ledger.commits import Commit
from lakehouse.settings import Settings
from lakehouse.spark.few_rows import rows_expected
from lakehouse.storage.comparison import comparable_row
from lakehouse.storage.layout import TEXT_TYPES, Layout, TableColumn
from lakehouse.storage.merge_spec import MergeSpec, equal_keys, from_source
from lakehouse.storage.stored_table import ExpectedRows, StoredTable

_TEXT_PER_CHANGE = 48  # bytes of the kind of a change and the id of a table


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
    doc = f"Changes of {table.name}: one row for each key and version that changed it."
    uri = settings.table_uri(table.changes_name)
    columns = [*keys, *change_columns, *values]
    return Layout(
        table.changes_name,
        uri,
        doc,
        columns,
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
            rows = _cast_rows(_feed_rows(changes, upstream, commit, F.col("source_version") - 1), layout)
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
