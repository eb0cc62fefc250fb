"""The catalog of tables in Dagster: a check of each table, and a job and a sensor that register all of them."""

from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg

from lakehouse.catalogs.register import Registrable, open_catalog, register_all, registrable_tables
from lakehouse.catalogs.registration import Catalog
from lakehouse.declaration.vocabulary import fingerprint_of
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.runs import read_finished_runs, reason_to_wait, sensor_location, unfinished_run_of_job
from lakehouse.defs.specs import CatalogEntry
from lakehouse.defs.steps import check_result
from lakehouse.discovery import declared_tables, declared_views
from lakehouse.errors import LakehouseError
from lakehouse.ledger.audit import Finding, finding
from lakehouse.settings import Settings

CHECK = "registered"
_TICK_INTERVAL = 60  # seconds between two looks at the tables
_DOC = "The catalog of LAKEHOUSE_CATALOG has {0} as it is. If it fails, run lakehouse register {0}."


def registered_check(entry: CatalogEntry) -> dg.AssetChecksDefinition:
    """Compare what the catalog has of the tables of a declaration with them. A catalog that is away only warns."""
    tables = registrable_tables(Settings.model_construct(), [entry.table])
    specs = [entry.check_spec(CHECK, table.layout.name, _DOC.format(table.layout.name)) for table in tables]

    @dg.multi_asset_check(name=f"{entry.table.name}_{CHECK}", specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext, lakehouse: LakehouseResource) -> Iterator[dg.AssetCheckResult]:
        with explained():
            settings, catalog = lakehouse.settings, open_catalog(lakehouse.settings)
        selected_keys = {key.asset_key for key in context.selected_asset_check_keys}
        for table in registrable_tables(settings, [entry.table]):
            if entry.key(table.layout.name) in selected_keys:
                yield check_result(_find_drift(catalog, table), entry.key(table.layout.name))

    return check


def _find_drift(catalog: Catalog, table: Registrable) -> Finding:
    name, (results, errors) = table.layout.name, register_all(catalog, [table], check=True)
    problems = [*map(str, errors), *(difference for result in results for difference in result.differences)]
    return finding(CHECK, problems, f"the catalog has {name} as it is", f"Correct it: lakehouse register {name}")


def _find_tables(settings: Settings) -> Iterator[Registrable]:
    return registrable_tables(settings, declared_tables(settings), declared_views(settings))


@dg.op(out=dg.Out(dg.Nothing))
def register_declared_tables(context: dg.OpExecutionContext, lakehouse: LakehouseResource) -> None:
    """Register every declared table. A second run writes nothing. If one fails, the others are still registered."""
    with explained():
        settings = lakehouse.settings
        results, errors = register_all(open_catalog(settings), _find_tables(settings))
        for table in results:
            log = context.log.warning if table.note else context.log.info
            log(f"{table.table}: {table.outcome}. {' '.join(table.differences)} {table.note}")
        if errors:
            raise LakehouseError(" ".join(map(str, errors)))


@dg.job(executor_def=dg.in_process_executor, description="Registers all declared tables in the catalog.")
def register_tables() -> None:
    """The job that registers tables."""
    register_declared_tables()


@dg.sensor(
    job=register_tables,
    minimum_interval_seconds=_TICK_INTERVAL,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Requests register_tables if the columns, the meaning, the owner or the place of a table changed.",
)
def register_tables_sensor(
    context: dg.SensorEvaluationContext, lakehouse: LakehouseResource
) -> dg.RunRequest | dg.SkipReason:
    """Request a run after a change, and after a failed run. Looks at the logs of the tables, and asks no catalog."""
    settings, instance, job = lakehouse.settings, context.instance, register_tables.name
    location = sensor_location(context)
    news = fingerprint_of(settings.catalog, *(table.read() for table in _find_tables(settings)))
    newest_runs = read_finished_runs(instance, job, 1, location)
    if context.cursor == news and all(run.dagster_run.is_success for run in newest_runs):
        return dg.SkipReason("No news: each table is as it was when it was registered.")
    if unfinished_run_of_job(instance, job, location):
        return dg.SkipReason("A run is registering the tables.")
    if reason := reason_to_wait(instance, job, dg.AssetKey(job), datetime.now(UTC), location):
        return dg.SkipReason(reason)
    context.update_cursor(news)
    return dg.RunRequest()


REGISTRATION = dg.Definitions(jobs=[register_tables], sensors=[register_tables_sensor])
"""What follows all tables; the same objects for each part of a code location."""
