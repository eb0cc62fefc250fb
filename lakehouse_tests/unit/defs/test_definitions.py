"""The definitions as Dagster loads them: no Spark, no broker."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Check, Column, Debezium, Promise, StreamTable, Upkeep
from lakehouse.declaration.names import CHECK_NAMES
from lakehouse.definitions import defs
from lakehouse.defs import resources
from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.steps import WARNINGS
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings
from lakehouse_tests.helpers.tables.log_tables import log_table

TOPIC, BASE, MERGED = "temperatures_topic", "temperatures_base", "temperatures"
REJECTED, CHANGES, ROLLUP = "temperatures_rejected", "temperatures_changes", "temperatures_by_location"
TABLES_AND_TOPIC = {TOPIC, BASE, MERGED, REJECTED, CHANGES, ROLLUP, "locations"}


STEP_CHECKS = {
    (MERGED, "batches_accounted"),
    (CHANGES, "changes_kept"),
    (ROLLUP, "touched_groups_stored"),
}
WARNING_CHECKS = {(MERGED, "rejected_share"), (MERGED, "producer_time")}
WHOLE_TABLE_CHECKS = {
    *(
        (MERGED, name)
        for name in (
            "records_accounted",
            "rows_accounted",
            "ranges_contiguous",
            "totals_match",
            "log_unchanged",
            "keys_unique",
        )
    ),
    (MERGED, "keys_unique"),
    (CHANGES, "every_change_kept"),
    (ROLLUP, "rollup_equals_recomputation"),
}


def checks_in(job: dg.JobDefinition) -> set[tuple[str, str]]:
    """The checks that a job executes, by asset and name."""
    return {(key.asset_key.to_user_string(), key.name) for key in job.asset_layer.asset_graph.asset_check_keys}


@pytest.fixture(scope="module")
def repository() -> dg.RepositoryDefinition:
    return defs.get_repository_def()


@pytest.fixture(scope="module")
def specs() -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for spec in build_defs().resolve_all_asset_specs()}


def test_a_fresh_interpreter_loads_the_definitions_and_starts_nothing():
    program = """
import socket, subprocess
import dagster, dagster_pyspark, deltalake
from pyspark import SparkContext
def refuse(*_, **__): raise AssertionError("something was started at import")
subprocess.Popen.__init__ = socket.socket.connect = refuse
import lakehouse.definitions
assert lakehouse.definitions.defs.get_repository_def() and SparkContext._active_spark_context is None
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def test_every_part_of_the_declaration_is_an_asset_of_its_group(specs):
    assert set(specs) == TABLES_AND_TOPIC
    assert {spec.group_name for spec in specs.values()} == {"temperatures"}


@pytest.mark.parametrize("name", sorted(TABLES_AND_TOPIC))
def test_an_asset_has_a_description_an_owner_kinds_and_columns(specs, name):
    spec = specs[name]
    assert spec.description
    assert spec.owners == [temperatures.owner]
    assert spec.kinds == ({"kafka"} if name == TOPIC else {"delta", "spark", "table"})
    assert spec.metadata["dagster/table_name"] == name
    columns = spec.metadata["dagster/column_schema"].columns
    assert columns
    assert all(column.description for column in columns)
    (reference,) = spec.metadata["dagster/code_references"].code_references
    assert reference.file_path == temperatures.file


def test_the_lineage_of_the_assets_is_the_data_flow(specs):
    edges = {name: {dep.asset_key.to_user_string() for dep in spec.deps} for name, spec in specs.items()}
    assert edges == {
        "locations": set(),
        TOPIC: set(),
        BASE: set(),
        MERGED: {TOPIC, BASE},
        REJECTED: {TOPIC},
        CHANGES: {MERGED},
        ROLLUP: {MERGED},
    }


def test_columns_have_the_columns_that_they_are_computed_from_as_lineage(specs):
    def origins(name: str, column: str) -> set[tuple[str, str]]:
        deps = specs[name].metadata["dagster/column_lineage"].deps_by_column[column]
        return {(dep.asset_key.to_user_string(), dep.column_name) for dep in deps}

    assert origins(MERGED, "observed_at") == {(TOPIC, "time"), (BASE, "observed_at")}
    assert origins(MERGED, "observed_month") == origins(MERGED, "observed_at")
    assert origins(CHANGES, "temperature_2m_before") == {(MERGED, "temperature_2m")}
    assert origins(ROLLUP, "temperature_avg") == {(MERGED, "temperature_2m")}
    assert origins(ROLLUP, "observed_month") == {(MERGED, "observed_month")}
    assert origins(ROLLUP, "rows") == set()


def test_every_column_of_a_lineage_is_in_a_schema(specs):
    schemas = {name: {c.name for c in spec.metadata["dagster/column_schema"].columns} for name, spec in specs.items()}
    lineage_key = "dagster/column_lineage"
    lineages = {name: spec.metadata[lineage_key] for name, spec in specs.items() if lineage_key in spec.metadata}
    assert set(lineages) == {MERGED, CHANGES, ROLLUP}
    for name, lineage in lineages.items():
        assert set(lineage.deps_by_column) <= schemas[name]
        for dep in (dep for deps in lineage.deps_by_column.values() for dep in deps):
            assert dep.column_name in schemas[dep.asset_key.to_user_string()]


def test_one_step_writes_merged_and_rejected_and_each_can_be_selected_alone(repository):
    merged = repository.assets_defs_by_key[dg.AssetKey(MERGED)]
    assert merged.keys == {dg.AssetKey(MERGED), dg.AssetKey(REJECTED)}
    assert merged.can_subset


@pytest.mark.invariant("11.1")
def test_every_writer_of_a_table_waits_in_its_pool(repository):
    writers = [asset for asset in repository.assets_defs_by_key.values() if asset.is_executable]
    (maintenance,) = repository.get_job("maintain_temperatures").nodes
    assert {asset.op.pool for asset in writers} | {maintenance.definition.pool} == {"temperatures"}


def test_the_merge_job_writes_the_merged_rejected_and_derived_tables(repository):
    job = repository.get_job("merge_temperatures")
    selected_names = {key.to_user_string() for key in job.asset_layer.executable_asset_keys}
    assert selected_names == {MERGED, REJECTED, CHANGES, ROLLUP}
    assert checks_in(job) == {*STEP_CHECKS, *WARNING_CHECKS}
    assert {name for _, name in WARNING_CHECKS} <= WARNINGS


def test_a_separate_job_checks_whole_tables_every_night(repository):
    job = repository.get_job("verify_temperatures")
    assert not job.asset_layer.executable_asset_keys
    waiting_checks = {(MERGED, "batch_can_be_planned"), (MERGED, "nothing_held_back")}
    assert checks_in(job) == {*WHOLE_TABLE_CHECKS, *WARNING_CHECKS, *waiting_checks}
    schedule = repository.get_schedule_def("temperatures_checks_daily")
    assert (schedule.job_name, schedule.cron_schedule, schedule.execution_timezone) == (job.name, "0 4 * * *", "UTC")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING


def test_a_separate_job_runs_maintenance_every_night(repository):
    job = repository.get_job("maintain_temperatures")
    assert [node.name for node in job.nodes] == ["temperatures_maintenance"]
    schedule = repository.get_schedule_def("temperatures_maintenance_daily")
    assert (schedule.job_name, schedule.cron_schedule, schedule.execution_timezone) == (job.name, "0 3 * * *", "UTC")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING


@pytest.mark.parametrize(
    ("every", "cron"),
    [
        (timedelta(minutes=20), "*/20 * * * *"),
        (timedelta(hours=1), "0 */1 * * *"),
        (timedelta(hours=6), "0 */6 * * *"),
    ],
    ids=str,
)
def test_maintenance_runs_as_often_as_declared(every: timedelta, cron: str) -> None:
    repository = build_defs(tables=[replace(temperatures, upkeep=Upkeep(every=every))]).get_repository_def()
    assert not repository.has_schedule_def("temperatures_maintenance_daily")
    assert repository.get_schedule_def("temperatures_maintenance_schedule").cron_schedule == cron


def test_maintenance_is_not_requested_again_before_a_run_of_it_has_ended() -> None:
    repository = build_defs([replace(temperatures, upkeep=Upkeep(every=timedelta(minutes=5)))]).get_repository_def()
    schedule = repository.get_schedule_def("temperatures_maintenance_schedule")
    with dg.instance_for_test() as instance:
        for unfinished_job, request_count in (("merge_temperatures", 1), ("maintain_temperatures", 0)):
            instance.create_run_for_job(repository.get_job(unfinished_job), status=dg.DagsterRunStatus.STARTED)
            resources = {"lakehouse": LakehouseResource.with_settings(Settings())}
            with dg.build_schedule_context(instance, datetime(2026, 1, 1, tzinfo=UTC), resources=resources) as context:
                tick = schedule.evaluate_tick(context)
            assert len(tick.run_requests or ()) == request_count
    assert tick.skip_message == "A run of maintain_temperatures has not ended."


def test_every_job_runs_in_one_process(repository):
    jobs = repository.get_all_jobs()
    assert {"merge_temperatures", "maintain_temperatures", "__ASSET_JOB"} <= {job.name for job in jobs}
    assert {job.executor_def.name for job in jobs} == {"in_process"}


def test_the_sensor_is_on_and_requests_the_merge_job(repository):
    sensor = repository.get_sensor_def("temperatures_sensor")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    assert [target.job_name for target in sensor.targets] == ["merge_temperatures"]


def test_the_resource_starts_a_session_on_first_use_and_stops_it(monkeypatch):
    calls: list[str] = []
    monkeypatch.setattr(resources, "build_session", lambda _: calls.append("start") or SimpleNamespace())
    monkeypatch.setattr(resources, "stop_session", lambda _: calls.append("stop"))
    monkeypatch.setattr(resources, "activate", lambda _: None)
    monkeypatch.setattr(resources, "keep_exact", lambda _: False)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    lazy_resource = resources.LakehouseResource.with_settings(Settings())
    with lazy_resource.from_resource_context_cm(dg.build_init_resource_context()) as resource:
        assert calls == []
        assert resource.spark_session is resource.spark_session
        assert calls == ["start"]
    assert calls == ["start", "stop"]


def test_a_declared_check_is_a_check_of_the_table_and_all_other_names_are_reserved(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAKEHOUSE_CATALOG", "glue://eu-central-1/lake")
    positive = Check("positive", "latitude > 0", "North of the equator.", severity="warn")
    table = replace(
        temperatures,
        checks=[positive],
        promise=Promise(fresh=timedelta(minutes=5), max_lag=1000),
        columns=[*temperatures.columns, Column("revision", "BIGINT", "Number.", required=True)],
        version="revision",
    )
    definitions = build_defs([table])
    graph = definitions.get_repository_def().asset_graph
    merged_keys = [key for key in graph.asset_check_keys if key.asset_key.to_user_string() == MERGED]
    descriptions = {key.name: graph.get_check_spec(key).description for key in merged_keys}
    assert descriptions.pop("positive") == "North of the equator."
    assert descriptions.keys() == CHECK_NAMES


def test_a_log_table_has_the_same_assets_checks_and_jobs_but_no_change_feed():
    log = log_table()
    (rollup,) = log.rollups
    defs = build_defs([log])
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    asset_names = {f"{log.name}{suffix}" for suffix in ("", "_topic", "_rejected")}
    assert set(specs) == {*asset_names, rollup.name}
    repository = defs.get_repository_def()
    assert {asset for asset, _ in checks_in(repository.get_job(f"verify_{log.name}"))} == {log.name, rollup.name}
    step_checks = {(log.name, "batches_accounted"), (rollup.name, "touched_groups_stored")}
    warning_checks = {(log.name, name) for name in ("rejected_share", "producer_time")}
    assert checks_in(repository.get_job(f"merge_{log.name}")) == step_checks | warning_checks


def test_only_a_table_of_a_change_stream_is_compared_with_the_database_that_is_set(monkeypatch):
    columns = [Column("id", "BIGINT", "Number.", required=True)]
    items = StreamTable("items", "shop.public.items", "Items.", columns, ["id"], format=Debezium())
    compared = {("items", "equals_database")}

    def verified() -> set[tuple[str, str]]:
        repository = build_defs([items, temperatures]).get_repository_def()
        return {
            check for name in ("items", "temperatures") for check in checks_in(repository.get_job(f"verify_{name}"))
        }

    without_database = verified()
    monkeypatch.setenv("LAKEHOUSE_DATABASE_URL", "postgresql://reader@db/shop")
    assert verified() - without_database == compared
