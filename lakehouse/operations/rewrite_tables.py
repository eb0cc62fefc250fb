"""The tables of a declaration written once as it says now, where a run may not do it: other types, other partitions."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from lakehouse.declaration import Day, Month, StreamTable, Year
from lakehouse.errors import TableError
from lakehouse.ledger.ledger import ledger_of
from lakehouse.operations.layouts import derived_layouts, loaded_layouts
from lakehouse.storage.layout import Layout
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.schema_change.apply import ask_nothing
from lakehouse.storage.schema_change.diff import Lack, Rewriting, lack_of
from lakehouse.storage.schema_change.rewrite import require_exact
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext, again


@dataclass(frozen=True)
class Rewritten:
    """A table of which every row was written once; ``detail`` says in which form."""

    name: str
    version: int
    detail: str


def rewrite_tables(context: TableContext) -> list[Rewritten]:
    """Write every row of each table of a declaration that has other types or partitions than are declared.

    The rows stay what they are: a value that would become another one is an error, before anything is written. Progress
    and accounting are carried on; nothing is told by the change feed. The merged table comes first; what was not done
    is done by a second run, which else does nothing. Rollups are computed anew by the next merge.

    Raises ``TableError`` also where the key is another one, a type could not mean the same, or the change feed has not
    read all there is.
    """
    settings, table = context.settings, context.table
    context.ledger()  # a table whose history does not tell its progress is left as it is
    rewriting = _rewriting_of(table)
    layouts = [merged_layout(table, settings), *derived_layouts(settings, table), *loaded_layouts(settings, table)]
    lacks = [(layout, lack) for layout in layouts if (lack := lack_of(layout, rewriting)) and lack.written]
    if any(layout.name == table.name for layout, _ in lacks):
        _require_told_on(context)
    for layout, lack in lacks:
        with spark_failures(layout.uri):
            require_exact(context.spark, layout, lack, rewriting)
    return [_rewrite(context, layout, lack, rewriting) for layout, lack in lacks]


def _rewrite(context: TableContext, layout: Layout, lack: Lack, rewriting: Rewriting) -> Rewritten:
    is_merged = layout.name == context.table.name
    told_on = partial(_require_told_on, context) if is_merged else ask_nothing
    stored = context.merged if is_merged else StoredTable(context.spark, layout)
    ledger = again(lambda: stored.ensured_ledger(told_on, rewriting))
    return Rewritten(layout.name, ledger.version, ", ".join(_said(layout, lack)))


def _rewriting_of(table: StreamTable) -> Rewriting:
    times = [column for column in table.columns if column.type in Month.types]
    periods = [unit(each.name) for each in times for unit in (Day, Month, Year) if each.type in unit.types]
    return Rewriting(table.partition_by, periods)


def _require_told_on(context: TableContext) -> None:
    """Raise where the change feed has not read all there is: it could not tell the single changes any more."""
    table, merged = context.table, context.ledger()
    feed = ledger_of(context.settings, table.changes_name)
    if not table.is_log and feed.exists and not merged.is_consumed(feed.consumed):
        raise TableError(
            f"{table.changes_name} has not read all changes of {table.name} yet, and could not read them afterwards",
            where=merged.uri,
            action=f"Declare it as it was, run lakehouse merge {table.name}, and then declare it anew.",
        )


def _said(layout: Layout, lack: Lack) -> Iterator[str]:
    types = {column.name: column.type for column in layout.columns}
    yield from (f"{name} {types[name]}" for name in (*lack.widened, *lack.recast))
    if lack.parted is not None:
        yield f"partitioned by {', '.join(layout.partitions) or 'nothing'}"
