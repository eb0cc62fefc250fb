"""Bring the derived tables of a merged table up to its version."""

from pyspark.sql import SparkSession

from lakehouse.declaration import Rollup, StreamTable
from lakehouse.delta.engine import again, merged_ledger
from lakehouse.delta.ensure import ensure_table
from lakehouse.delta.order import merged_layout
from lakehouse.derive import feed, rollup
from lakehouse.derive.changes import Derived, Upstream
from lakehouse.errors import TableError
from lakehouse.settings import Settings


def upstream_of(spark: SparkSession, settings: Settings, table: StreamTable) -> Upstream:
    """Return the merged table, with the columns declared now; ``TableError`` where there is none yet."""
    ledger = merged_ledger(settings, table)
    if not ledger.exists:
        action = f"Merge it first: lakehouse merge {table.name}"
        raise TableError(f"Table {table.name} does not exist yet", where=ledger.uri, action=action)
    layout = merged_layout(table, settings)
    ensure_table(spark, layout)
    return Upstream(table, layout, merged_ledger(settings, table))


def refresh_changes(spark: SparkSession, settings: Settings, table: StreamTable, run: str = "cli") -> Derived:
    """Write the changes since the version the feed has consumed; a second run writes nothing."""
    layout = feed.changes_layout(table, settings)
    return again(lambda: feed.update_changes(spark, upstream_of(spark, settings, table), layout, run))


def refresh_rollup(
    spark: SparkSession, settings: Settings, table: StreamTable, declared: Rollup, run: str = "cli"
) -> Derived:
    """Recompute the groups that changed since the version the rollup has consumed; a second run writes nothing."""
    layout = rollup.rollup_layout(table, declared, settings)
    return again(lambda: rollup.update_rollup(spark, upstream_of(spark, settings, table), declared, layout, run))
