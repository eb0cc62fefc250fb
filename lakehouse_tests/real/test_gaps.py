"""What is planned is read, and no loss is silent; the tests share one history, each with hours of its own."""

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

pytestmark = pytest.mark.invariant(2, 9)


@pytest.fixture(scope="module")
def shared(spark, broker) -> Stream:
    stream = Stream.create(spark, broker)
    stream.send_hours(1)
    return stream


@pytest.fixture
def stream(shared: Stream) -> Iterator[Stream]:
    """All that was sent is merged before and after a test, no key is lost, and the history accounts for it."""
    shared.merge()
    before = shared.temperatures()
    yield shared
    shared.merge()
    assert before.items() <= shared.temperatures().items()
    shared.assert_accounted()


def at(stream: Stream, partition: int = 0) -> int:
    """The progress of a partition."""
    return stream.ledger.progress.positions[partition]


def assert_stops(stream: Stream, *named: str) -> None:
    """The run stops with an error that names the topic, all of this and the command, and merges nothing."""
    version = stream.ledger.version
    with pytest.raises(DataLossError) as caught:
        stream.merge()
    for text in (f"topic {stream.table.topic}", *named, f"lakehouse accept-gap {stream.table.name}"):
        assert re.search(text, str(caught.value))
    assert stream.ledger.version == version


def accepting(stream: Stream) -> Stream:
    """The same table, whose declaration accepts gaps by itself."""
    return replace(stream, table=replace(stream.table, gaps="accept"))


def test_records_deleted_before_they_were_merged_are_named_and_stepped_over(stream):
    before = at(stream, 1)
    lost, held = stream.send_hours(1, partition=1), stream.send_hours(1, partition=1)
    delete_before(stream.settings, stream.table.topic, {1: before + 1})
    assert_stops(stream, f"Partition 1: records from {before} to {before} were deleted")
    stream.accept_gap()
    assert stream.ledger.newest.commit.gap == (Range(1, before, before + 1),)
    stream.merge()
    assert set(held) <= set(stream.temperatures())
    assert not set(lost) & set(stream.temperatures())


def test_records_of_a_new_partition_that_expired_before_it_was_first_seen_are_a_gap(stream):
    added = len(stream.ledger.progress.positions)
    add_partitions(stream.settings, stream.table.topic, added + 1)
    lost, held = stream.send_hours(2, partition=added), stream.send_hours(1, partition=added)
    delete_before(stream.settings, stream.table.topic, {added: 2})
    assert_stops(stream, f"Partition {added}: records from 0 to 1 were deleted")
    with pytest.raises(DataLossError, match=f"Partition {added}"):
        stream.replay()
    assert status(stream.settings, stream.table).lag == 3
    assert [outcome.entry.commit.kind for outcome in accepting(stream).merge()] == ["gap", "batch"]
    gap = next(entry for entry in stream.ledger.entries if entry.commit.kind == "gap")
    assert gap.commit.gap == (Range(added, 0, 2),)
    assert set(held) <= set(stream.temperatures())
    assert not set(lost) & set(stream.temperatures())


def test_without_a_gap_there_is_nothing_to_accept(stream):
    version = stream.ledger.version
    assert propose_gap(stream.settings, stream.table) is None
    assert stream.ledger.version == version


def test_records_deleted_between_plan_and_read_are_planned_again(stream, interference):
    before = at(stream, 2)
    lost, held = stream.send_hours(1, partition=2), stream.send_hours(1, partition=2)
    interference.before_reading(lambda: delete_before(stream.settings, stream.table.topic, {2: before + 1}))
    outcomes = accepting(stream).merge()
    assert [outcome.entry.commit.kind for outcome in outcomes] == ["gap", "batch"]
    assert outcomes[0].entry.commit.gap == (Range(2, before, before + 1),)
    assert set(held) <= set(stream.temperatures())
    assert not set(lost) & set(stream.temperatures())


def test_a_topic_made_anew_is_told_from_the_old_one_also_with_more_records_than_before(stream):
    first = at(stream)
    delete_topic(stream.settings, stream.table.topic)
    create_topic(stream.settings, stream.table)
    held = stream.send_hours(first + 3)
    assert_stops(stream, "deleted and created again", f"partition 0 from offset {first}")
    with pytest.raises(DataLossError):
        stream.replay()
    with pytest.raises(DataLossError):
        accepting(stream).merge()
    assert stream.accept_gap().commit.gap[0] == Range(0, first, first)
    (batch,) = stream.merge()
    assert (batch.entry.commit.read, at(stream)) == (first + 3, first + 3)
    assert set(held) <= set(stream.temperatures())


def test_partitions_added_between_plan_and_read_are_read_by_the_next_batch(stream, interference):
    held = stream.send_hours(1)
    there = len(stream.ledger.progress.positions)

    def widen() -> None:
        add_partitions(stream.settings, stream.table.topic, there + 1)
        held.extend(stream.send_hours(2, partition=there))

    interference.before_reading(widen)
    planned, later = stream.merge()
    assert [part.partition for part in planned.plan.ranges] == list(range(there))
    assert (planned.entry.commit.read, later.entry.commit.read) == (1, 2)
    assert set(held) <= set(stream.temperatures())


def test_transactions_that_are_open_or_aborted_are_never_merged(stream):
    aborted, waiting, committed = stream.hours(3)

    async def transact(producer: AIOKafkaProducer) -> None:
        await producer.begin_transaction()
        await producer.send_and_wait(stream.table.topic, record(time=aborted), partition=1)
        await asyncio.to_thread(stream.send, record(time=waiting), partition=1)
        assert await asyncio.to_thread(stream.merge) == [], "what stands behind an open transaction waits"
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_and_wait(stream.table.topic, record(time=committed), partition=1)
        await producer.commit_transaction()

    with_client(AIOKafkaProducer, stream.settings, transact, transactional_id=stream.table.topic)
    (outcome,) = stream.merge()
    assert outcome.entry.commit.read == 2
    assert outcome.plan.span > 2, "markers and aborted records take offsets too"
    assert {aborted, waiting, committed} & set(stream.temperatures()) == {waiting, committed}


def test_a_batch_limit_splits_a_backlog_and_every_record_is_read_once(stream):
    held = [hour for partition in range(3) for hour in stream.send_hours(2, partition)]
    outcomes = stream.merge(max_records=4)
    assert [outcome.plan.span for outcome in outcomes] == [4, 2]
    assert [outcome.lag_after for outcome in outcomes] == [2, 0]
    assert sum(outcome.entry.metrics.inserted for outcome in outcomes) == len(held)
    assert set(held) <= set(stream.temperatures())
