"""All Dagster definitions of declared tables, the same for production, tests and users."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import dagster as dg

from lakehouse.declaration import Export, StreamTable, View
from lakehouse.declaration.table import require_distinct_names
from lakehouse.defs.alerts import build_alerts
from lakehouse.defs.assets import build_assets
from lakehouse.defs.automation import build_automation
from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.checks import build_checks, build_verification
from lakehouse.defs.followers import ViewCatalog, build_exports, build_views
from lakehouse.defs.maintenance_job import build_maintenance
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.results import check_result, report_if_changed
from lakehouse.discovery import (
    Declaration,
    declared_tables,
    exports_of,
    readable_declarations,
    sort_exports,
)
from lakehouse.errors import DeclarationError, LakehouseError, SettingsError
from lakehouse.ledger.audit import Finding, finding
from lakehouse.settings import Settings

_KEY = dg.AssetKey(["lakehouse", "declarations"])
_CHECK = "every_file_loads"
_TICK_INTERVAL = 60  # seconds: a tick does nothing but fail
_LAKEHOUSE = LakehouseResource()  # shared: Dagster merges definitions only if a resource name has one object


@cache
def build_broken_files(problems: tuple[str, ...]) -> dg.Definitions:
    """Build what shows that files fail, with these errors; the same objects for each part of a code location."""
    if not problems:
        return dg.Definitions()
    result = _finding(problems)
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


def _finding(problems: tuple[str, ...]) -> Finding:
    advice = "Correct the files, then reload the code location."
    return finding(_CHECK, problems, "each file of declarations can be loaded", advice)


def build_defs(
    tables: Sequence[Declaration] | None = None,
    resources: Mapping[str, Any] | None = None,
    *,
    key_prefix: Sequence[str] | str = (),
    group: str | None = None,
    owners: Sequence[str] | str | None = None,
) -> dg.Definitions:
    """Build the Dagster definitions of these tables, views and exports, by default of all declared ones.

    You can merge the results of several calls, for example to put tables into different groups. ``resources`` may
    replace the resource ``lakehouse``. ``key_prefix`` precedes the name of each asset in its key; jobs and schedules
    have no prefix. The default group of the assets is the name of the table, their default owner is the declared one;
    ``group`` and ``owners`` override them. The steps of a job run in one process, so that they share a Spark session.
    The steps of the Materialize button do so if the definitions have ``executor=dg.in_process_executor``.
    A view or an export reads only tables and views of the same call.

    If files of declarations fail, an asset with a failed check and a failing sensor show their errors, and the tables
    of the others are built. Raises ``DeclarationError`` if two declarations have a table of the same name, or if a view
    or an export reads an unknown table or column, and the errors of ``declared_tables`` if no table can be loaded.
    """
    errors: list[LakehouseError] = []
    declarations = load_declarations(errors.append) if tables is None else require_distinct_names(*tables)
    stream_tables = [part for part in declarations if isinstance(part, StreamTable)]
    views = [part for part in declarations if isinstance(part, View)]
    exports = sort_exports((part for part in declarations if isinstance(part, Export)), stream_tables, views)
    prefix = (key_prefix,) if isinstance(key_prefix, str) else tuple(key_prefix)
    owner_names = (owners,) if isinstance(owners, str) else owners
    settings = _valid_settings()
    docs_url, has_database = (settings.docs_url, settings.database_url is not None) if settings else (None, False)
    entries = [
        CatalogEntry(table, prefix, group, owner_names, docs_url, has_database, exports_of(table, exports))
        for table in stream_tables
    ]
    assets_and_checks = dg.Definitions(
        assets=[asset for entry in entries for asset in build_assets(entry)],
        asset_checks=[check for entry in entries for check in build_checks(entry)],
        resources={"lakehouse": _LAKEHOUSE, **(resources or {})},
    )
    builders = (build_automation, build_maintenance, build_verification, build_alerts)
    catalog = ViewCatalog(prefix, group, owner_names)
    view_definitions = build_views(stream_tables, views, catalog)
    export_definitions = build_exports(exports, stream_tables, catalog)
    built_parts = (build(entry) for entry in entries for build in builders)
    broken_files = build_broken_files(tuple(map(str, errors)))
    return dg.Definitions.merge(assets_and_checks, *built_parts, view_definitions, export_definitions, broken_files)


def load_declarations(report: Callable[[LakehouseError], None]) -> Sequence[Declaration]:
    """Return all declarations; if files fail, those of the others, after ``report`` gets each error.

    Raises what ``declared_tables`` raises if no table can be loaded.
    """
    settings = Settings.load()
    declarations = readable_declarations(settings, report)
    tables = declarations.tables or declared_tables(settings)
    return (*tables, *declarations.views, *declarations.exports)


def _valid_settings() -> Settings | None:
    """The settings; ``None`` if one is invalid, which every run and tick reports."""
    with suppress(SettingsError):
        return Settings.load()
    return None
