"""Updates the derived tables of a merged table to its version."""

import logging
from collections.abc import Callable
from typing import TypeVar

from lakehouse.declaration import Rollup
from lakehouse.derived import feed, rollup
from lakehouse.derived.changes import Derived, Upstream
from lakehouse.errors import NotConsumedError, TableError
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext, retry_on_conflict

T = TypeVar("T")
_log = logging.getLogger(__name__)


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
    rollup_table = StoredTable(context.spark, rollup.rollup_layout(context.table, declaration, context.settings))
    _log.info("Deriving %s", rollup_table.layout.name)
    # inside each attempt: the translation of errors in ``retry_on_conflict`` does not name the table
    update = spark_failures(rollup_table.layout.uri)(rollup.update_rollup)
    return retry_on_conflict(lambda: update(upstream_of(context), declaration, rollup_table, context.run))
