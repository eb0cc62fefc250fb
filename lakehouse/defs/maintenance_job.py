"""The maintenance of a declaration's tables: a job outside of the lineage, because it changes no row, and its schedule.

The job reports what it did to each table as an observation of that table's asset.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta

import dagster as dg

from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.runs import schedule_location, unfinished_run_of_job
from lakehouse.defs.specs import CatalogEntry, table_specs
from lakehouse.defs.steps import name_run, require_accepted, run_text
from lakehouse.discovery import find_outlets
from lakehouse.errors import LakehouseError
from lakehouse.operations.maintain import Maintained, maintain
from lakehouse.operations.status import find_unaccepted, reason_to_accept

_DAILY = "0 3 * * *"  # UTC
_DAY, _HOUR, _MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


def build_maintenance(entry: CatalogEntry) -> dg.Definitions:
    """Build the job that maintains the tables of a declaration, and its schedule."""
    table = entry.table
    maintain_tables, (cron, period) = _build_op(entry), _times_of(table.upkeep.every)

    hours = table.upkeep.retention / _HOUR
    retention = f"{hours / 24:g} days" if hours >= 48 else f"{hours:g} hours"

    @dg.job(
        name=entry.maintain_job,
        executor_def=dg.in_process_executor,
        description=f"Compacts and vacuums {table.name} and all other tables of its declaration. No row changes. You"
        f" can read every version of the last {retention}.",
    )
    def job() -> None:
        maintain_tables()

    @dg.schedule(
        name=table.maintenance_schedule,
        job=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Requests a run of {job.name} {period}. Without it, old files stay beyond the retention.",
    )
    def schedule(context: dg.ScheduleEvaluationContext, lakehouse: LakehouseResource) -> dg.RunRequest | dg.SkipReason:
        with suppress(LakehouseError):  # the run reports a table that cannot be read
            if reason := reason_to_accept(table, find_unaccepted(lakehouse.settings, table)):
                return dg.SkipReason(reason)
        location = schedule_location(context.instance, table.maintenance_schedule)
        if unfinished_run_of_job(context.instance, job.name, location):
            return dg.SkipReason(f"A run of {job.name} has not ended.")
        return dg.RunRequest()

    return dg.Definitions(jobs=[job], schedules=[schedule])


def _times_of(every: timedelta) -> tuple[str, str]:
    """The times of a schedule in UTC, and as words: of a period that divides an hour or a day; of one day, 03:00."""
    if every == _DAY:
        return _DAILY, "every night"
    hours, minutes = every // _HOUR, every // _MINUTE
    cron = f"0 */{hours} * * *" if every >= _HOUR else f"*/{minutes} * * * *"
    return cron, f"every {hours} hours" if every > _HOUR else f"every {minutes} minutes"


def _build_op(entry: CatalogEntry) -> dg.OpDefinition:
    """The only step of the job. It waits in the pool of the table, as all steps that write the table do."""

    @dg.op(name=f"{entry.table.name}_maintenance", pool=entry.table.name, out=dg.Out(dg.Nothing))
    def maintain_tables(context: dg.OpExecutionContext, lakehouse: LakehouseResource) -> None:
        name_run(context.run_id)
        with explained():
            require_accepted(context.run, lakehouse.settings, entry.table)
            # also those that no component names: a command runs them
            outlets = {part.name: part for part in (*find_outlets(lakehouse.settings), *entry.outlets)}
            maintained_tables = maintain(
                lakehouse.table_context(entry.table, run_text(context.run, lakehouse.settings)),
                lambda maintained_table: _log(context, maintained_table),
                [*outlets.values()],
            )
        for observation in _observations(entry, maintained_tables):
            context.log_event(observation)

    return maintain_tables


def _observations(entry: CatalogEntry, maintained_tables: Iterable[Maintained]) -> list[dg.AssetObservation]:
    """One observation for each maintained table that is an asset."""
    keys = {spec.key.path[-1]: spec.key for spec in table_specs(entry)}
    return [
        dg.AssetObservation(
            keys[table.name],
            description="Compacted and vacuumed." if not table.idle else "Unchanged since the last maintenance.",
            metadata={
                "table_version": table.version,
                "files_before": table.files_before,
                "files_after": table.files_after,
                **({"files_removed": table.removed} if table.removed is not None else {}),
                **({"old_files_kept_because": table.kept} if table.kept else {}),
            },
        )
        for table in maintained_tables
        if table.name in keys
    ]


def _log(context: dg.OpExecutionContext, table: Maintained) -> None:
    kept_text = f"; old files stay: {table.kept}" if table.kept else ""
    context.log.info(f"{table.name}: {table.files_before} files became {table.files_after}{kept_text}")
