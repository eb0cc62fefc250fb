"""Updates the derived tables of a merged table to its version: the change feed, then the rollups."""

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Rollup, StreamTable
from lakehouse.decoding import staged
from lakehouse.derived import feed
from lakehouse.derived.feed import Derived, Upstream, changes_since, consumption_of, derived_commit, derived_from
from lakehouse.errors import NotConsumedError, TableError
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.versions import count_rows
from lakehouse.settings import Settings
from lakehouse.spark.own_session import compute_once, rows_expected
from lakehouse.storage.layout import Layout, TableColumn, partitions_sql
from lakehouse.storage.merge_spec import MergeSpec, equal_values, from_source
from lakehouse.storage.schema_diff import find_retyped_columns
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.stored_table import ExpectedRows, StoredTable
from lakehouse.storage.table_context import TableContext, retry_on_conflict

T = TypeVar("T")
_log = logging.getLogger(__name__)
_IS_GONE = "_is_gone"  # true for a group without rows


def upstream_of(context: TableContext) -> Upstream:
    """Return the merged table with the columns of its current declaration; ``TableError`` if it does not exist."""
    table, ledger = context.table, context.ledger()
    if not ledger.exists:
        action = f"Merge it first: lakehouse merge {table.name}"
        raise TableError(f"Table {table.name} does not exist yet", where=ledger.uri, action=action)
    merged = context.merged
    is_changed = merged.ensure(None)
    return Upstream(table, merged, context.ledger() if is_changed else ledger)


def refresh_and_retry(
    context: TableContext, work: Callable[[], T], on_derived: Callable[[Derived], None] = lambda _: None
) -> T:
    """Run ``work`` on the merged table; if it requires up-to-date derived tables, refresh them and run it again."""
    try:
        return work()
    except NotConsumedError:
        for derived in refresh_all(context):
            on_derived(derived)
        return work()


def refresh_all(context: TableContext) -> list[Derived]:
    """Update the change feed, if the table has one, and every rollup to the version of the merged table."""
    feed_results = [] if context.table.is_log else [refresh_changes(context)]
    return [*feed_results, *(refresh_rollup(context, declaration) for declaration in context.table.rollups)]


def refresh_changes(context: TableContext) -> Derived:
    """Write the changes since the version that the feed has consumed; a second run writes nothing."""
    feed_table = context.stored_table(feed.changes_layout)
    _log.info("Deriving %s", feed_table.layout.name)
    return retry_on_conflict(lambda: feed.update_changes(upstream_of(context), feed_table, context.run))


def refresh_rollup(context: TableContext, declaration: Rollup) -> Derived:
    """Recompute the groups that changed since the version that the rollup has consumed; a second run writes nothing.

    Raises ``TableError`` if a measure cannot be computed for some rows; the rollup is unchanged then.
    """
    rollup_table = StoredTable(context.spark, rollup_layout(context.table, declaration, context.settings))
    _log.info("Deriving %s", rollup_table.layout.name)
    # inside each attempt: the translation of errors in ``retry_on_conflict`` does not name the table
    update = spark_failures(rollup_table.layout.uri)(update_rollup)
    return retry_on_conflict(lambda: update(upstream_of(context), declaration, rollup_table, context.run))


def rollup_layout(table: StreamTable, rollup: Rollup, settings: Settings) -> Layout:
    """Return the layout of a rollup: one row for each group."""
    source_columns = {column.name: column for column in table.stored_columns}
    # if any type changes, every group is recomputed: two groups may become one
    columns = [replace(TableColumn.from_declaration(source_columns[name]), is_recomputed=True) for name in rollup.by]
    columns += [
        TableColumn(name, measure.type, measure.doc, is_recomputed=True) for name, measure in rollup.measures.items()
    ]
    return Layout(
        rollup.name,
        settings.table_uri(rollup.name),
        rollup.doc,
        columns,
        statistics=rollup.by,
        retention=table.upkeep.retention,
        declaration=rollup.fingerprint,
        declaration_name=table.name,
        sync=settings.sync,
    )


def update_rollup(upstream: Upstream, rollup: Rollup, rollup_table: StoredTable, run: str) -> Derived:
    """Recompute the groups with changed rows as of the consumed version; write nothing if there is no new version.

    If the changes cannot be read or the declaration of the rollup changed, the whole rollup is recomputed.
    """
    spark, layout, ledger = rollup_table.spark, rollup_table.layout, rollup_table.ensured_ledger()
    consumption = consumption_of(ledger, upstream)
    # then every group is recomputed: no stored value is converted
    has_other_types = bool(find_retyped_columns(layout))
    is_unchanged = is_as_declared(ledger, rollup) and not has_other_types
    if is_unchanged and consumption.is_current:
        return Derived(layout.name, ledger.version, upstream.ledger.rows_version, 0, rebuilt=False)
    commit = derived_commit(ledger, upstream, run).with_fields(declaration=rollup.fingerprint)
    changed_count = consumption.changed_rows
    if is_unchanged and consumption.consumed:
        with changes_since(upstream, consumption) as changes:
            if changes is not None:
                with rows_expected(spark, changed_count):
                    groups = compute_once(spark, _changed_groups(changes, rollup), changed_count)
                    partitions = _find_partitions(upstream.table, groups)
                source = upstream.merged.layout
                source_count = count_rows(source.uri, source.partition_by, partitions)
                with rows_expected(spark, changed_count, source_count):
                    rows = _recompute_groups(upstream, rollup, groups, partitions).localCheckpoint()
                    entry = rollup_table.upsert(rows, rollup.by, _IS_GONE, commit, ExpectedRows(changed_count))
                return replace(derived_from(layout.name, upstream, entry, rebuilt=False), computed_groups=rows)
    # a column: with a literal, Spark would find no equality to join by
    rows = recompute(upstream, rollup).withColumns({"_can_match": F.lit(False), _IS_GONE: F.lit(False)})
    rows = rows.localCheckpoint()
    if has_other_types:
        entry = rollup_table.replace_rows(rows.select(*layout.names), commit)
    else:
        never_equal = f"{equal_values(rollup.by)} AND s._can_match"  # every row is replaced
        insert = from_source([*rollup.by, *rollup.measures])
        entry = rollup_table.merge(rows, MergeSpec(never_equal, insert=insert, delete_unmatched=True), commit)
    return replace(derived_from(layout.name, upstream, entry, rebuilt=True), computed_groups=rows)


def find_differing_groups(computed_groups: DataFrame, stored_rows: DataFrame, rollup: Rollup) -> DataFrame:
    """Return the computed groups (``Derived.computed_groups``) whose stored rows in the rollup differ from them."""
    same_group = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in rollup.by)
    same_measures = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in rollup.measures)
    marked_rows = stored_rows.withColumn("_is_stored", F.lit(True)).alias("t")
    joined_groups = computed_groups.alias("s").join(marked_rows, F.expr(same_group), "left")
    is_stored = "t._is_stored IS NOT NULL"
    is_different = f"IF(s.{_IS_GONE}, {is_stored}, NOT ({is_stored} AND {same_measures}))"
    return joined_groups.where(is_different).select(*(f"s.{name}" for name in rollup.by))


def is_as_declared(ledger: Ledger, rollup: Rollup) -> bool:
    """Whether the last commit of the rollup has this declaration."""
    return ledger.newest is not None and ledger.newest.commit.declaration == rollup.fingerprint


def _recompute_groups(upstream: Upstream, rollup: Rollup, groups: DataFrame, partitions: list[str] | None) -> DataFrame:
    """Recompute the measures of groups; ``_is_gone`` is true for a group without rows."""
    rows = recompute(upstream, rollup, groups, partitions).withColumn("_has_rows", F.lit(True))
    same_group = " AND ".join(f"g.`{name}` <=> s.`{name}`" for name in rollup.by)
    measures = [F.col(f"s.{name}") for name in rollup.measures]
    source = groups.alias("g").join(rows.alias("s"), F.expr(same_group), "left")
    return source.select("g.*", *measures, F.expr("s._has_rows IS NULL").alias(_IS_GONE))


def recompute(
    upstream: Upstream,
    rollup: Rollup,
    groups: DataFrame | None = None,
    partitions: Collection[str] | None = None,
) -> DataFrame:
    """Compute a rollup from the merged table as of the version to consume, for all groups or for ``groups``.

    ``partitions`` contain every row of the groups, so that Delta skips the files of other partitions.
    """
    merged, version = upstream.merged, upstream.read_version
    rows = merged.rows(version)
    if groups is not None:
        rows = merged.rows_covering(version, partitions)
        same_group = " AND ".join(f"r.`{name}` <=> g.`{name}`" for name in rollup.by)
        column = f"`{merged.layout.partition_by}`"
        condition = "true" if partitions is None else partitions_sql(column, merged.layout, partitions)
        rows = rows.where(condition).alias("r").join(F.broadcast(groups.alias("g")), F.expr(same_group), "left_semi")
    measures = [F.expr(m.sql).cast(m.type.lower()).alias(name) for name, m in rollup.measures.items()]
    return rows.groupBy(*rollup.by).agg(*measures)


def _find_partitions(table: StreamTable, groups: DataFrame) -> list[str] | None:
    """Return the partitions of the rows of the groups; ``None`` if they may be in any partition."""
    if table.partition_by is None or table.partition_by.name not in groups.columns:
        return None
    partition = F.col(table.partition_by.name)
    values, nulls = F.collect_set(partition.cast("string")), F.count_if(partition.isNull())
    ((partitions, null_count),) = groups.agg(values, nulls).collect()
    return None if null_count else list(partitions)


def _changed_groups(changes: DataFrame, rollup: Rollup) -> DataFrame:
    def select_groups(side: str) -> DataFrame:
        row_columns = set(changes.select(f"{side}.*").columns)
        columns = [F.col(f"{side}.{name}" if name in row_columns else name).alias(name) for name in rollup.by]
        return changes.where(f"{side} IS NOT NULL").select(*columns)

    return select_groups(staged.BEFORE).union(select_groups(staged.AFTER)).distinct()
