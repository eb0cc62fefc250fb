"""Rollups: the groups that changes touched, recomputed as of the version consumed."""

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Rollup, StreamTable
from lakehouse.decoding import staged
from lakehouse.derived.changes import Derived, Upstream, changed_rows, changes_since, derived_commit, derived_from
from lakehouse.ledger.active_files import count_rows
from lakehouse.ledger.ledger import Ledger
from lakehouse.settings import Settings
from lakehouse.spark.sessions import held, rows_expected
from lakehouse.storage.layout import Layout, TableColumn, is_within
from lakehouse.storage.merge_spec import MergeSpec, equal_values, from_source
from lakehouse.storage.schema_change.diff import remade_columns
from lakehouse.storage.stored_table import Expected, StoredTable

_GONE = "_is_gone"  # says of a group that no row is left in it


def rollup_layout(table: StreamTable, rollup: Rollup, settings: Settings) -> Layout:
    """How a rollup is stored: one row for each group."""
    stored = {column.name: column for column in table.stored}
    # where any type is another one, every group is computed anew: two may be one then
    columns = [replace(TableColumn.declared(stored[name]), recomputed=True) for name in rollup.by]
    columns += [TableColumn(name, each.type, each.doc, recomputed=True) for name, each in rollup.measures.items()]
    uri = settings.table_uri(rollup.name)
    return Layout(
        rollup.name,
        uri,
        rollup.doc,
        columns,
        statistics=rollup.by,
        retention=table.retention,
        declaration=rollup.fingerprint,
        of=table.name,
        sync=settings.sync,
    )


def update_rollup(upstream: Upstream, rollup: Rollup, stored: StoredTable, run: str) -> Derived:
    """Recompute the groups that changes touched, as of the version consumed; at that version, write nothing.

    Where the changes cannot be told, or the rollup is declared otherwise than before, all of it is made anew.
    """
    spark, layout, ledger = stored.spark, stored.layout, stored.ensured_ledger()
    # then every group is computed anew: no stored value is converted
    other_types = bool(remade_columns(layout))
    same = is_as_declared(ledger, rollup) and not other_types
    if same and upstream.ledger.is_consumed(ledger.consumed):
        return Derived(layout.name, ledger.version, upstream.ledger.rows_version, 0, rebuilt=False)
    commit = derived_commit(ledger, upstream, run).with_fields(declaration=rollup.fingerprint)
    changed = changed_rows(upstream, ledger.consumed)
    if same and ledger.consumed:
        with changes_since(upstream, ledger.consumed) as changes:
            if changes is not None:
                with rows_expected(spark, changed):
                    touched = held(spark, _touched_groups(changes, rollup), changed)
                    partitions = _partitions(upstream.table, touched)
                source = upstream.merged.layout
                met = count_rows(source.uri, source.partition_by, partitions)
                with rows_expected(spark, changed, met):
                    rows = _recomputed_groups(upstream, rollup, touched, partitions).localCheckpoint()
                    entry = stored.merge_keyed(rows, rollup.by, _GONE, commit, Expected(changed))
                return replace(derived_from(layout.name, upstream, entry, rebuilt=False), written=rows)
    # a column, since a literal would leave Spark no equality to join by
    rows = recompute(upstream, rollup).withColumns({"_stays": F.lit(False), _GONE: F.lit(False)})
    rows = rows.localCheckpoint()
    if other_types:
        entry = stored.replace_rows(rows.select(*layout.names), commit)
    else:
        entry = stored.merge(rows, _rebuild_spec(rollup), commit)
    return replace(derived_from(layout.name, upstream, entry, rebuilt=True), written=rows)


def differing(written: DataFrame, stored: DataFrame, rollup: Rollup) -> DataFrame:
    """The groups as computed (``Derived.written``) that do not stand in the stored rollup as they were computed."""
    same = " AND ".join(f"t.`{c}` <=> s.`{c}`" for c in rollup.by)
    equal = " AND ".join(f"t.`{c}` <=> s.`{c}`" for c in rollup.measures)
    joined = written.alias("s").join(stored.withColumn("_found", F.lit(True)).alias("t"), F.expr(same), "left")
    found = "t._found IS NOT NULL"
    return joined.where(f"IF(s.{_GONE}, {found}, NOT ({found} AND {equal}))").select(*(f"s.{c}" for c in rollup.by))


def is_as_declared(ledger: Ledger, rollup: Rollup) -> bool:
    """Whether the rollup was last written under this declaration."""
    return ledger.newest is not None and ledger.newest.commit.declaration == rollup.fingerprint


def _recomputed_groups(
    upstream: Upstream, rollup: Rollup, touched: DataFrame, partitions: list[str] | None
) -> DataFrame:
    """The groups that changes touched, with their measures, or with ``_is_gone`` where no row is left."""
    groups = recompute(upstream, rollup, touched, partitions)
    same = " AND ".join(f"g.`{c}` <=> s.`{c}`" for c in rollup.by)
    measures = [F.col(f"s.{name}") for name in rollup.measures]
    source = touched.alias("g").join(groups.withColumn("_found", F.lit(True)).alias("s"), F.expr(same), "left")
    return source.select("g.*", *measures, F.expr("s._found IS NULL").alias(_GONE))


def recompute(
    upstream: Upstream,
    rollup: Rollup,
    groups: DataFrame | None = None,
    partitions: Collection[str] | None = None,
) -> DataFrame:
    """Compute a rollup from the merged table as of the version to consume: all groups, or the given ones.

    ``partitions`` are the partitions in which every row of the groups is, so that files are pruned.
    """
    merged, version = upstream.merged, upstream.read_version
    rows = merged.rows(version)
    if groups is not None:
        rows = merged.rows_covering(version, partitions)
        same = " AND ".join(f"r.`{c}` <=> g.`{c}`" for c in rollup.by)
        column = f"`{merged.layout.partition_by}`"
        near = "true" if partitions is None else is_within(column, merged.layout, partitions)
        rows = rows.where(near).alias("r").join(F.broadcast(groups.alias("g")), F.expr(same), "left_semi")
    figures = [F.expr(m.sql).cast(m.type.lower()).alias(name) for name, m in rollup.measures.items()]
    return rows.groupBy(*rollup.by).agg(*figures)


def _partitions(table: StreamTable, groups: DataFrame) -> list[str] | None:
    """The partitions that the groups lie in; ``None`` where they may lie in any."""
    if table.partition_by is None or table.partition_by.name not in groups.columns:
        return None
    partition = F.col(table.partition_by.name)
    ((found, without),) = groups.agg(F.collect_set(partition.cast("string")), F.count_if(partition.isNull())).collect()
    return None if without else list(found)


def _touched_groups(changes: DataFrame, rollup: Rollup) -> DataFrame:
    def groups(side: str) -> DataFrame:
        of_row = set(changes.select(f"{side}.*").columns)
        columns = [F.col(f"{side}.{c}" if c in of_row else c).alias(c) for c in rollup.by]
        return changes.where(f"{side} IS NOT NULL").select(*columns)

    return groups(staged.BEFORE).union(groups(staged.AFTER)).distinct()


def _rebuild_spec(rollup: Rollup) -> MergeSpec:
    """Replace every row, also those of a declaration with other groups or measures."""
    same = f"{equal_values(rollup.by)} AND s._stays"
    return MergeSpec(same, insert=from_source([*rollup.by, *rollup.measures]), delete_unmatched=True)
