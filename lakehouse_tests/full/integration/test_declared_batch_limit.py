"""No commit reads more offsets than the table declares, and no offset is skipped."""

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.redrive import redrive
from lakehouse.operations.rejections import list_rejected
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.tables.rejected import wider

pytestmark = pytest.mark.invariant("12.9")


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
    stream.table = wider(stream).table
    outcomes = redrive(stream.context)
    assert read_counts(outcomes) == [2, 2]
    assert stream.temperatures() == {hour(number): 80.0 + number for number in range(3)}
    assert [(group.reason, group.count) for group in list_rejected(stream.settings, stream.table)] == [("truncated", 1)]
    assert redrive(stream.context) == []
    stream.assert_accounted()
