"""Bring the derived tables of a merged table up to its version."""

import logging
from collections.abc import Callable
from typing import TypeVar

from lakehouse.declaration import Rollup
from lakehouse.delta.engine import Engine, again
from lakehouse.delta.ensure import ensure_table
from lakehouse.delta.failures import table_failures
from lakehouse.delta.order import merged_layout
from lakehouse.derive import feed, rollup
from lakehouse.derive.changes import Derived, Upstream
from lakehouse.errors import NotConsumedError, TableError

T = TypeVar("T")
_log = logging.getLogger(__name__)


def upstream_of(engine: Engine) -> Upstream:
    """Return the merged table, with the columns declared now; ``TableError`` where there is none yet."""
    table, ledger = engine.table, engine.ledger()
    if not ledger.exists:
        action = f"Merge it first: lakehouse merge {table.name}"
        raise TableError(f"Table {table.name} does not exist yet", where=ledger.uri, action=action)
    layout = merged_layout(table, engine.settings)
    committed = ensure_table(engine.spark, layout, None)
    return Upstream(table, layout, engine.ledger() if committed else ledger)


def caught_up(engine: Engine, work: Callable[[], T], on_derived: Callable[[Derived], None] = lambda _: None) -> T:
    """Do something with the merged table; where its derived tables have to be brought up to date before, do that."""
    try:
        return work()
    except NotConsumedError:
        for derived in refresh_all(engine):
            on_derived(derived)
        return work()


def refresh_all(engine: Engine) -> list[Derived]:
    """Bring the change feed, where there is one, and every rollup up to the merged table."""
    feed_first = [] if engine.table.is_log else [refresh_changes(engine)]
    return [*feed_first, *(refresh_rollup(engine, each) for each in engine.table.rollups)]


def refresh_changes(engine: Engine) -> Derived:
    """Write the changes since the version the feed has consumed; a second run writes nothing."""
    layout = feed.changes_layout(engine.table, engine.settings)
    _log.info("Deriving %s", layout.name)
    return again(lambda: feed.update_changes(engine.spark, upstream_of(engine), layout, engine.run))


def refresh_rollup(engine: Engine, declared: Rollup) -> Derived:
    """Recompute the groups that changed since the version the rollup has consumed; a second run writes nothing.

    Raises ``TableError`` where a measure cannot be computed for some rows: the rollup is as it was then.
    """
    layout = rollup.rollup_layout(engine.table, declared, engine.settings)
    _log.info("Deriving %s", layout.name)
    # within each try: what is translated around it names no table
    update = table_failures(layout.uri)(rollup.update_rollup)
    return again(lambda: update(engine.spark, upstream_of(engine), declared, layout, engine.run))
