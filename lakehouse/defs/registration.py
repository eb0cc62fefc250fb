"""The catalog of tables in Dagster: a check of each table, and a job and a sensor that register all of them."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import dagster as dg

from lakehouse.catalogs.register import register_all, registrable_tables
from lakehouse.catalogs.registration import Registrable
from lakehouse.declaration.vocabulary import fingerprint_of
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.runs import read_finished_runs, reason_to_wait, sensor_location, unfinished_run_of_job
from lakehouse.defs.specs import CatalogEntry
from lakehouse.defs.steps import check_result
from lakehouse.discovery import readable_declarations
from lakehouse.errors import LakehouseError, StoreUnreachableError
from lakehouse.ledger.audit import finding
from lakehouse.settings import Settings

CHECK = "registered"
_TICK_INTERVAL = 60  # seconds between two looks at the tables
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_DOC = "The catalog of LAKEHOUSE_CATALOG has {0} as it is. If it fails, run lakehouse register {0}."


def registered_check(entry: CatalogEntry) -> dg.AssetChecksDefinition:
    """Compare what the catalog has of the tables of a declaration with them. A catalog that is away only warns."""
    tables = registrable_tables(Settings.model_construct(), [entry.table])
    specs = [entry.check_spec(CHECK, table.layout.name, _DOC.format(table.layout.name)) for table in tables]

    @dg.multi_asset_check(name=f"{entry.table.name}_{CHECK}", specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext, lakehouse: LakehouseResource) -> Iterator[dg.AssetCheckResult]:
        with explained():
            settings = lakehouse.settings
        selected_keys = {key.asset_key for key in context.selected_asset_check_keys}
        tables = [t for t in registrable_tables(settings, [entry.table]) if entry.key(t.layout.name) in selected_keys]
        results, errors = register_all(settings, tables, check=True)
        problems = {table.table: table.differences for table in results} | {n: [str(e)] for n, e in errors.items()}
        for name in (table.layout.name for table in tables):
            fact, advice = f"the catalog has {name} as it is", f"Correct it: lakehouse register {name}"
            yield check_result(finding(CHECK, problems.get(name, ()), fact, advice), entry.key(name))

    return check


def _find_tables(settings: Settings, report: Callable[[LakehouseError], None]) -> Iterator[Registrable]:
    declarations = readable_declarations(settings, report)
    return registrable_tables(settings, declarations.tables, declarations.views)


def _read_state(table: Registrable) -> object:
    """What is to be registered, or the kind of error if the log cannot be read. No store is waited for again."""
    try:
        return table.read()
    except StoreUnreachableError:
        raise
    except LakehouseError as error:
        return type(error).__name__


@dg.op(out=dg.Out(dg.Nothing))
def register_declared_tables(context: dg.OpExecutionContext, lakehouse: LakehouseResource) -> None:
    """Register every declared table. A second run writes nothing. If one fails, the others are still registered."""
    with explained():
        settings = lakehouse.settings
        results, errors = register_all(settings, _find_tables(settings, context.log.warning))
        for table in results:
            log = context.log.warning if table.note else context.log.info
            log(f"{table.table}: {table.outcome}. {' '.join(table.differences)} {table.note}")
        if errors:
            raise LakehouseError(" ".join(dict.fromkeys(map(str, errors.values()))))


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
    """Request a run after a change, and until one succeeds. Reads the logs of the tables, and asks no catalog."""
    settings, instance, job = lakehouse.settings, context.instance, register_tables.name
    location = sensor_location(context)
    news = fingerprint_of(settings.catalog, *(_read_state(table) for table in _find_tables(settings, lambda _: None)))
    newest_runs = read_finished_runs(instance, job, 1, location, _ENDED)
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
