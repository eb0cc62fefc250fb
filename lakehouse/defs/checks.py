"""Checks on the assets: what ``ledger`` and ``verify`` find, told to Dagster. They write nothing."""

from collections.abc import Iterator

import dagster as dg

from lakehouse.declaration import Rollup, StreamTable
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.results import checked
from lakehouse.defs.waiting import planning_check
from lakehouse.delta.audit import Finding, audit, every_change_kept, finding
from lakehouse.delta.ledger import read_ledger
from lakehouse.errors import LakehouseError
from lakehouse.settings import Settings
from lakehouse.topic import look
from lakehouse.upkeep import verify

_MERGED = {
    "accounting_read": "Records read = rejected + duplicate + rows merged, batch by batch.",
    "accounting_stale": "Rows merged = inserted + updated + stale, and none of them is negative.",
    "ranges_contiguous": "Every batch reads on where the one before it ended: no gap, no overlap.",
    "totals": "The running totals in the ledger are the sums of its batches.",
    "keys_unique": "No key stands in two rows.",
}
_DOUBTS = {
    "rejected_share": "Few records are rejected.",
    "producer_time": "The broker dates the records, so that no producer's clock decides which is newer.",
}
_WARNINGS = {*_DOUBTS, "every_change_kept"}  # worth a look; the tables are right all the same


def checks_of(table: StreamTable) -> list[dg.AssetChecksDefinition]:
    """All checks of a declared table."""
    own = [planning_check(table), merged_checks(table), changes_check(table)]
    return [*own, *(rollup_check(table, rollup) for rollup in table.rollups)]


def merged_checks(table: StreamTable) -> dg.AssetChecksDefinition:
    """Proof of the merged table from its own history, and of its rows."""
    docs = {**_MERGED, **_DOUBTS}
    declared = [dg.AssetCheckSpec(name, asset=table.name, description=doc) for name, doc in docs.items()]

    @dg.multi_asset_check(name=f"{table.name}_checks", specs=declared, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext, lakehouse: LakehouseResource) -> Iterator[dg.AssetCheckResult]:
        with explained():
            ledger = read_ledger(lakehouse.settings.table_uri(table.name), table.name, whole=True)
            found = [*audit(ledger), verify.rejected_share(ledger), _producer_time(lakehouse.settings, table)]
            if ledger.exists:
                found.append(verify.verify_keys(lakehouse.spark_session, lakehouse.settings, table))
            else:
                found.append(finding("keys_unique", [], "there are no rows yet"))
        asked = {key.name for key in context.selected_asset_check_keys}
        yield from (_told(one, table.name) for one in found if one.check in asked)

    return check


def changes_check(table: StreamTable) -> dg.AssetChecksDefinition:
    """Warn where the feed had to be reconciled, since the changes themselves were gone."""

    @dg.asset_check(
        name="every_change_kept",
        asset=table.changes_name,
        description="All changes are those the table recorded; none is a net difference found afterwards.",
    )
    def check(lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        with explained():
            uri = lakehouse.settings.table_uri(table.changes_name)
            found = every_change_kept(read_ledger(uri, table.changes_name, whole=True))
        return _told(found, table.changes_name)

    return check


def rollup_check(table: StreamTable, rollup: Rollup) -> dg.AssetChecksDefinition:
    """Recompute an aggregate from the version it consumed and compare."""

    @dg.asset_check(
        name="rollup_equals_recomputation",
        asset=rollup.name,
        description=f"Every row equals what {table.name} gives at the version that was consumed.",
    )
    def check(lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        with explained():
            found = verify.verify_rollup(lakehouse.spark_session, lakehouse.settings, table, rollup)
        return _told(found, rollup.name)

    return check


def _producer_time(settings: Settings, table: StreamTable) -> Finding:
    try:
        return verify.producer_time(look(settings, table.topic), table)
    except LakehouseError as error:
        return Finding("producer_time", passed=False, detail=str(error))


def _told(found: Finding, asset: str) -> dg.AssetCheckResult:
    doubtful = found.check in _WARNINGS
    return checked(found, asset, dg.AssetCheckSeverity.WARN if doubtful else dg.AssetCheckSeverity.ERROR)
