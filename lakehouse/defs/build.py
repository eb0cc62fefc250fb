"""All Dagster definitions of declared tables, the same for production, tests and users; as a component too."""

import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster.components.component_scaffolding import scaffold_component
from pydantic import BaseModel, Field

from lakehouse.declaration import StreamTable, View
from lakehouse.declaration.names import spelling_hint
from lakehouse.declaration.sink import Outlet
from lakehouse.declaration.table import require_distinct_names
from lakehouse.defs.alerts import build_alerts
from lakehouse.defs.assets import Asset, build_assets
from lakehouse.defs.automation import build_automation
from lakehouse.defs.checks import build_checks, build_verification
from lakehouse.defs.followers import ViewCatalog, build_outlets, build_views
from lakehouse.defs.maintenance_job import build_maintenance
from lakehouse.defs.registration import REGISTRATION
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.specs import CatalogEntry
from lakehouse.defs.steps import check_result, report_if_changed
from lakehouse.discovery import Declaration, declared_tables, outlets_of, readable_declarations, sort_outlets
from lakehouse.errors import DeclarationError, LakehouseError, SettingsError
from lakehouse.ledger.audit import finding
from lakehouse.settings import Settings

_KEY = dg.AssetKey(["lakehouse", "declarations"])
_CHECK = "every_file_loads"
_TICK_INTERVAL = 60  # seconds: a tick does nothing but fail
_LAKEHOUSE = LakehouseResource()  # shared: Dagster merges definitions only if a resource name has one object
TYPE = "lakehouse.LakehouseTables"
_NEW_TABLE = "from lakehouse.cli.main import main; main()"


@cache
def build_broken_files(problems: tuple[str, ...]) -> dg.Definitions:
    """Build what shows that files fail, with these errors; the same objects for each part of a code location."""
    if not problems:
        return dg.Definitions()
    advice = "Correct the files, then reload the code location."
    result = finding(_CHECK, problems, "each file of declarations can be loaded", advice)
    spec = dg.AssetSpec(_KEY, description=f"Files of declarations. {result.detail}", group_name="declarations")

    @dg.asset_check(name=_CHECK, asset=_KEY, description="Each file of declarations can be loaded.")
    def check() -> dg.AssetCheckResult:
        return check_result(result, _KEY)

    @dg.sensor(
        name="lakehouse_declarations_sensor",
        minimum_interval_seconds=_TICK_INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Fails while files of declarations fail. The tables of the other files are merged.",
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        report_if_changed(context.instance, result, _KEY)
        raise DeclarationError(result.detail)

    return dg.Definitions(assets=[dg.AssetsDefinition(specs=[spec])], asset_checks=[check], sensors=[evaluate])


def build_defs(
    tables: Sequence[Declaration] | None = None,
    resources: Mapping[str, Any] | None = None,
    *,
    key_prefix: Sequence[str] | str = (),
    group: str | None = None,
    owners: Sequence[str] | str | None = None,
) -> dg.Definitions:
    """Build the Dagster definitions of these tables, views, exports and sinks, by default of all declared ones.

    You can merge the results of several calls, for example to put tables into different groups. ``resources`` may
    replace the resource ``lakehouse``. ``key_prefix`` precedes the name of each asset in its key; jobs and schedules
    have no prefix. The default group of the assets is the name of the table, their default owner is the declared one;
    ``group`` and ``owners`` override them. The steps of a job run in one process, so that they share a Spark session.
    The steps of the Materialize button do so if the definitions have ``executor=dg.in_process_executor``.
    A view, an export or a sink reads only tables and views of the same call.

    If files of declarations fail, an asset with a failed check and a failing sensor show their errors, and the tables
    of the others are built. Raises ``DeclarationError`` if two declarations have a table of the same name, or if a
    view, an export or a sink reads an unknown table or column, and the errors of ``declared_tables`` if no table can be
    loaded.
    """
    errors: list[LakehouseError] = []
    declarations = load_declarations(errors.append) if tables is None else require_distinct_names(*tables)
    stream_tables = [part for part in declarations if isinstance(part, StreamTable)]
    views = [part for part in declarations if isinstance(part, View)]
    outlets = sort_outlets((part for part in declarations if isinstance(part, Outlet)), stream_tables, views)
    prefix = (key_prefix,) if isinstance(key_prefix, str) else tuple(key_prefix)
    owner_names = (owners,) if isinstance(owners, str) else owners
    settings = _valid_settings()
    docs_url, has_database = (settings.docs_url, settings.database_url is not None) if settings else (None, False)
    has_catalog = bool(settings and settings.catalog)
    entries = [
        CatalogEntry(
            *(table, prefix, group, owner_names, docs_url, has_database, has_catalog, outlets_of(table, outlets)),
            readers=[reader for reader in stream_tables if _source_of(reader) == _source_of(table)],
        )
        for table in stream_tables
    ]
    assets = [build_assets(entry) for entry in entries]
    checks = [build_checks(entry) for entry in entries]
    assets_and_checks = dg.Definitions(
        assets=[asset for part in assets for asset in part],
        asset_checks=[check for part in checks for check in part],
        resources={"lakehouse": _LAKEHOUSE, **(resources or {})},
    )
    automation = map(build_automation, entries, map(_check_keys, assets, checks), checks)
    built_parts = [*automation, *map(build_verification, entries, checks)]
    built_parts += [build(entry) for entry in entries for build in (build_maintenance, build_alerts)]
    catalog = ViewCatalog(prefix, group, owner_names)
    view_definitions = build_views(stream_tables, views, catalog)
    outlet_definitions = build_outlets(outlets, stream_tables, catalog)
    broken_files = build_broken_files(tuple(map(str, errors)))
    registration = [REGISTRATION] if settings and settings.catalog and settings.catalog_follows else []
    return dg.Definitions.merge(
        assets_and_checks, *built_parts, view_definitions, outlet_definitions, *registration, broken_files
    )


def _source_of(table: StreamTable) -> tuple[str, ...]:
    """What a table reads: equal for tables of the same topic, topics, folder or table."""
    names = getattr(table.source, "names", "")  # of topics, or the pattern of files
    return (table.topic_text, *([names] if isinstance(names, str) else names))


def _check_keys(assets: Iterable[Asset], checks: Iterable[dg.AssetChecksDefinition]) -> set[dg.AssetCheckKey]:
    return {key for part in (*assets, *checks) if isinstance(part, dg.AssetsDefinition) for key in part.check_keys}


def load_declarations(report: Callable[[LakehouseError], None]) -> Sequence[Declaration]:
    """Return all declarations; if files fail, those of the others, after ``report`` gets each error.

    Raises what ``declared_tables`` raises if no table can be loaded.
    """
    settings = Settings.load()
    declarations = readable_declarations(settings, report)
    tables = declarations.tables or declared_tables(settings)
    return (*tables, *declarations.views, *declarations.outlets)


def _valid_settings() -> Settings | None:
    """The settings; ``None`` if one is invalid, which every run and tick reports."""
    with suppress(SettingsError):
        return Settings.load()
    return None


class NewTable(BaseModel):
    """Where the records are from which a declaration is proposed; without either, no file is written."""

    from_topic: str | None = Field(None, description="Propose a declaration from the newest records of this topic.")
    from_sample: str | None = Field(None, description="Propose a declaration from a file of lines.")


class LakehouseTablesScaffolder(dg.Scaffolder[NewTable]):
    """Writes ``defs.yaml`` and, from records, the declaration of a table, as ``lakehouse new-table`` does."""

    @classmethod
    def get_scaffold_params(cls) -> type[NewTable]:
        """The options of ``dg scaffold defs lakehouse.LakehouseTables``."""
        return NewTable

    def scaffold(self, request: dg.ScaffoldRequest[NewTable]) -> None:
        """Write the declaration first: an error leaves no component behind."""
        options = [
            *(["--from-topic", request.params.from_topic] if request.params.from_topic else []),
            *(["--from-sample", request.params.from_sample] if request.params.from_sample else []),
        ]
        name = request.target_path.name
        if options:
            command = [sys.executable, "-c", _NEW_TABLE, "new-table", name, *options]
            subprocess.run(command, cwd=request.project_root, check=True)
        scaffold_component(request, {"tables": [name]} if options else {})


@dg.scaffold_with(LakehouseTablesScaffolder)
class LakehouseTables(dg.Component, dg.Model, dg.Resolvable):
    """Kafka topics merged exactly into Delta tables, from declarations in Python.

    Loads the tables that the project declares, where tool.lakehouse of its pyproject.toml says: for each its topic,
    rejected records, change feed and rollups, with lineage, checks, a job, a sensor and maintenance. Override
    get_asset_spec to change the specs of the assets.
    """

    tables: Sequence[str] | None = Field(
        None,
        description="Names of the tables, views, exports and sinks. Default: all declared ones that no other component"
        " names. A view, an export or a sink needs the tables that it reads in the same component.",
    )
    key_prefix: Sequence[str] = Field((), description="Parts in front of the name of each asset in its key.")
    group: str | None = Field(None, description="Group of the assets. Default: the name of the table.")
    owners: Sequence[str] | None = Field(None, description="Owners of the assets. Default: the declared owner.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the definitions of the tables; raises ``DeclarationError`` if a name is not declared.

        If files fail, the names that the others do not declare are left out, and an asset shows the errors.
        """
        errors: list[LakehouseError] = []
        tables = self._select_tables(self._tables_of_components(context.defs_module_path), errors)
        definitions = build_defs(tables, key_prefix=self.key_prefix, group=self.group, owners=self.owners)
        own_definitions = definitions.map_asset_specs(func=self.get_asset_spec)
        return dg.Definitions.merge(own_definitions, build_broken_files(tuple(map(str, errors))))

    def get_asset_spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Return the spec of an asset; override it to add tags, metadata or another owner."""
        return spec

    def _select_tables(self, component_names: Collection[str], errors: list[LakehouseError]) -> list[Declaration]:
        tables = {declaration.name: declaration for declaration in load_declarations(errors.append)}
        names = [name for name in tables if name not in component_names] if self.tables is None else self.tables
        unknown = [name for name in names if name not in tables]
        if unknown and not errors:
            raise DeclarationError(
                f"Unknown table {unknown[0]} in a component {TYPE}",
                action=f"{spelling_hint(unknown[0], tables)}The declared tables are {', '.join(tables)}.",
            )
        return [tables[name] for name in names if name in tables]

    def _tables_of_components(self, folder: Path) -> set[str]:
        """The tables that components of this type name in the files ``defs.yaml`` of a project."""
        types = {TYPE, *(f"{base.__module__}.{base.__qualname__}" for base in type(self).__mro__)}
        documents = [
            document for file in folder.rglob("defs.yaml") for document in yaml.safe_load_all(file.read_text())
        ]
        components = [part for part in documents if isinstance(part, dict) and part.get("type") in types]
        return {name for component in components for name in (component.get("attributes") or {}).get("tables") or ()}
