"""The assets and their checks as Dagster runs them: a real broker, Spark and Delta."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.definitions import build_defs
from lakehouse.defs.config import MergeConfig, RangeConfig
from lakehouse.defs.resources import LakehouseResource
from lakehouse.ingest import plan_next
from lakehouse.local.broker import bootstrap_servers
from lakehouse.settings import Settings
from lakehouse.tables.temperatures import temperatures
from lakehouse.topic import publish

LINES = [line for line, _ in zip(temperatures.samples.stream(), range(90), strict=False)]
FIRST, SECOND = [*LINES[:60], b"{", b"[]"], LINES[60:]
WRITTEN = ("temperatures", "temperatures_changes", "temperatures_by_location")


class Lakehouse:
    """Definitions of one table with a topic and tables of its own, and the runs made of them."""

    def __init__(self, settings: Settings, instance: dg.DagsterInstance, topic: str, **declared: Any) -> None:
        self.settings = settings
        self.instance = instance
        self.table = replace(temperatures, topic=topic, **declared)
        self.resources = {"lakehouse": LakehouseResource.with_settings(settings)}
        self.defs = build_defs([self.table], self.resources)

    def run(self, job: str = "__ASSET_JOB", config: Mapping[str, Any] | None = None, **options: Any):
        return self.defs.resolve_job_def(job).execute_in_process(instance=self.instance, run_config=config, **options)

    def merge(self, config: MergeConfig) -> Mapping[str, Any]:
        run = self.run("merge_temperatures", dg.RunConfig(ops={"temperatures": config}).to_config_dict())
        return facts(run)["temperatures"]


def facts(run: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """What each asset of a run told, by its name."""
    assert run.success
    told = [event.materialization for event in run.get_asset_materialization_events()]
    return {one.asset_key.to_user_string(): {name: entry.value for name, entry in one.metadata.items()} for one in told}


def checks(run: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {one.check_name: one for one in run.get_asset_check_evaluations()}


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def lakehouse(spark: SparkSession, broker: Settings, instance, tmp_path, request) -> Lakehouse:
    settings = Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker))
    return Lakehouse(settings, instance, f"dagster-{os.getpid()}-{tmp_path.name}")


def assert_told(lakehouse: Lakehouse, name: str, told: dict[str, Any]) -> None:
    """A table tells where it is, its version and how long it took."""
    assert told["table_version"] > 0
    assert told["seconds"] >= 0
    assert told["dagster/uri"] == lakehouse.settings.table_uri(name)
    version = lakehouse.instance.get_latest_materialization_event(dg.AssetKey(name)).asset_materialization.tags
    assert version["dagster/data_version"] == str(told["table_version"])


def test_everything_materializes_without_configuration_and_again_without_effect(lakehouse):
    assert publish(lakehouse.settings, lakehouse.table, FIRST) == len(FIRST)
    run = lakehouse.run()
    first = facts(run)
    maintained = first.pop("temperatures_maintenance")
    assert set(first) == {*WRITTEN, "locations", "temperatures_base", "temperatures_rejected"}
    assert {row.data["table"] for row in maintained["tables"].records} == set(first)
    assert (maintained["idle"], maintained["kept"], maintained["removed"]) == (False, "", 0)
    now = {name: DeltaTable(lakehouse.settings.table_uri(name)).version() for name in first}
    merged = first["temperatures"]
    counts = ("read", "rejected", "duplicate", "source_rows", "inserted", "updated", "stale", "batches")
    assert {name: merged[name] for name in counts} == {
        "read": len(FIRST),
        "rejected": 2,
        "duplicate": 0,
        "source_rows": 60,
        "inserted": 60,
        "updated": 0,
        "stale": 0,
        "batches": 1,
    }
    assert merged["total_read"] == len(FIRST)
    assert (merged["lag_before"], merged["lag_after"]) == (len(FIRST), 0)
    assert merged["base_rows_inserted"] == first["temperatures_base"]["dagster/row_count"] > 0
    assert merged["dagster/row_count"] == 60 + merged["base_rows_inserted"]
    assert first["temperatures_rejected"]["dagster/row_count"] == 2
    assert first["locations"]["dagster/row_count"] == 6
    parts = [record.data for record in merged["ranges"].records]
    assert sum(part["end"] - part["start"] for part in parts) == len(FIRST)
    for name in first:
        assert_told(lakehouse, name, first[name])
    assert len(checks(run)) == 13
    assert [name for name, check in checks(run).items() if not check.passed] == ["rejected_share"]
    assert checks(run)["rejected_share"].severity is dg.AssetCheckSeverity.WARN

    second = facts(lakehouse.run())
    assert {name: second[name]["table_version"] for name in first} == now
    assert second["temperatures_maintenance"]["idle"]
    assert [second["temperatures"][name] for name in counts] == [0] * len(counts)
    assert len(second["temperatures"]["ranges"].records) == 0


def test_a_configured_run_merges_no_further_than_it_was_told(lakehouse):
    publish(lakehouse.settings, lakehouse.table, FIRST)
    waiting = plan_next(lakehouse.settings, lakehouse.table).ranges
    busiest = max(waiting, key=lambda part: part.span)
    some = RangeConfig(partition=busiest.partition, start=busiest.start, end=busiest.start + 3)
    first = lakehouse.merge(MergeConfig(ranges=[some]))
    assert (first["read"], first["lag_after"]) == (3, len(FIRST) - 3)
    again = lakehouse.merge(MergeConfig(ranges=[some]))
    assert (again["read"], again["batches"], again["lag_after"]) == (0, 0, len(FIRST) - 3)
    rest = lakehouse.merge(MergeConfig(max_records=30))
    assert (rest["read"], rest["batches"], rest["lag_after"]) == (len(FIRST) - 3, 2, 0)


def test_the_request_of_the_sensor_runs_as_it_stands(lakehouse):
    publish(lakehouse.settings, lakehouse.table, SECOND)
    context = dg.build_sensor_context(lakehouse.instance, resources=lakehouse.resources)
    with context:
        (request,) = lakehouse.defs.resolve_sensor_def("temperatures_sensor").evaluate_tick(context).run_requests
    publish(lakehouse.settings, lakehouse.table, FIRST)
    merged = facts(lakehouse.run("merge_temperatures", request.run_config))["temperatures"]
    assert merged["read"] == len(SECOND)


def test_a_row_written_twice_fails_the_check_of_the_keys_and_is_named(lakehouse, spark):
    publish(lakehouse.settings, lakehouse.table, SECOND)
    lakehouse.run("merge_temperatures")
    assert checks(lakehouse.run("verify_temperatures"))["keys_unique"].passed
    uri = lakehouse.settings.table_uri("temperatures")
    row = spark.read.format("delta").load(uri).orderBy("observed_at").limit(1).localCheckpoint()
    row.write.format("delta").mode("append").save(uri)
    found = checks(lakehouse.run("verify_temperatures"))["keys_unique"]
    assert not found.passed
    assert found.severity is dg.AssetCheckSeverity.ERROR
    assert str(row.first()["latitude"]) in found.description


def test_a_figure_changed_by_hand_fails_the_check_of_the_rollup_and_is_named(lakehouse, spark):
    publish(lakehouse.settings, lakehouse.table, SECOND)
    lakehouse.run("merge_temperatures")
    assert checks(lakehouse.run("verify_temperatures"))["rollup_equals_recomputation"].passed
    uri = lakehouse.settings.table_uri("temperatures_by_location")
    group = spark.read.format("delta").load(uri).orderBy("latitude").first()
    spark.sql(f"UPDATE delta.`{uri}` SET `rows` = 7 WHERE latitude = {group['latitude']}")
    found = checks(lakehouse.run("verify_temperatures"))["rollup_equals_recomputation"]
    assert not found.passed
    assert str(group["latitude"]) in found.description


def test_a_check_can_be_run_alone_before_there_is_a_table(lakehouse):
    alone = dg.AssetCheckKey(dg.AssetKey("temperatures"), "ranges_contiguous")
    every = lakehouse.defs.resolve_implicit_global_asset_job_def()
    run = every.get_subset(asset_selection=set(), asset_check_selection={alone}).execute_in_process(
        instance=lakehouse.instance
    )
    assert {name: check.passed for name, check in checks(run).items()} == {"ranges_contiguous": True}


def test_an_error_a_person_can_act_on_is_the_text_of_the_failure(lakehouse):
    run = lakehouse.run("merge_temperatures", raise_on_error=False)
    (failure,) = [event for event in run.all_events if event.is_step_failure]
    text = failure.event_specific_data.user_failure_data.description
    assert f"{lakehouse.table.topic!r} does not exist" in text
    assert "lakehouse publish" in text


def test_a_session_that_was_active_before_is_joined_and_not_stopped(lakehouse, spark):
    with lakehouse.resources["lakehouse"].from_resource_context_cm(dg.build_init_resource_context()) as resource:
        assert resource.spark_session is spark
    assert spark.range(1).count() == 1
