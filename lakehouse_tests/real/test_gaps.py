"""All planned records are read, and every loss is reported; the tests share one history, each with its own hours."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from aiokafka import AIOKafkaProducer

from lakehouse.errors import DataLossError
from lakehouse.kafka import add_partitions, create_topic, delete_topic
from lakehouse.ledger.positions import Range
from lakehouse.operations.repair import propose_gap
from lakehouse.operations.status import status
from lakehouse_tests.helpers.brokers.clients import delete_before, with_client
from lakehouse_tests.helpers.brokers.streams import Stream, record
from lakehouse_tests.helpers.tables.tables import redeclare


@pytest.fixture(scope="module")
def shared_stream(spark, broker) -> Stream:
    stream = Stream.create(spark, broker)
    stream.send_hours(1)
    return stream


@pytest.fixture
def stream(shared_stream: Stream) -> Iterator[Stream]:
    """Merge all records before and after a test; no key is lost, and the history accounts for every record."""
    shared_stream.merge()
    before = shared_stream.temperatures()
    yield shared_stream
    shared_stream.merge()
    assert before.items() <= shared_stream.temperatures().items()
    shared_stream.assert_accounted()


def progress_of(stream: Stream, partition: int = 0) -> int:
    """The progress of a partition."""
    return stream.ledger.progress.positions[partition]


def assert_stops(stream: Stream, *patterns: str) -> None:
    """The run merges nothing and stops with an error that names the topic, the patterns and the command."""
    version = stream.ledger.version
    with pytest.raises(DataLossError) as error:
        stream.merge()
    for pattern in (f"topic {stream.table.topic}", *patterns, f"lakehouse repair gap {stream.table.name}"):
        assert re.search(pattern, str(error.value))
    assert stream.ledger.version == version


def accepting(stream: Stream) -> Stream:
    """The same table with a declaration that accepts gaps."""
    return replace(stream, table=redeclare(stream.table, gaps="accept"))


@pytest.mark.invariant("9.1", "9.6")
def test_records_deleted_before_the_merge_are_reported_and_skipped_once_accepted(stream):
    before = progress_of(stream, 1)
    lost_hours, hours = stream.send_hours(1, partition=1), stream.send_hours(1, partition=1)
    delete_before(stream.settings, stream.table.topic, {1: before + 1})
    assert_stops(stream, f"Partition 1: records from {before} to {before} were deleted")
    stream.accept_gap()
    assert stream.ledger.newest.commit.gap == (Range(1, before, before + 1),)
    stream.merge()
    assert set(hours) <= set(stream.temperatures())
    assert not set(lost_hours) & set(stream.temperatures())


@pytest.mark.invariant("9.1", "9.4", "9.6")
def test_records_of_a_new_partition_that_expired_before_it_was_first_seen_are_a_gap(stream):
    partition = len(stream.ledger.progress.positions)
    add_partitions(stream.settings, stream.table.topic, partition + 1)
    lost_hours, hours = stream.send_hours(2, partition=partition), stream.send_hours(1, partition=partition)
    delete_before(stream.settings, stream.table.topic, {partition: 2})
    assert_stops(stream, f"Partition {partition}: records from 0 to 1 were deleted")
    with pytest.raises(DataLossError, match=f"Partition {partition}"):
        stream.replay()
    assert status(stream.settings, stream.table).lag == 3
    assert [outcome.entry.commit.kind for outcome in accepting(stream).merge()] == ["gap", "batch"]
    gap = next(entry for entry in stream.ledger.entries if entry.commit.kind == "gap")
    assert gap.commit.gap == (Range(partition, 0, 2),)
    assert set(hours) <= set(stream.temperatures())
    assert not set(lost_hours) & set(stream.temperatures())


def test_without_a_gap_there_is_nothing_to_accept(stream):
    version = stream.ledger.version
    assert propose_gap(stream.settings, stream.table) is None
    assert stream.ledger.version == version


@pytest.mark.invariant("9.5")
def test_records_deleted_between_plan_and_read_are_planned_again(stream, interference):
    before = progress_of(stream, 2)
    lost_hours, hours = stream.send_hours(1, partition=2), stream.send_hours(1, partition=2)
    interference.before_reading(lambda: delete_before(stream.settings, stream.table.topic, {2: before + 1}))
    outcomes = accepting(stream).merge()
    assert [outcome.entry.commit.kind for outcome in outcomes] == ["gap", "batch"]
    assert outcomes[0].entry.commit.gap == (Range(2, before, before + 1),)
    assert set(hours) <= set(stream.temperatures())
    assert not set(lost_hours) & set(stream.temperatures())


@pytest.mark.invariant("9.1", "9.4")
def test_a_recreated_topic_is_detected_even_if_it_has_more_records(stream):
    progress = progress_of(stream)
    delete_topic(stream.settings, stream.table.topic)
    create_topic(stream.settings, stream.table)
    hours = stream.send_hours(progress + 3)
    assert_stops(stream, "deleted and created again", f"partition 0 from offset {progress}")
    with pytest.raises(DataLossError):
        stream.replay()
    with pytest.raises(DataLossError):
        accepting(stream).merge()
    assert stream.accept_gap().commit.gap[0] == Range(0, progress, progress)
    (batch,) = stream.merge()
    assert (batch.entry.commit.read, progress_of(stream)) == (progress + 3, progress + 3)
    assert set(hours) <= set(stream.temperatures())


@pytest.mark.invariant("2.2", "2.4")
def test_partitions_added_between_plan_and_read_are_read_by_the_next_batch(stream, interference):
    hours = stream.send_hours(1)
    partition_count = len(stream.ledger.progress.positions)

    def add_partition() -> None:
        add_partitions(stream.settings, stream.table.topic, partition_count + 1)
        hours.extend(stream.send_hours(2, partition=partition_count))

    interference.before_reading(add_partition)
    first, second = stream.merge()
    assert [part.partition for part in first.plan.ranges] == list(range(partition_count))
    assert (first.entry.commit.read, second.entry.commit.read) == (1, 2)
    assert set(hours) <= set(stream.temperatures())


@pytest.mark.invariant("2.1", "2.3")
def test_transactions_that_are_open_or_aborted_are_never_merged(stream):
    aborted_hour, waiting_hour, committed_hour = stream.hours(3)

    async def transact(producer: AIOKafkaProducer) -> None:
        await producer.begin_transaction()
        await producer.send_and_wait(stream.table.topic, record(time=aborted_hour), partition=1)
        await asyncio.to_thread(stream.send, record(time=waiting_hour), partition=1)
        assert await asyncio.to_thread(stream.merge) == [], "records after an open transaction wait"
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_and_wait(stream.table.topic, record(time=committed_hour), partition=1)
        await producer.commit_transaction()

    with_client(AIOKafkaProducer, stream.settings, transact, transactional_id=stream.table.topic)
    (outcome,) = stream.merge()
    assert outcome.entry.commit.read == 2
    assert outcome.plan.span > 2, "markers and aborted records also take offsets"
    assert {aborted_hour, waiting_hour, committed_hour} & set(stream.temperatures()) == {waiting_hour, committed_hour}


@pytest.mark.invariant("2.5", "12.9")
def test_a_batch_limit_splits_a_backlog_and_every_record_is_read_once(stream):
    hours = [hour for partition in range(3) for hour in stream.send_hours(2, partition)]
    outcomes = stream.merge(max_records=4)
    assert [outcome.plan.span for outcome in outcomes] == [4, 2]
    assert [outcome.lag_after for outcome in outcomes] == [2, 0]
    assert sum(outcome.entry.metrics.inserted for outcome in outcomes) == len(hours)
    assert set(hours) <= set(stream.temperatures())
