"""Maintenance as Dagster runs it: one asset for all tables of a declaration, its job, and a daily schedule."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from lakehouse.defs import specs
from lakehouse.defs.catalog_entries import Listed
from lakehouse.defs.steps import Done, Run, step_of
from lakehouse.operations.maintain import Maintained, maintain

_DAILY = "0 3 * * *"  # UTC
_COLUMNS = [
    dg.TableColumn("table", "string"),
    *(dg.TableColumn(name, "int") for name in ("version", "files_before", "files_after", "removed")),
    dg.TableColumn("idle", "bool"),
    dg.TableColumn("kept", "string"),
]


def maintenance_asset(listed: Listed) -> dg.AssetsDefinition:
    """Compaction and vacuum of every table of a declaration; no row changes."""
    spec = specs.maintenance_spec(listed)

    def keep(run: Run) -> Done:
        return Done({listed.maintenance: _facts(maintain(run.table_context))})

    return step_of(listed, keep, [spec])


def _facts(done: Sequence[Maintained]) -> dict[str, Any]:
    rows = [
        dg.TableRecord(
            {
                "table": one.name,
                "version": one.version,
                "files_before": one.files_before,
                "files_after": one.files_after,
                "removed": one.removed,
                "idle": one.idle,
                "kept": one.kept,
            }
        )
        for one in done
    ]
    return {
        "files_before": sum(one.files_before for one in done),
        "files_after": sum(one.files_after for one in done),
        "removed": sum(one.removed or 0 for one in done),
        "idle": all(one.idle for one in done),
        "kept": "; ".join(one.kept for one in done if one.kept),
        "tables": dg.MetadataValue.table(rows, schema=dg.TableSchema(columns=_COLUMNS)),
    }


def maintenance_of(listed: Listed) -> dg.Definitions:
    """The job that maintains a declaration's tables, and the schedule that asks for it."""
    table = listed.table
    job = dg.define_asset_job(
        f"maintain_{table.name}",
        executor_def=dg.in_process_executor,
        selection=dg.AssetSelection.assets(listed.key(listed.maintenance)),
        description=f"Compact and vacuum {table.name} and every table that belongs to it.",
    )
    daily = dg.ScheduleDefinition(
        name=f"{listed.maintenance}_daily",
        job=job,
        cron_schedule=_DAILY,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Asks for a run of {job.name} every night, so that the retention of the tables holds.",
    )
    return dg.Definitions(jobs=[job], schedules=[daily])
