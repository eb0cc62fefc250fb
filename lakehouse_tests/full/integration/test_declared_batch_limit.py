"""No commit reads more offsets than the table declares, and no offset is skipped."""

from collections.abc import Sequence
from dataclasses import replace

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.redrive import redrive
from lakehouse.operations.rejections import list_rejected
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.tables.tables import column_of

pytestmark = pytest.mark.invariant("12.9")

WIDER_COLUMN = replace(column_of(temperatures, "temperature_2m"), between=(-100, 100))


@pytest.fixture
def stream(spark: SparkSession, broker: Settings) -> Stream:
    return Stream.create(spark, broker, max_records=2)


def read_counts(outcomes: Sequence[Outcome]) -> list[int]:
    """The number of records that each commit read."""
    return [outcome.entry.commit.read for outcome in outcomes]


def test_merge_replay_and_redrive_respect_the_declared_batch_limit(stream: Stream) -> None:
    hot_records = [record(time=hour(number), temperature_2m=80.0 + number) for number in range(3)]
    stream.send(b"{", *hot_records[:2], partition=0)
    stream.send(hot_records[2], partition=1)
    assert read_counts(stream.merge()) == [2, 2]
    assert read_counts(stream.replay()) == [2, 2]
    assert stream.temperatures() == {}
    stream.table = replace(stream.table, columns=[*temperatures.columns[:3], WIDER_COLUMN])
    outcomes = redrive(stream.context)
    assert read_counts(outcomes) == [2, 2]
    assert stream.temperatures() == {hour(number): 80.0 + number for number in range(3)}
    assert [(group.reason, group.count) for group in list_rejected(stream.settings, stream.table)] == [("truncated", 1)]
    assert redrive(stream.context) == []
    stream.assert_accounted()


def test_the_materialize_button_respects_the_declared_batch_limit(stream: Stream) -> None:
    stream.send(*(record(time=hour(number)) for number in range(3)))
    resources = {"lakehouse": LakehouseResource.with_settings(stream.settings)}
    with dg.DagsterInstance.ephemeral() as instance:
        job = build_defs([replace(stream.table, base=None)], resources).resolve_implicit_global_asset_job_def()
        name = stream.table.name
        selection = {dg.AssetKey(name), dg.AssetKey(stream.table.rejected_name)}
        run = job.get_subset(asset_selection=selection).execute_in_process(instance=instance)
        assert run.asset_materializations_for_node(name)[0].metadata["batches"].value == 2
