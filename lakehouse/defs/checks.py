"""Checks on the assets: what ``ledger`` and ``verify`` find, told to Dagster. They write nothing."""

from collections.abc import Iterator

import dagster as dg

from lakehouse import verify
from lakehouse.declaration import Rollup, StreamTable
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.errors import LakehouseError
from lakehouse.ledger import Finding, Ledger, audit, read_ledger
from lakehouse.settings import Settings
from lakehouse.topic import look

_MERGED = {
    "accounting_read": "Records read = rejected + duplicate + rows merged, batch by batch.",
    "accounting_stale": "Rows merged = inserted + updated + stale, and none of them is negative.",
    "ranges_contiguous": "Every batch reads on where the one before it ended: no gap, no overlap.",
    "totals": "The running totals in the ledger are the sums of its batches.",
    "keys_unique": "No key stands in two rows.",
}
_WARNINGS = {
    "rejected_share": "Few records are rejected.",
    "producer_time": "The broker dates the records, so that no producer's clock decides which is newer.",
}


def checks_of(table: StreamTable) -> list[dg.AssetChecksDefinition]:
    """All checks of a declared table."""
    return [merged_checks(table), changes_check(table), *(rollup_check(table, rollup) for rollup in table.rollups)]


def merged_checks(table: StreamTable) -> dg.AssetChecksDefinition:
    """Proof of the merged table from its own history, and of its rows."""
    docs = {**_MERGED, **_WARNINGS}
    declared = [dg.AssetCheckSpec(name, asset=table.name, description=doc) for name, doc in docs.items()]

    @dg.multi_asset_check(name=f"{table.name}_checks", specs=declared)
    def check(lakehouse: LakehouseResource) -> Iterator[dg.AssetCheckResult]:
        with explained():
            ledger = read_ledger(lakehouse.settings.table_uri(table.name), table.name, whole=True)
            for finding in audit(ledger):
                yield _told(finding, table.name)
            yield _told(verify.verify_keys(lakehouse.spark_session, lakehouse.settings, table), table.name)
            yield _told(verify.rejected_share(ledger), table.name)
            yield _told(_producer_time(lakehouse.settings, table), table.name)

    return check


def changes_check(table: StreamTable) -> dg.AssetChecksDefinition:
    """Warn where the feed had to be reconciled, since the changes themselves were vacuumed."""

    @dg.asset_check(
        name="every_change_kept",
        asset=table.changes_name,
        description="The newest changes are those the table recorded, not a net difference found afterwards.",
    )
    def check(lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        with explained():
            ledger = read_ledger(lakehouse.settings.table_uri(table.changes_name), table.changes_name)
        return _told(_every_change_kept(ledger), table.changes_name)

    return check


def rollup_check(table: StreamTable, rollup: Rollup) -> dg.AssetChecksDefinition:
    """Recompute an aggregate from the version it consumed and compare."""

    @dg.asset_check(
        name="equals_recomputation",
        asset=rollup.name,
        description=f"Every row equals what {table.name} gives at the version that was consumed.",
    )
    def check(lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        with explained():
            finding = verify.verify_rollup(lakehouse.spark_session, lakehouse.settings, table, rollup)
        return _told(finding, rollup.name, "equals_recomputation")

    return check


def _producer_time(settings: Settings, table: StreamTable) -> Finding:
    try:
        return verify.producer_time(look(settings, table.topic))
    except LakehouseError as error:
        return Finding("producer_time", passed=False, detail=str(error))


def _every_change_kept(ledger: Ledger) -> Finding:
    entry = ledger.newest
    if entry is None or not entry.commit.reconciled:
        return Finding("every_change_kept", passed=True, detail="Every change is one the table recorded.")
    detail = (
        f"Version {entry.version} holds a net difference: the single changes were vacuumed before they were read. "
        f"Its rows have reconciled = true. Run the job more often than the table is vacuumed."
    )
    return Finding("every_change_kept", passed=False, detail=detail)


def _told(finding: Finding, asset: str, name: str = "") -> dg.AssetCheckResult:
    check = name or finding.check
    warns = check in _WARNINGS or check == "every_change_kept"
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=check,
        passed=finding.passed,
        severity=dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR,
        description=finding.detail,
    )
