"""Bring the derived tables of a merged table up to its version."""

import logging
from collections.abc import Callable
from typing import TypeVar

from lakehouse.declaration import Rollup
from lakehouse.derived import feed, rollup
from lakehouse.derived.changes import Derived, Upstream
from lakehouse.errors import NotConsumedError, TableError
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext, again

T = TypeVar("T")
_log = logging.getLogger(__name__)


def upstream_of(context: TableContext) -> Upstream:
    """Return the merged table, with the columns declared now; ``TableError`` where there is none yet."""
    table, ledger = context.table, context.ledger()
    if not ledger.exists:
        action = f"Merge it first: lakehouse merge {table.name}"
        raise TableError(f"Table {table.name} does not exist yet", where=ledger.uri, action=action)
    merged = context.merged
    committed = merged.ensure(None)
    return Upstream(table, merged, context.ledger() if committed else ledger)


def caught_up(
    context: TableContext, work: Callable[[], T], on_derived: Callable[[Derived], None] = lambda _: None
) -> T:
    """Do something with the merged table; where its derived tables have to be brought up to date before, do that."""
    try:
        return work()
    except NotConsumedError:
        for derived in refresh_all(context):
            on_derived(derived)
        return work()


def refresh_all(context: TableContext) -> list[Derived]:
    """Bring the change feed, where there is one, and every rollup up to the merged table."""
    feed_first = [] if context.table.is_log else [refresh_changes(context)]
    return [*feed_first, *(refresh_rollup(context, each) for each in context.table.rollups)]


def refresh_changes(context: TableContext) -> Derived:
    """Write the changes since the version the feed has consumed; a second run writes nothing."""
    stored = context.stored(feed.changes_layout)
    _log.info("Deriving %s", stored.layout.name)
    return again(lambda: feed.update_changes(upstream_of(context), stored, context.run))


def refresh_rollup(context: TableContext, declared: Rollup) -> Derived:
    """Recompute the groups that changed since the version the rollup has consumed; a second run writes nothing.

    Raises ``TableError`` where a measure cannot be computed for some rows: the rollup is as it was then.
    """
    stored = StoredTable(context.spark, rollup.rollup_layout(context.table, declared, context.settings))
    _log.info("Deriving %s", stored.layout.name)
    # within each try: what is translated around it names no table
    update = spark_failures(stored.layout.uri)(rollup.update_rollup)
    return again(lambda: update(upstream_of(context), declared, stored, context.run))
