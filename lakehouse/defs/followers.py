"""Views, exports and sinks in Dagster: an asset for each, and a job and a sensor for each that follows its tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import dagster as dg
from pydantic import Field

from lakehouse.declaration import (
    ChangesTopic,
    DataExplorerTable,
    Export,
    PostgresTable,
    Sink,
    SqlServerTable,
    StreamTable,
    View,
)
from lakehouse.declaration.sink import Outlet
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.runs import reason_to_wait, sensor_location, unfinished_run
from lakehouse.defs.specs import code_references, column_lineage, step_name
from lakehouse.defs.steps import materialize_result, name_run, run_text
from lakehouse.exports.exporter import ExportUpdate
from lakehouse.operations.materialize import Materialization, TypedView, ViewUpdate, type_views
from lakehouse.settings import Settings
from lakehouse.sinks.delivery import SinkUpdate
from lakehouse.sinks.outlets import runner_of

TICK_INTERVAL = 15
"""Seconds between two looks at the tables."""
_KINDS = {
    PostgresTable: {"postgresql", "table"},
    SqlServerTable: {"sqlserver", "table"},
    DataExplorerTable: {"azure", "table"},
    ChangesTopic: {"kafka"},
}
_VERSIONS = dg.TableSchema(columns=[dg.TableColumn("table", "string"), dg.TableColumn("version", "int")])


@dataclass(frozen=True)
class ViewCatalog:
    """Where views are in the catalog: the prefix of their keys, and the group and owners in place of their own."""

    prefix: Sequence[str] = ()
    group: str | None = None
    owners: Sequence[str] | None = None

    def key(self, name: str) -> dg.AssetKey:
        """The key of the asset with this name."""
        return dg.AssetKey([*self.prefix, name])


def build_views(tables: Sequence[StreamTable], views: Sequence[View], catalog: ViewCatalog) -> dg.Definitions:
    """Build the assets of views over these tables, and what materializes them.

    Raises ``DeclarationError`` if a view reads a table or column that these tables do not have.
    """
    definitions = []
    for typed_view in type_views(tables, views) if views else ():
        spec = view_spec(typed_view, catalog)
        if typed_view.view.materialized:
            definitions.append(_build_materialized(spec, typed_view.view, views))
        else:
            definitions.append(dg.Definitions(assets=[spec]))
    return dg.Definitions.merge(*definitions)


def view_spec(typed_view: TypedView, catalog: ViewCatalog) -> dg.AssetSpec:
    """The asset of a view, with its columns and what they are computed from."""
    view = typed_view.view
    columns = [dg.TableColumn(name, type_.lower()) for name, type_ in typed_view.types.items()]
    metadata: dict[str, Any] = {
        "dagster/table_name": view.name,
        "dagster/column_schema": dg.TableSchema(columns=columns),
        "dagster/column_lineage": column_lineage(catalog.key, typed_view.origins),
        "sql": dg.MetadataValue.md(f"```sql\n{view.sql.strip()}\n```"),
        **({"dagster/code_references": code_references(view)} if view.file else {}),
    }
    return dg.AssetSpec(
        catalog.key(view.name),
        deps=[catalog.key(name) for name in view.reads],
        description=view.doc,
        group_name=catalog.group or "views",
        owners=[view.owner] if catalog.owners is None else list(catalog.owners),
        kinds={"duckdb", "delta", "table"} if view.materialized else {"duckdb", "view"},
        metadata=metadata,
    )


def _build_materialized(spec: dg.AssetSpec, view: View, views: Sequence[View]) -> dg.Definitions:
    """The asset that computes and stores the rows of a view, its job, and the sensor that requests it."""

    @dg.multi_asset(name=step_name(spec.key), specs=[spec], pool=view.name)
    def materialize(context: dg.AssetExecutionContext, lakehouse: LakehouseResource) -> Iterator[Any]:
        name_run(context.run.run_id)
        with explained():
            update = Materialization(lakehouse.settings, view, views).update(run_text(context.run, lakehouse.settings))
            yield materialize_result(spec, lakehouse.settings, _view_figures(update))

    following = Following(
        view,
        f"Computes and stores the rows of {view.name}",
        ", ".join(view.reads),
        waits_for=lambda settings: Materialization(settings, view, views).waits_for,
        find_news=lambda settings: ",".join(Materialization(settings, view, views).find_news()),
    )
    return build_follower(materialize, spec, following)


def _view_figures(update: ViewUpdate) -> Mapping[str, Any]:
    """The versions that a view was computed from, and the rows that were written; none if there was no news."""
    records = [dg.TableRecord({"table": name, "version": version}) for name, version in update.versions.items()]
    return {
        "consumed_versions": dg.MetadataValue.table(records, schema=_VERSIONS),
        "rows_written": update.rows or 0,
    }


class ExportConfig(dg.Config):
    """What a run of an outlet writes."""

    whole: bool = Field(
        default=False, description="Write all rows, also without news, and of an outlet that continues with changes."
    )


def build_outlets(outlets: Sequence[Outlet], tables: Sequence[StreamTable], catalog: ViewCatalog) -> dg.Definitions:
    """Build the assets of outlets of these tables, and what runs them. A disabled one is an external asset."""
    definitions = []
    for outlet in outlets:
        spec = outlet_spec(outlet, tables, catalog)
        definitions.append(_build_outlet(spec, outlet, tables) if outlet.enabled else dg.Definitions(assets=[spec]))
    return dg.Definitions.merge(*definitions)


def outlet_spec(outlet: Outlet, tables: Sequence[StreamTable], catalog: ViewCatalog) -> dg.AssetSpec:
    """The asset of an outlet, in the group of its table."""
    table_names = [table.name for table in tables if outlet.of in table.tables]
    state = "" if outlet.enabled else " It is disabled."
    return dg.AssetSpec(
        catalog.key(outlet.name),
        deps=[catalog.key(outlet.of)],
        description=f"{outlet.doc or _doc_of(outlet)}{state}",
        group_name=catalog.group or next(iter(table_names), "exports"),
        owners=[outlet.owner] if catalog.owners is None else list(catalog.owners),
        kinds=_kinds_of(outlet),
        metadata={"dagster/code_references": code_references(outlet)} if outlet.file else {},
    )


def _kinds_of(outlet: Outlet) -> set[str]:
    if isinstance(outlet, Export):
        return {outlet.format, "file"}
    return _KINDS[type(outlet.to)]


def _doc_of(outlet: Outlet) -> str:
    if isinstance(outlet, Sink):
        return f"The rows of {outlet.of} in the {outlet.to.place}."
    kind = "what changed in" if outlet.changes else "all rows of"
    return f"Files with {kind} {outlet.of}, as {outlet.format}."


def _build_outlet(spec: dg.AssetSpec, outlet: Outlet, tables: Sequence[StreamTable]) -> dg.Definitions:
    """The asset that runs an outlet, its job, and the sensor that requests it."""

    @dg.multi_asset(name=step_name(spec.key), specs=[spec], pool=outlet.name)
    def run_outlet(
        context: dg.AssetExecutionContext, config: ExportConfig, lakehouse: LakehouseResource
    ) -> Iterator[Any]:
        name_run(context.run.run_id)
        with explained():
            run = run_text(context.run, lakehouse.settings)
            update = runner_of(lakehouse.settings, outlet, tables).update(run, whole=config.whole)
            version = dg.DataVersion(str(update.version if isinstance(update, ExportUpdate) else update.source_version))
            yield dg.MaterializeResult(asset_key=spec.key, metadata=_outlet_figures(update), data_version=version)

    following = Following(
        outlet,
        f"Writes the {'rows' if isinstance(outlet, Sink) else 'files'} of {outlet.name}",
        outlet.of,
        waits_for=lambda settings: runner_of(settings, outlet, tables).waits_for,
        find_news=lambda settings: runner_of(settings, outlet, tables).find_news(),
    )
    return build_follower(run_outlet, spec, following)


def _outlet_figures(update: ExportUpdate | SinkUpdate) -> Mapping[str, Any]:
    """What a run wrote, the version of the table that the outlet has, and how many versions are newer."""
    figures = {
        "consumed_version": update.source_version,
        "lag_versions": update.lag,
        "rows_written": update.rows,
        "published": update.kind or "no news",
    }
    if isinstance(update, SinkUpdate):
        return figures | {"rows_deleted": update.deleted, "target": update.target}
    figures |= {"export_version": update.version, "files_written": update.files, "bytes_written": update.bytes}
    return figures | {"manifest": dg.MetadataValue.path(update.manifest)}


class Following(NamedTuple):
    """How an asset follows its tables.

    ``waits_for`` returns the table that does not exist yet, if nothing can be read before, and ``find_news`` a text
    that names the news. ``purpose`` is what the job does, and ``tables`` which tables it reads, as people read them.
    """

    follower: View | Outlet
    purpose: str
    tables: str
    waits_for: Callable[[Settings], str | None]
    find_news: Callable[[Settings], str | None]


def build_follower(asset: dg.AssetsDefinition, spec: dg.AssetSpec, following: Following) -> dg.Definitions:
    """Build the job and the sensor of an asset. A failure to find news fails the tick."""
    follower = following.follower
    job = dg.define_asset_job(
        follower.job_name,
        executor_def=dg.in_process_executor,
        selection=dg.AssetSelection.assets(spec.key).without_checks(),
        description=f"{following.purpose}, if there is news in {following.tables}.",
    )

    @dg.sensor(
        name=follower.sensor_name,
        job=job,
        minimum_interval_seconds=TICK_INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Requests a run of {follower.job_name} if rows of {following.tables} changed since the last one.",
    )
    def evaluate(context: dg.SensorEvaluationContext, lakehouse: LakehouseResource) -> dg.RunRequest | dg.SkipReason:
        if missing_table := following.waits_for(lakehouse.settings):
            return dg.SkipReason(f"{follower.name} reads {missing_table}, which does not exist yet.")
        news = following.find_news(lakehouse.settings)
        no_news = f"No news: {follower.name} has every row of {following.tables}."
        return _request_run(context, spec, follower, news) if news else dg.SkipReason(no_news)

    return dg.Definitions(assets=[asset], jobs=[job], sensors=[evaluate])


def _request_run(
    context: dg.SensorEvaluationContext, spec: dg.AssetSpec, follower: View | Outlet, news: str
) -> dg.RunRequest | dg.SkipReason:
    """Request a run for the news, unless one is updating the asset, or a failed one is to be tried again later."""
    location, now = sensor_location(context), datetime.now(UTC)
    if unfinished_run(context.instance, spec.key, location):
        return dg.SkipReason(f"A run is updating {follower.name}.")
    reason = reason_to_wait(context.instance, follower.job_name, spec.key, now, location)
    return dg.SkipReason(reason) if reason else dg.RunRequest(tags={"lakehouse/news": news})
