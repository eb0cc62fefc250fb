"""The assets and their checks as Dagster runs them: a real broker, Spark and Delta."""

import os
from collections.abc import Iterator

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse.defs.config import MergeConfig, RangeConfig
from lakehouse.ingest.batches import plan_next
from lakehouse.kafka import publish
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse_tests.helpers.dagster_runs import FIRST, SECOND, Lakehouse, checks, facts


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def lakehouse(spark: SparkSession, broker: Settings, instance, tmp_path, request) -> Lakehouse:
    settings = Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker))
    return Lakehouse(settings, instance, f"dagster-{os.getpid()}-{tmp_path.name}")


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


def test_the_run_that_the_sensor_asked_for_merges_what_is_there_when_it_starts(lakehouse):
    publish(lakehouse.settings, lakehouse.table, SECOND)
    context = dg.build_sensor_context(lakehouse.instance, resources=lakehouse.resources)
    with context:
        (request,) = lakehouse.defs.resolve_sensor_def("temperatures_sensor").evaluate_tick(context).run_requests
    publish(lakehouse.settings, lakehouse.table, FIRST)
    merged = facts(lakehouse.run("merge_temperatures", request.run_config))["temperatures"]
    assert merged["read"] == len(SECOND) + len(FIRST)


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


def test_on_a_spark_that_runs_a_run_has_a_session_of_its_own_and_leaves_the_others(lakehouse, spark):
    with lakehouse.resources["lakehouse"].from_resource_context_cm(dg.build_init_resource_context()) as resource:
        assert resource.spark_session is not spark
        assert resource.spark_session.conf.get("spark.app.id") == spark.conf.get("spark.app.id")
    assert spark.range(1).count() == 1
