"""Exports in Dagster: an asset for each, and a job and a sensor for each that is enabled."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from lakehouse.declaration import Export, StreamTable
from lakehouse.defs.catalog_entries import step_name
from lakehouse.defs.followers import Following, build_follower
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.specs import code_references
from lakehouse.defs.steps import name_run
from lakehouse.defs.views import ViewCatalog
from lakehouse.exports.exporter import Exporter, ExportUpdate

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

    following = Following(
        export,
        f"Writes the files of {export.name}",
        export.of,
        waits_for=lambda settings: Exporter(settings, export).waits_for,
        find_news=lambda settings: Exporter(settings, export).find_news(),
    )
    return build_follower(run_export, spec, following)


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
