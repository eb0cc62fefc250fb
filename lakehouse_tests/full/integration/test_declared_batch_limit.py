"""Whoever asks, no commit takes more positions than the table declares, and nothing is left out for it."""

from collections.abc import Sequence
from dataclasses import replace

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.batches import Outcome
from lakehouse.ingest.redrive import redrive
from lakehouse.operations.rejections import list_rejected
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record

pytestmark = pytest.mark.invariant(12)

WIDER = replace(temperatures.by_name["temperature_2m"], between=(-100, 100))


@pytest.fixture
def stream(spark: SparkSession, broker: Settings) -> Stream:
    return Stream.create(spark, broker, max_records=2)


def read(outcomes: Sequence[Outcome]) -> list[int]:
    """How many records each commit read."""
    return [outcome.entry.commit.read for outcome in outcomes]


def test_merge_replay_and_redrive_take_no_more_at_once_than_declared(stream: Stream) -> None:
    hot = [record(time=hour(number), temperature_2m=80.0 + number) for number in range(3)]
    stream.send(b"{", *hot[:2], partition=0)
    stream.send(hot[2], partition=1)
    assert read(stream.merge()) == [2, 2]
    assert read(stream.replay()) == [2, 2]
    assert stream.temperatures() == {}
    stream.table = replace(stream.table, columns=[*temperatures.columns[:3], WIDER])
    done = redrive(stream.context)
    assert read(done) == [2, 2]
    assert stream.temperatures() == {hour(number): 80.0 + number for number in range(3)}
    assert [(each.reason, each.count) for each in list_rejected(stream.settings, stream.table)] == [("truncated", 1)]
    assert redrive(stream.context) == []
    stream.assert_accounted()


def test_the_materialize_button_takes_no_more_at_once_than_declared(stream: Stream) -> None:
    stream.send(*(record(time=hour(number)) for number in range(3)))
    resources = {"lakehouse": LakehouseResource.with_settings(stream.settings)}
    with dg.DagsterInstance.ephemeral() as instance:
        button = build_defs([replace(stream.table, base=None)], resources).resolve_implicit_global_asset_job_def()
        name = stream.table.name
        chosen = {dg.AssetKey(name), dg.AssetKey(stream.table.rejected_name)}
        run = button.get_subset(asset_selection=chosen).execute_in_process(instance=instance)
        assert run.asset_materializations_for_node(name)[0].metadata["batches"].value == 2
