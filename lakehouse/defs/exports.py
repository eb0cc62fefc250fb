"""Exports in Dagster: an asset for each, and a job and a sensor for each that is enabled."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import Field

from lakehouse.declaration import Export, StreamTable
from lakehouse.defs.catalog_entries import step_name
from lakehouse.defs.finished_runs import sensor_location
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.retries import reason_to_wait
from lakehouse.defs.runs import unfinished_run
from lakehouse.defs.specs import code_references
from lakehouse.defs.steps import name_run
from lakehouse.defs.views import ViewCatalog
from lakehouse.exports.exporter import Exporter, ExportUpdate
from lakehouse.ledger.ledger import ledger_of

_TICK_INTERVAL = 15  # seconds between two looks at the table of an export
_GROUP = "exports"


class ExportConfig(dg.Config):
    """What a run of an export writes."""

    whole: bool = Field(
        default=False, description="Write all rows, also without news, and of an export that continues with changes."
    )


def build_exports(exports: Sequence[Export], tables: Sequence[StreamTable], catalog: ViewCatalog) -> dg.Definitions:
    """Build the assets of exports of these tables, and what runs them. A disabled export is an external asset."""
    definitions = []
    for export in exports:
        spec = export_spec(export, tables, catalog)
        definitions.append(_build_export(spec, export) if export.enabled else dg.Definitions(assets=[spec]))
    return dg.Definitions.merge(*definitions)


def export_spec(export: Export, tables: Sequence[StreamTable], catalog: ViewCatalog) -> dg.AssetSpec:
    """The asset of an export, in the group of its table."""
    table_names = [table.name for table in tables if export.of in table.tables]
    kind = "what changed in" if export.changes else "all rows of"
    doc = export.doc or f"Files with {kind} {export.of}, as {export.format}."
    state = "" if export.enabled else " It is disabled."
    return dg.AssetSpec(
        catalog.key(export.name),
        deps=[catalog.key(export.of)],
        description=f"{doc}{state}",
        group_name=catalog.group or next(iter(table_names), _GROUP),
        owners=[export.owner] if catalog.owners is None else list(catalog.owners),
        kinds={export.format, "file"},
        metadata={"dagster/code_references": code_references(export)} if export.file else {},
    )


def _build_export(spec: dg.AssetSpec, export: Export) -> dg.Definitions:
    """The asset that runs an export, its job, and the sensor that requests it."""

    @dg.multi_asset(name=step_name(spec.key), specs=[spec], pool=export.name)
    def run_export(
        context: dg.AssetExecutionContext, config: ExportConfig, lakehouse: LakehouseResource
    ) -> Iterator[Any]:
        name_run(context.run.run_id)
        with explained():
            update = Exporter(lakehouse.settings, export).update(context.run.run_id, whole=config.whole)
            version = dg.DataVersion(str(update.version))
            yield dg.MaterializeResult(asset_key=spec.key, metadata=_figures(update), data_version=version)

    job = dg.define_asset_job(
        export.job_name,
        executor_def=dg.in_process_executor,
        selection=dg.AssetSelection.assets(spec.key),
        description=f"Writes the files of {export.name}, if there is news in {export.of}.",
    )

    @dg.sensor(
        name=export.sensor_name,
        job=job,
        minimum_interval_seconds=_TICK_INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Requests a run of {export.job_name} if rows of {export.of} changed since the last one.",
    )
    def evaluate(context: dg.SensorEvaluationContext, lakehouse: LakehouseResource) -> dg.SensorResult:
        request = _request_run(context, spec, Exporter(lakehouse.settings, export))
        if isinstance(request, str):
            return dg.SensorResult(skip_reason=request)
        return dg.SensorResult(run_requests=[request])

    return dg.Definitions(assets=[run_export], jobs=[job], sensors=[evaluate])


def _request_run(context: dg.SensorEvaluationContext, spec: dg.AssetSpec, exporter: Exporter) -> dg.RunRequest | str:
    """Request a run if there is news, or return the skip reason; an export that cannot continue fails the tick."""
    export, instance = exporter.export, context.instance
    if not ledger_of(exporter.settings, export.of).exists:
        return f"{export.of} does not exist yet."
    news = exporter.find_news()
    if not news:
        return f"No news: {export.name} has every row of {export.of}."
    if unfinished_run(instance, spec.key):
        return f"A run is writing {export.name}."
    reason = reason_to_wait(instance, export.job_name, spec.key, datetime.now(UTC), sensor_location(context))
    return reason or dg.RunRequest(tags={"lakehouse/news": news})


def _figures(update: ExportUpdate) -> Mapping[str, Any]:
    """What a run wrote, the versions of the export and of its table, and how many versions are newer."""
    return {
        "export_version": update.version,
        "consumed_version": update.source_version,
        "lag_versions": update.lag,
        "rows_written": update.rows,
        "files_written": update.files,
        "bytes_written": update.bytes,
        "published": update.kind or "no news",
        "manifest": dg.MetadataValue.path(update.manifest),
    }
