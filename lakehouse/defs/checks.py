"""Checks beside the assets: what ``audit`` and ``verify`` find, told to Dagster. They write nothing.

What a run touched is checked by the step that touched it (``assets``). Here are the checks of whole tables, which
cost as much as the tables are large, and a job and a schedule for them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

import dagster as dg

from lakehouse.declaration import Rollup, StreamTable
from lakehouse.defs.catalog_entries import Listed
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.results import checked
from lakehouse.defs.waiting import planning_check
from lakehouse.errors import LakehouseError
from lakehouse.kafka import look
from lakehouse.ledger.audit import Finding, audit, every_change_kept, finding
from lakehouse.ledger.ledger import ledger_of
from lakehouse.operations import verify
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext

_DAILY = "0 4 * * *"  # UTC; maintenance is asked for an hour before
_MERGED = {
    "accounting_read": "Records read = rejected + duplicate + rows merged, batch by batch.",
    "accounting_stale": "Rows merged = inserted + updated + stale, and none of them is negative.",
    "ranges_contiguous": "Every batch reads on where the one before it ended: no gap, no overlap.",
    "totals": "The running totals in the ledger are the sums of its batches.",
    "keys_unique": "No key stands in two rows, in a log table no record, and each stands in its partition.",
}
_DOUBTS = {
    "rejected_share": "Few of the records that were read in the last 24 hours are rejected.",
    "producer_time": "The broker dates the records, so that no producer's clock decides which is newer.",
}


def checks_of(listed: Listed) -> list[dg.AssetChecksDefinition]:
    """All checks of a declared table that stand beside its assets."""
    return [doubts_check(listed), *checks_of_their_own(listed)]


def checks_of_their_own(listed: Listed) -> list[dg.AssetChecksDefinition]:
    """The checks that no merge waits for: those of whole tables and histories, and the one the sensor reports."""
    rollups = (rollup_check(listed, rollup) for rollup in listed.table.rollups)
    feed = [] if listed.table.is_log else [changes_check(listed)]
    return [planning_check(listed), merged_checks(listed), *feed, *rollups]


def verification_of(listed: Listed) -> dg.Definitions:
    """The job that checks a declaration's tables as a whole, and the schedule that asks for it."""
    table = listed.table
    job = dg.define_asset_job(
        f"verify_{table.name}",
        executor_def=dg.in_process_executor,
        selection=dg.AssetSelection.checks(*checks_of(listed)),
        description=f"Check {table.name} and what derives from it as a whole: every row, group and commit.",
    )
    daily = dg.ScheduleDefinition(
        name=f"{table.name}_checks_daily",
        job=job,
        cron_schedule=_DAILY,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Asks for a run of {job.name} every night.",
    )
    return dg.Definitions(jobs=[job], schedules=[daily])


def doubts_check(listed: Listed) -> dg.AssetChecksDefinition:
    """What is worth a look, from the newest commit and one look at the topic: cheap enough for every run."""
    table = listed.table

    @dg.multi_asset_check(name=f"{table.name}_doubts", specs=_specs(listed, _DOUBTS), can_subset=True)
    def check(context: dg.AssetCheckExecutionContext, lakehouse: LakehouseResource) -> Iterator[dg.AssetCheckResult]:
        with explained():
            ledger = ledger_of(lakehouse.settings, table.name)
            found = [verify.rejected_share(ledger), _producer_time(lakehouse.settings, table)]
        yield from _asked(context, found, listed)

    return check


def merged_checks(listed: Listed) -> dg.AssetChecksDefinition:
    """Proof of the merged table from its whole history, and of all its rows."""
    table = listed.table
    specs = _specs(listed, _MERGED | {each.name: each.doc or each.sql for each in table.checks})
    warnings = {each.name for each in table.checks if each.severity == "warn"}

    @dg.multi_asset_check(name=f"{table.name}_checks", specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext, lakehouse: LakehouseResource) -> Iterator[dg.AssetCheckResult]:
        with explained():
            ledger = ledger_of(lakehouse.settings, table.name, whole=True)
            found = [*audit(ledger), *_found_in_rows(lakehouse, table, _names(context), ledger.exists)]
        yield from _asked(context, found, listed, warnings)

    return check


def _found_in_rows(
    lakehouse: LakehouseResource, table: StreamTable, asked: Collection[str], exists: bool
) -> Iterator[Finding]:
    """What the checks that were asked for find in the rows of the merged table."""
    checks: dict[str, Callable[[TableContext], Finding]] = {"keys_unique": verify.verify_keys}
    checks |= {each.name: partial(verify.verify_rows, check=each) for each in table.checks}
    for name in (name for name in checks if name in asked):
        yield checks[name](lakehouse.table_context(table)) if exists else finding(name, [], "there are no rows yet")


def changes_check(listed: Listed) -> dg.AssetChecksDefinition:
    """Warn where the feed had to be reconciled, since the changes themselves were gone."""
    table = listed.table

    @dg.asset_check(
        name="every_change_kept",
        asset=listed.key(table.changes_name),
        description="All changes are those the table recorded; none is a net difference found afterwards.",
    )
    def check(lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        with explained():
            found = every_change_kept(ledger_of(lakehouse.settings, table.changes_name, whole=True))
        return checked(found, listed.key(table.changes_name))

    return check


def rollup_check(listed: Listed, rollup: Rollup) -> dg.AssetChecksDefinition:
    """Recompute an aggregate from the version it consumed and compare."""
    table = listed.table

    @dg.asset_check(
        name="rollup_equals_recomputation",
        asset=listed.key(rollup.name),
        description=f"Every row equals what {table.name} gives at the version that was consumed.",
    )
    def check(lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        with explained():
            found = verify.verify_rollup(lakehouse.table_context(table), rollup)
        return checked(found, listed.key(rollup.name))

    return check


def _producer_time(settings: Settings, table: StreamTable) -> Finding:
    try:
        return verify.producer_time(look(settings, table.topic), table)
    except LakehouseError as error:
        return Finding("producer_time", passed=False, detail=str(error))


def _specs(listed: Listed, docs: Mapping[str, str]) -> list[dg.AssetCheckSpec]:
    return [dg.AssetCheckSpec(name, asset=listed.merged, description=doc) for name, doc in docs.items()]


def _names(context: dg.AssetCheckExecutionContext) -> set[str]:
    return {key.name for key in context.selected_asset_check_keys}


def _asked(
    context: dg.AssetCheckExecutionContext, found: Iterable[Finding], listed: Listed, warnings: Collection[str] = ()
) -> Iterator[dg.AssetCheckResult]:
    """What was found of the checks that were asked for; some are ``warnings`` where they fail."""
    asked = (one for one in found if one.check in _names(context))
    yield from (checked(one, listed.merged, doubtful=one.check in warnings) for one in asked)
