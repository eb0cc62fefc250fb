"""Maintenance in Dagster: one asset for all tables of a declaration, its job and a daily schedule."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from lakehouse.defs import specs
from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.steps import StepInput, StepResult, build_step
from lakehouse.operations.maintain import Maintained, maintain

_DAILY = "0 3 * * *"  # UTC
_COLUMNS = [
    dg.TableColumn("table", "string"),
    *(dg.TableColumn(name, "int") for name in ("version", "files_before", "files_after", "removed")),
    dg.TableColumn("idle", "bool"),
    dg.TableColumn("kept", "string"),
]


def maintenance_asset(entry: CatalogEntry) -> dg.AssetsDefinition:
    """Compaction and vacuum of every table of a declaration; no row changes."""
    spec = specs.maintenance_spec(entry)

    def maintain_tables(step: StepInput) -> StepResult:
        return StepResult({entry.maintenance_name: _metadata(maintain(step.table_context))})

    return build_step(entry, maintain_tables, [spec])


def _metadata(tables: Sequence[Maintained]) -> dict[str, Any]:
    rows = [
        dg.TableRecord(
            {
                "table": table.name,
                "version": table.version,
                "files_before": table.files_before,
                "files_after": table.files_after,
                "removed": table.removed,
                "idle": table.idle,
                "kept": table.kept,
            }
        )
        for table in tables
    ]
    return {
        "files_before": sum(table.files_before for table in tables),
        "files_after": sum(table.files_after for table in tables),
        "removed": sum(table.removed or 0 for table in tables),
        "idle": all(table.idle for table in tables),
        "kept": "; ".join(table.kept for table in tables if table.kept),
        "tables": dg.MetadataValue.table(rows, schema=dg.TableSchema(columns=_COLUMNS)),
    }


def build_maintenance(entry: CatalogEntry) -> dg.Definitions:
    """Build the job that maintains the tables of a declaration, and its schedule."""
    table = entry.table
    job = dg.define_asset_job(
        entry.maintain_job,
        executor_def=dg.in_process_executor,
        selection=dg.AssetSelection.assets(entry.key(entry.maintenance_name)),
        description=f"Compacts and vacuums {table.name} and all other tables of its declaration.",
    )
    daily = dg.ScheduleDefinition(
        name=f"{entry.maintenance_name}_daily",
        job=job,
        cron_schedule=_DAILY,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Requests a run of {job.name} every night. Without it, old files stay beyond the retention.",
    )
    return dg.Definitions(jobs=[job], schedules=[daily])
