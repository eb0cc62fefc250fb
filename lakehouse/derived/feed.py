"""The change feed: one row for each key and version of the merged table that changed it."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.decoding import staged
from lakehouse.derived.changes import Derived, Upstream, changed_rows, changes_since, derived_commit, derived_from
from lakehouse.ledger.commits import Commit
from lakehouse.settings import Settings
from lakehouse.spark.sessions import rows_expected
from lakehouse.storage.comparison import comparable_row
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.merge_spec import MergeSpec, equal_keys, from_source
from lakehouse.storage.stored_table import Expected, StoredTable

_OWN_TEXT = 48  # bytes of the kind of a change and the id of a table


def changes_layout(table: StreamTable, settings: Settings) -> Layout:
    """How the change feed is stored: one row for each key and version of the merged table that changed it."""
    keys = [TableColumn.declared(table.by_name[name]) for name in table.key]
    values = [
        TableColumn.declared(column, f"{column.name}_{when}", f"{when.title()} the change: {column.doc}")
        for column in (table.by_name[name] for name in table.values)
        for when in ("before", "after")
    ]
    own = [
        TableColumn("change", "STRING", "insert, update or delete."),
        TableColumn("source_table_id", "STRING", f"Id of the table {table.name} that changed."),
        TableColumn("source_version", "BIGINT", f"Version of {table.name} that made the change."),
        TableColumn("since_version", "BIGINT", "The change stands for the versions after this one."),
        TableColumn("committed_at", "TIMESTAMP", "When that version was committed, UTC; NULL where reconciled."),
        TableColumn("number", "BIGINT", "Number of the feed's own commit."),
        TableColumn("reconciled", "BOOLEAN", "A net difference, as the single changes were no longer there."),
    ]
    doc = f"Changes of {table.name}: one row for each key and version that changed it."
    uri = settings.table_uri(table.changes_name)
    columns = [*keys, *own, *values]
    return Layout(
        table.changes_name,
        uri,
        doc,
        columns,
        statistics=["source_version"],
        retention=table.retention,
        anchors=[column.name for column in (*keys, *own)],
        declaration=table.fingerprint,
        of=table.name,
        fixed=table.key,
        sync=settings.sync,
    )


def update_changes(upstream: Upstream, feed: StoredTable, run: str) -> Derived:
    """Bring the change feed up to the merged table's version; where it is there already, write nothing."""
    layout, ledger = feed.layout, feed.ensured_ledger()
    if upstream.ledger.is_consumed(ledger.consumed):
        return Derived(layout.name, ledger.version, upstream.ledger.rows_version, 0, rebuilt=False)
    commit, spec = derived_commit(ledger, upstream, run), insert_spec(upstream.table, layout.names)
    with changes_since(upstream, ledger.consumed) as changes:
        if changes is not None:
            rows = _as_stored(_as_feed(changes, upstream, commit, F.col("source_version") - 1), layout)
            # where a RESTORE made a commit void, or the log tells no commit of ours, changes may be there already
            told = ledger.consumed is not None and not ledger.undone
            expected = changed_rows(upstream, ledger.consumed) if told else None
            with rows_expected(feed.spark, expected):
                if told:
                    few = Expected(expected, _text_in(upstream.table, expected))
                    entry = feed.append(rows, commit, few)
                else:
                    entry = feed.merge(rows, spec, commit)
            return derived_from(layout.name, upstream, entry, rebuilt=False)
    commit = commit.with_fields(reconciled=True)
    since = F.lit(ledger.consumed.version if ledger.consumed else -1).cast("bigint")
    rows = _as_stored(_as_feed(_net_difference(upstream, feed).localCheckpoint(), upstream, commit, since), layout)
    return derived_from(layout.name, upstream, feed.merge(rows, spec, commit), rebuilt=True)


def _text_in(table: StreamTable, changes: int | None) -> int | None:
    """How many bytes of text are in so many changes; ``None`` where nobody knows, as records have texts."""
    if changes is None or any(column.type == "STRING" for column in table.columns):
        return None
    return changes * _OWN_TEXT


def insert_spec(table: StreamTable, names: Sequence[str]) -> MergeSpec:
    """Insert the changes that are not told yet.

    A version number comes again where the table is brought back from a backup, its time does not. A net difference,
    which has none, equals no row.
    """
    key = [*table.key, "source_table_id", "source_version", "committed_at"]
    return MergeSpec(equal_keys(key), insert=from_source(names))


def _as_feed(changes: DataFrame, upstream: Upstream, commit: Commit, since: Column) -> DataFrame:
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


def _as_stored(rows: DataFrame, layout: Layout) -> DataFrame:
    """Changes with the types of the feed: of a column that is widened next, the merged table still has another."""
    types = {column.name: column.type for column in layout.columns}
    plain = {name: types[name].lower() for name in rows.columns if "<" not in types[name]}  # no other is ever widened
    return rows.withColumns({name: F.col(f"`{name}`").cast(type_) for name, type_ in plain.items()})


def _net_difference(upstream: Upstream, feed: StoredTable) -> DataFrame:
    """What differs between the state the feed itself tells and the merged table now."""
    table = upstream.table
    values = [f"`{name}`" for name in table.values]
    told = ", ".join(["change AS _change", *(f"`{name}_after` AS `{name}`" for name in table.values)])
    # by the feed's own numbers: a table made anew starts its versions again
    newest = F.expr(f"max_by(struct({told}), struct(number, source_version))")
    state = feed.rows().groupBy(*table.key).agg(newest.alias("_row")).where("_row._change <> 'delete'")
    before = F.expr(f"struct({', '.join(f'_row.{value} AS {value}' for value in values)})")
    then = state.select(*table.key, before.alias(staged.BEFORE))
    # with the types of the feed: a table that a RESTORE put back may have narrower ones
    typed = (f"CAST(`{name}` AS {table.by_name[name].type}) AS `{name}`" for name in table.values)
    after = F.expr(f"struct({', '.join(typed)})")
    now = upstream.merged.rows(upstream.read_version).select(*table.key, after.alias(staged.AFTER))
    types = {name: table.by_name[name].type for name in table.values}
    differ = f"NOT ({comparable_row(staged.BEFORE, types)} <=> {comparable_row(staged.AFTER, types)})"
    joined = then.join(now, list(table.key), "full").where(differ)
    version = F.lit(upstream.ledger.rows_version).cast("bigint").alias("source_version")
    return joined.select(
        *table.key, staged.BEFORE, staged.AFTER, version, F.lit(None).cast("timestamp").alias("committed_at")
    )
