"""A new table starts as declared; what it leaves out is recorded once, and every record is accounted for."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from pyspark.sql import SparkSession

from lakehouse.errors import DeclarationError, LakehouseError
from lakehouse.ingest.batches import plan_next
from lakehouse.ingest.replay import replay
from lakehouse.kafka import add_partitions, delete_topic
from lakehouse.ledger.positions import Range
from lakehouse.operations.rewrite_tables import plan_restore
from lakehouse.operations.status import status
from lakehouse.settings import Settings
from lakehouse.storage.row_order import merged_layout
from lakehouse_tests.helpers.brokers.clients import delete_before, with_client
from lakehouse_tests.helpers.brokers.streams import Stream, record, unique_table
from lakehouse_tests.helpers.histories.surroundings import make_topic
from lakehouse_tests.helpers.tables.tables import redeclare

NOON = datetime(2023, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def old_stream(spark: SparkSession, broker: Settings) -> Stream:
    """A table without base rows, whose topic of two partitions has three and two records."""
    stream = Stream.create(spark, broker, base=None, partitions=2, start="latest")
    stream.send_hours(3)
    stream.send_hours(2, partition=1)
    return stream


def kinds(stream: Stream) -> list[str]:
    return [entry.commit.kind for entry in reversed(stream.ledger.entries)]


def with_other_start(stream: Stream, start: Any) -> Stream:
    return replace(stream, table=redeclare(stream.table, start=start))


@pytest.mark.invariant("2.2", "2.6", "2.7")
def test_a_table_starts_at_the_end_of_its_topic_and_reads_on(old_stream: Stream) -> None:
    stream = old_stream
    assert status(stream.settings, stream.table).lag == 0
    (outcome,) = stream.merge()
    commit = outcome.entry.commit
    assert (commit.kind, commit.left_out) == ("start", (Range(0, 0, 3), Range(1, 0, 2)))
    assert (commit.progress, commit.read, stream.temperatures()) == ({0: 3, 1: 2}, 0, {})
    assert stream.merge() == []
    new_hours = [*stream.send_hours(2), *stream.send_hours(1, partition=1)]
    (batch,) = stream.merge()
    assert (batch.entry.commit.read, batch.entry.commit.left_out) == (3, commit.left_out)
    assert set(stream.temperatures()) == set(new_hours)
    add_partitions(stream.settings, stream.table.topic, 3)
    later_hours = stream.merge_hours(2, partition=2)
    assert set(stream.temperatures()) == {*new_hours, *later_hours}, "a partition that is added later is read whole"
    assert kinds(stream) == ["start", "batch", "batch"]
    stream.assert_accounted()


@pytest.mark.invariant("2.6", "3.4")
def test_a_table_starts_at_offsets_and_keeps_its_start(old_stream: Stream) -> None:
    stream = with_other_start(old_stream, {0: 4})
    with pytest.raises(DeclarationError, match="offset 4 of partition 0, but the partition ends at offset 3"):
        stream.merge()
    stream = with_other_start(stream, {0: 2})
    assert plan_next(stream.settings, stream.table).left_out == (Range(0, 0, 2),)
    started, batch = stream.merge()
    assert (started.entry.commit.left_out, batch.entry.commit.read) == ((Range(0, 0, 2),), 3)
    rows = stream.snapshot()
    assert len(rows) == 3
    (replayed,) = stream.replay()
    assert (replayed.entry.commit.read, stream.snapshot()) == (3, rows), "what was left out is not replayed"
    with pytest.raises(LakehouseError, match="Offsets 0 to 2 of partition 0 cannot be replayed.*before the start"):
        replay(stream.context, [Range(0, 0, 2)])
    for start in ("latest", None, {0: 0}):
        assert with_other_start(stream, start).merge() == [], "another start has no effect"
    assert stream.ledger.left_out == (Range(0, 0, 2),)
    stream.assert_accounted()


@pytest.mark.invariant("2.6")
@pytest.mark.parametrize("key", [["latitude", "longitude", "observed_at"], []], ids=["a key", "a log table"])
def test_a_table_starts_at_a_time_of_the_broker(spark: SparkSession, broker: Settings, key: list[str]) -> None:
    columns = [replace(column, keep=False) for column in unique_table().record_columns]
    table = unique_table(base=None, start=NOON.isoformat(), key=key, rollups=[], columns=columns)
    stream = Stream(spark, broker, table)
    make_topic(broker, stream.table.topic, 3)
    send_dated(stream, -2, -1, 0, -1, 1)
    send_dated(stream, -1, -1, partition=1)
    started, batch = stream.merge()
    assert started.entry.commit.left_out == (Range(0, 0, 2), Range(1, 0, 2))
    assert (batch.entry.commit.read, batch.entry.metrics.inserted) == (3, 3)
    send_dated(stream, -5, partition=1)
    send_dated(stream, -5, partition=2)
    (outcome,) = stream.merge()
    assert outcome.entry.commit.read == 2, "the start does not choose among later records"
    stream.assert_accounted()


def send_dated(stream: Stream, *hours_after_noon: int, partition: int = 0) -> None:
    """Send a record of a new hour for each of these times in the topic."""

    async def send(producer: AIOKafkaProducer) -> None:
        hours = stream.hours(len(hours_after_noon))
        for number, hour_text in zip(hours_after_noon, hours, strict=True):
            milliseconds = int((NOON + timedelta(hours=number)).timestamp() * 1000)
            topic, value = stream.table.topic, record(time=hour_text)
            await producer.send_and_wait(topic, value, partition=partition, timestamp_ms=milliseconds)

    with_client(AIOKafkaProducer, stream.settings, send)


@pytest.mark.slow
@pytest.mark.invariant("2.6", "9.2")
def test_a_restore_to_before_the_start_looks_it_up_again(old_stream: Stream) -> None:
    stream = with_other_start(old_stream, {0: 2})
    stream.merge()
    before_start = stream.ledger.entries[-1].version - 1
    plan_restore(merged_layout(stream.table, stream.settings), before_start).run()
    assert stream.ledger.progress is None
    earlier = with_other_start(stream, {0: 1})
    earlier.merge()
    assert (earlier.ledger.left_out, len(earlier.temperatures())) == ((Range(0, 0, 1),), 4)
    earlier.assert_accounted()


@pytest.mark.slow
@pytest.mark.invariant("2.6", "9.1")
def test_records_that_expire_after_the_start_are_a_gap(old_stream: Stream) -> None:
    stream = old_stream
    stream.merge()
    stream.send_hours(2)
    delete_before(stream.settings, stream.table.topic, {0: 4})
    assert "Partition 0: records from 3 to 3 were deleted" in (status(stream.settings, stream.table).loss or "")
    stream.accept_gap()
    (outcome,) = stream.merge()
    assert (outcome.entry.commit.read, len(stream.ledger.left_out)) == (1, 2)
    stream.assert_accounted()


@pytest.mark.slow
@pytest.mark.invariant("2.6")
def test_a_topic_that_is_created_again_starts_at_its_first_record(old_stream: Stream) -> None:
    stream = old_stream
    stream.merge()
    delete_topic(stream.settings, stream.table.topic)
    make_topic(stream.settings, stream.table.topic, 2)
    hours = stream.send_hours(2)
    stream.accept_gap()
    stream.merge()
    assert (set(stream.temperatures()), stream.ledger.left_out) == (set(hours), ())
    stream.assert_accounted()
