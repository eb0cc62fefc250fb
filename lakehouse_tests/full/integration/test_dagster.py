"""The assets and their checks as Dagster runs them: a real broker, Spark and Delta."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse.defs.assets import MergeConfig, RangeConfig
from lakehouse.ingest.batches import plan_next
from lakehouse.kafka import publish
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.dagster_runs import FIRST, Lakehouse, checks


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def lakehouse(spark: SparkSession, broker: Settings, instance, tmp_path, request) -> Lakehouse:
    settings = Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker))
    return Lakehouse(settings, instance, f"dagster-{os.getpid()}-{tmp_path.name}")


def counts(run_facts: Mapping[str, Any]) -> tuple[int, int, int]:
    """The records read by a run, its batches, and the lag after it."""
    return run_facts["records_read"], run_facts["batches"], run_facts["lag_after"]


def test_a_configured_run_merges_only_its_ranges(lakehouse):
    publish(lakehouse.settings, lakehouse.table, FIRST)
    waiting_ranges = plan_next(lakehouse.settings, lakehouse.table).ranges
    longest_range = max(waiting_ranges, key=lambda offset_range: offset_range.span)
    range_config = RangeConfig(partition=longest_range.partition, end=longest_range.start + 3)
    first_facts = lakehouse.merge(MergeConfig(ranges=[range_config]))
    assert counts(first_facts) == (3, 1, len(FIRST) - 3)
    repeated_facts = lakehouse.merge(MergeConfig(ranges=[range_config]))
    assert counts(repeated_facts) == (0, 0, len(FIRST) - 3)
    remaining_facts = lakehouse.merge(MergeConfig(max_records=30))
    assert counts(remaining_facts) == (len(FIRST) - 3, 2, 0)


def test_a_check_can_run_alone_before_the_table_exists(lakehouse):
    check_key = dg.AssetCheckKey(dg.AssetKey("temperatures"), "ranges_contiguous")
    global_job = lakehouse.defs.resolve_implicit_global_asset_job_def()
    run = global_job.get_subset(asset_selection=set(), asset_check_selection={check_key}).execute_in_process(
        instance=lakehouse.instance
    )
    assert {name: check.passed for name, check in checks(run).items()} == {"ranges_contiguous": True}


def test_a_failed_step_shows_the_text_of_its_error(lakehouse):
    run = lakehouse.run("merge_temperatures", raise_on_error=False)
    (failure,) = [event for event in run.all_events if event.is_step_failure]
    text = failure.event_specific_data.user_failure_data.description
    assert f"{lakehouse.table.topic!r} does not exist" in text
    assert "lakehouse topics --create" in text
