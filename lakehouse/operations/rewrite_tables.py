"""Rewrite the tables of a declaration with new types or partitions, which a run must not do by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from lakehouse.declaration import Day, Month, StreamTable, Year
from lakehouse.errors import TableError
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import ledger_of
from lakehouse.operations.layouts import layouts_of
from lakehouse.storage.layout import Layout
from lakehouse.storage.schema_change import require_exact, require_nothing
from lakehouse.storage.schema_diff import RewriteScope, SchemaDiff, read_schema_diff
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext, retry_on_conflict


@dataclass(frozen=True)
class RewrittenTable:
    """A table whose rows were all rewritten; ``detail`` names the new types and partitions."""

    name: str
    version: int
    detail: str


def rewrite_tables(context: TableContext) -> list[RewrittenTable]:
    """Rewrite all rows of each table whose types or partitions differ from its declaration.

    The values stay the same: if a value would change, the function raises an error before it writes anything. Progress
    and accounting continue; the change feed reports no changes. The merged table is first. A second run completes what
    a failed run left, and otherwise does nothing. The next merge recomputes the rollups.

    Raises ``TableError`` also if the key differs, if a type cannot represent the same values, or if the change feed has
    not read all changes.
    """
    settings, table = context.settings, context.table
    context.ledger()  # refuses a table whose history does not record its progress
    scope = _rewrite_scope(table)
    layouts = [layout for layout in layouts_of(settings, table) if layout.name != table.rejected_name]
    diffs = [(layout, diff) for layout in layouts if (diff := read_schema_diff(layout, scope)) and diff.needs_rewrite]
    if any(layout.name == table.name for layout, _ in diffs):
        _require_feed_up_to_date(context)
    for layout, diff in diffs:
        with spark_failures(layout.uri):
            require_exact(context.spark, layout, diff, scope)
    return [_rewrite(context, layout, diff, scope) for layout, diff in diffs]


def _rewrite(context: TableContext, layout: Layout, diff: SchemaDiff, scope: RewriteScope) -> RewrittenTable:
    is_merged = layout.name == context.table.name
    before_rewrite = partial(_require_feed_up_to_date, context) if is_merged else require_nothing
    stored_table = context.merged if is_merged else StoredTable(context.spark, layout)
    ledger = retry_on_conflict(lambda: stored_table.ensured_ledger(before_rewrite, scope))
    return RewrittenTable(layout.name, ledger.version, ", ".join(_describe(layout, diff)))


def _rewrite_scope(table: StreamTable) -> RewriteScope:
    times = [column for column in table.columns if column.type in Month.types]
    periods = [unit(column.name) for column in times for unit in (Day, Month, Year) if column.type in unit.types]
    return RewriteScope(table.partition_by, periods)


def _require_feed_up_to_date(context: TableContext) -> None:
    """Raise if the change feed has not read all changes: it cannot read earlier changes after the rewrite."""
    table, merged = context.table, context.ledger()
    feed = ledger_of(context.settings, table.changes_name)
    if not table.is_log and feed.exists and not Consumption(merged, feed.consumed).is_current:
        raise TableError(
            f"{table.changes_name} has not read all changes of {table.name} yet, and cannot read them after a rewrite",
            where=merged.uri,
            action=f"Undo the change of the declaration, run lakehouse merge {table.name}, then make the change again.",
        )


def _describe(layout: Layout, diff: SchemaDiff) -> Iterator[str]:
    types = {column.name: column.type for column in layout.columns}
    yield from (f"{name} {types[name]}" for name in (*diff.widened_columns, *diff.recast_columns))
    if diff.stored_partitions is not None:
        yield f"partitioned by {', '.join(layout.partitions) or 'nothing'}"
