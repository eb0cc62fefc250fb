"""The change feed: one row for each key and version of the merged table that changed it."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.delta.ensure import ensure_table
from lakehouse.delta.layout import Layout, TableColumn
from lakehouse.delta.ledger import read_ledger
from lakehouse.delta.write import commit_merge, read_table
from lakehouse.derive.changes import Derived, Upstream, derived_commit, derived_from, net_changes
from lakehouse.settings import Settings


def changes_layout(table: StreamTable, settings: Settings) -> Layout:
    """How the change feed is stored: one row for each key and version of the merged table that changed it."""
    keys = [TableColumn(n, table.by_name[n].type, table.by_name[n].doc) for n in table.key]
    values = [
        TableColumn(f"{name}_{when}", table.by_name[name].type, f"{when.title()} the change: {table.by_name[name].doc}")
        for name in table.values
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
    )


def update_changes(spark: SparkSession, upstream: Upstream, layout: Layout, run: str) -> Derived:
    """Bring the change feed up to the merged table's version; where it is there already, write nothing."""
    ensure_table(spark, layout)
    ledger = read_ledger(layout.uri, layout.name)
    if upstream.ledger.is_consumed(ledger.source):
        return Derived(layout.name, ledger.version, upstream.ledger.rows_version, 0, rebuilt=False)
    changes = net_changes(spark, upstream, ledger.source)
    reconciled = changes is None
    if changes is None:
        changes = _net_difference(spark, upstream, layout)
    since = F.col("source_version") - 1
    if reconciled:
        since = F.lit(ledger.source.version if ledger.source else -1).cast("bigint")
    rows = _as_feed(changes, upstream, reconciled=reconciled)
    rows = rows.withColumns({"since_version": since, "number": F.lit(ledger.next_number).cast("bigint")})
    commit = derived_commit(ledger, upstream, run).model_copy(update={"reconciled": reconciled})
    entry = commit_merge(spark, layout, rows, insert_clauses(upstream.table, layout.names), commit)
    return derived_from(layout, upstream, entry, rebuilt=reconciled)


def insert_clauses(table: StreamTable, names: Sequence[str]) -> str:
    """Insert the changes that are not told yet.

    A version number comes again where the table is brought back from a backup, its time does not. A net difference,
    which has none, equals no row.
    """
    key = [*table.key, "source_table_id", "source_version", "committed_at"]
    return (
        f"ON {' AND '.join(f's.`{c}` = t.`{c}`' for c in key)}"
        f" WHEN NOT MATCHED THEN INSERT ({', '.join(f'`{c}`' for c in names)})"
        f" VALUES ({', '.join(f's.`{c}`' for c in names)})"
    )


def _as_feed(changes: DataFrame, upstream: Upstream, *, reconciled: bool) -> DataFrame:
    kind = "CASE WHEN _before IS NULL THEN 'insert' WHEN _after IS NULL THEN 'delete' ELSE 'update' END"
    sides = [F.col(f"_{w}.{n}").alias(f"{n}_{w}") for n in upstream.table.values for w in ("before", "after")]
    return changes.select(
        *upstream.table.key,
        F.expr(kind).alias("change"),
        F.lit(upstream.ledger.table_id).alias("source_table_id"),
        "source_version",
        "committed_at",
        F.lit(reconciled).alias("reconciled"),
        *sides,
    )


def _net_difference(spark: SparkSession, upstream: Upstream, layout: Layout) -> DataFrame:
    """What differs between the state the feed itself tells and the merged table now."""
    table = upstream.table
    values = [f"`{name}`" for name in table.values]
    told = ", ".join(["change AS _change", *(f"`{name}_after` AS `{name}`" for name in table.values)])
    # by the feed's own numbers: a table made anew starts its versions again
    newest = F.expr(f"max_by(struct({told}), struct(number, source_version))")
    state = read_table(spark, layout).groupBy(*table.key).agg(newest.alias("_row")).where("_row._change <> 'delete'")
    before = F.expr(f"struct({', '.join(f'_row.{value} AS {value}' for value in values)})")
    then = state.select(*table.key, before.alias("_before"))
    after = F.expr(f"struct({', '.join(values)})")
    now = read_table(spark, upstream.layout, upstream.read_version).select(*table.key, after.alias("_after"))
    joined = then.join(now, list(table.key), "full").where("NOT (_before <=> _after)")
    version = F.lit(upstream.ledger.rows_version).cast("bigint").alias("source_version")
    return joined.select(*table.key, "_before", "_after", version, F.lit(None).cast("timestamp").alias("committed_at"))
