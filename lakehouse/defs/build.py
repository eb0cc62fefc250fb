"""All Dagster definitions of declared tables, the same for production, tests and users."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import dagster as dg

from lakehouse.declaration import Export, StreamTable, View, require_distinct_names
from lakehouse.defs.alerts import build_alerts
from lakehouse.defs.assets import build_assets
from lakehouse.defs.automation import build_automation
from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.checks import build_checks, build_verification
from lakehouse.defs.exports import build_exports
from lakehouse.defs.maintenance_job import build_maintenance
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.views import ViewCatalog, build_views
from lakehouse.discovery import (
    Declaration,
    declared_exports,
    declared_tables,
    declared_views,
    exports_of,
    sort_exports,
)
from lakehouse.errors import SettingsError
from lakehouse.settings import Settings

_LAKEHOUSE = LakehouseResource()  # shared: Dagster merges definitions only if a resource name has one object


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
    A view or an export reads only tables and views of the same call. Raises ``DeclarationError`` if two declarations
    have a table of the same name, or if a view or an export reads an unknown table or column, and the errors of
    ``declared_tables``.
    """
    declarations = _all_declarations() if tables is None else require_distinct_names(*tables)
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
    return dg.Definitions.merge(assets_and_checks, *built_parts, view_definitions, export_definitions)


def _all_declarations() -> Sequence[Declaration]:
    settings = Settings.load()
    return (*declared_tables(settings), *declared_views(settings), *declared_exports(settings))


def _valid_settings() -> Settings | None:
    """The settings; ``None`` if one is invalid, which every run and tick reports."""
    with suppress(SettingsError):
        return Settings.load()
    return None
