"""Records are deleted and topics are replaced: every record that exists is merged, and no loss is silent."""

import asyncio
import re
from dataclasses import replace
from functools import partial

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from lakehouse.errors import DataLossError
from lakehouse.kafka import add_partitions, delete_topic
from lakehouse.ledger.positions import Range
from lakehouse_tests.helpers.attacks.deleting_streams import DeletingStream
from lakehouse_tests.helpers.brokers.clients import delete_before, with_client
from lakehouse_tests.helpers.brokers.streams import DELETES, Stream, delete, hour, record, unique_table
from lakehouse_tests.helpers.waiting import wait_until

FIRST_ENDS = {0: 4, 1: 2, 2: 0}  # the ends of the first batch: it merges nothing of the last partition


@pytest.fixture
def stream(spark, broker) -> DeletingStream:
    return merge_first_records(DeletingStream.create(spark, broker))


def merge_first_records(stream: DeletingStream) -> DeletingStream:
    """Send four hours into each of three partitions, and merge some of the first two."""
    for partition in range(3):
        stream.send(*lines(partition * 4, 4), partition=partition)
    stream.merge(until=FIRST_ENDS)
    return stream


def lines(first: int, count: int) -> list[bytes]:
    return [record(time=hour(number)) for number in range(first, first + count)]


def hours(*numbers: int) -> set[str]:
    return {hour(number) for number in numbers}


def recreate_topic(stream: DeletingStream, first: int, count: int) -> None:
    """Delete the topic, create it again and fill its first partition."""
    delete_topic(stream.settings, stream.table.topic)
    stream.make_topic()
    stream.send(*lines(first, count))


def assert_stops(stream: Stream, *patterns: str) -> None:
    """The run merges nothing; its error names the topic, the command and matches these patterns."""
    state_before = commit_state(stream)
    with pytest.raises(DataLossError) as error_info:
        stream.merge()
    for text in (f"topic {stream.table.topic}", *patterns, f"lakehouse accept-gap {stream.table.name}"):
        assert re.search(text, str(error_info.value))
    version = stream.ledger.version
    for action in (stream.merge, stream.replay):
        with pytest.raises(DataLossError):
            action()
    assert (commit_state(stream), stream.ledger.version) == (state_before, version)


def commit_state(stream: Stream) -> tuple[int, int]:
    """The transaction number and the newest version that may have changed a row; declarations change neither."""
    return stream.ledger.transaction, stream.ledger.rows_version


def accept_and_merge(stream: DeletingStream, *, by_declaration: bool) -> list[Range]:
    """Accept the gap and merge everything; return the missing offsets of the partitions that the test fills."""
    if by_declaration:
        stream.table = replace(stream.table, gaps="accept")
    else:
        stream.accept_gap()
    stream.merge()
    gap = next(entry for entry in stream.ledger.entries if entry.commit.kind == "gap")
    assert stream.merge() == []
    return [missing for missing in gap.commit.gap if missing.partition != stream.own_partition]


def assert_holds(stream: Stream, expected: set[str]) -> None:
    assert set(stream.temperatures()) == expected
    stream.assert_accounted()


@pytest.mark.invariant("9.1", "9.4", "9.6")
@pytest.mark.parametrize("by_declaration", [False, True])
def test_records_deleted_before_their_merge_are_named_and_skipped(spark, broker, attack, by_declaration):
    stream = merge_first_records(DeletingStream.create(spark, broker))
    with attack("Nothing is silent", "records deleted before they were merged"):
        delete_before(broker, stream.table.topic, {0: 3, 1: 3, 2: 1})
        assert_stops(stream, "Partition 1: records from 2 to 2 were deleted", "Partition 2: records from 0 to 0")
        assert accept_and_merge(stream, by_declaration=by_declaration) == [Range(1, 2, 3), Range(2, 0, 1)]
        assert_holds(stream, hours(*range(12)) - hours(6, 8))


@pytest.mark.invariant("9.1", "9.6")
@pytest.mark.parametrize("count", [2, 4, 9])
def test_a_recreated_topic_stops_the_run_until_the_gap_is_accepted(spark, broker, attack, count):
    stream = merge_first_records(DeletingStream.create(spark, broker))
    with attack("Nothing is silent", "topic deleted and created again, with fewer or more records than before"):
        recreate_topic(stream, 20, count)
        assert_stops(stream, "deleted and created again", "partition 0 from offset 4, partition 1 from offset 2")
        assert accept_and_merge(stream, by_declaration=False) == [Range(0, 4, 4), Range(1, 2, 2), Range(2, 0, 0)]
        assert_holds(stream, hours(*range(6), *range(20, 20 + count)))


@pytest.mark.invariant("9.5")
@pytest.mark.parametrize("by_declaration", [True, False])
def test_records_deleted_between_plan_and_read_are_planned_again(spark, broker, attack, interference, by_declaration):
    stream = merge_first_records(DeletingStream.create(spark, broker))
    with attack("Nothing is silent", "records deleted between plan and read"):
        interference.before_reading(partial(delete_before, broker, stream.table.topic, {1: 3}))
        if by_declaration:
            stream.table = replace(stream.table, gaps="accept")
            kinds = [outcome.entry.commit.kind for outcome in stream.merge()]
            assert kinds == ["gap", "batch"]
        else:
            assert_stops(stream, "Partition 1: records from 2 to 2 were deleted")
            assert accept_and_merge(stream, by_declaration=False) == [Range(1, 2, 3)]
        assert_holds(stream, hours(*range(12)) - hours(6))
    with attack("Nothing is silent", "records deleted between plan and read of a replay"):
        interference.before_reading(partial(delete_before, broker, stream.table.topic, {0: 1}))
        message = f"partition 0 offsets 0 to 3.*lakehouse replay {stream.table.name}"
        with pytest.raises(DataLossError, match=message):
            stream.replay()


@pytest.mark.invariant("9.4", "9.5")
def test_a_topic_recreated_between_plan_and_read_is_never_read_as_the_old_one(stream, attack, interference):
    with attack("Nothing is silent", "topic created again, with more records, between plan and read"):

        def recreate_larger() -> None:
            recreate_topic(stream, 20, 9)
            for partition in (1, 2):
                stream.send(*lines(20 + 10 * partition, 9), partition=partition)

        interference.before_reading(recreate_larger)
        stream.table = replace(stream.table, gaps="accept")
        assert_stops(stream, "deleted and created again")
        accept_and_merge(stream, by_declaration=False)
        assert_holds(stream, hours(*range(6), *range(20, 29), *range(30, 39), *range(40, 49)))


@pytest.mark.invariant("2.2", "2.4")
def test_partitions_added_between_plan_and_read_are_read_by_the_next_batch(stream, attack, interference):
    with attack("Nothing is lost", "partitions added between plan and read"):

        def add_two_partitions() -> None:
            add_partitions(stream.settings, stream.table.topic, 6)
            stream.send(*lines(20, 2), partition=5)

        interference.before_reading(add_two_partitions)
        first_outcome, later_outcome = stream.merge()
        assert [offset_range.partition for offset_range in first_outcome.plan.ranges] == [0, 1, 2, 3]
        assert (first_outcome.entry.commit.read, later_outcome.entry.commit.read) == (6, 2)
        stream.merge()  # of the old partitions, a run merges what they had at its start
        assert_holds(stream, hours(*range(12), 20, 21))


@pytest.mark.invariant("2.1", "2.3")
def test_transactions_that_are_open_or_aborted_are_never_merged(stream, attack):
    topic = stream.table.topic

    async def run_transactions(producer: AIOKafkaProducer) -> None:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, record(time=hour(20)), partition=1)
        await asyncio.to_thread(stream.send, record(time=hour(21)), partition=1)
        await asyncio.to_thread(stream.merge)
        assert set(stream.temperatures()) == hours(*range(12)), "records after an open transaction wait"
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_and_wait(topic, record(time=hour(22)), partition=1)
        await producer.commit_transaction()

    with attack("Nothing is doubled", "transactions open while merging, aborted and committed"):
        with_client(AIOKafkaProducer, stream.settings, run_transactions, transactional_id=topic)
        (outcome,) = stream.merge()
        assert outcome.entry.commit.read == 2
        assert outcome.plan.span > 2, "markers and aborted records have offsets too"
        assert_holds(stream, hours(*range(12), 21, 22))


@pytest.mark.invariant("8.7")
@pytest.mark.parametrize("invalid_count", [1, 5_000])
def test_records_with_an_impossible_time_are_rejected_and_all_others_merged(spark, broker, attack, invalid_count):
    """Of 20,000 records in three partitions, every second one of one partition has its time in nanoseconds."""
    stream = Stream(spark, broker, unique_table())
    configs = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(2**63 - 1)}
    new_topic = NewTopic(stream.table.topic, 3, 1, topic_configs=configs)
    with_client(AIOKafkaAdminClient, broker, lambda admin: admin.create_topics([new_topic]))
    total = 20_000

    async def send(producer: AIOKafkaProducer) -> None:
        for number in range(total):
            is_invalid = number % 3 == 1 and number // 3 % 2 == 0 and number // 6 < invalid_count
            time = 1_700_000_000_000_000_000 if is_invalid else 1_700_000_000_000
            value = record(time=hour(number % 600), latitude=float(number // 600))
            await producer.send(stream.table.topic, value, partition=number % 3, timestamp_ms=time)
        await producer.flush()

    with attack("Nothing is silent", f"{invalid_count:,} records whose time is in nanoseconds"):
        with_client(AIOKafkaProducer, broker, send)
        outcomes = stream.merge()
        rejected_count = min(invalid_count, len(range(1, total, 6)))
        assert len(outcomes) == 1, "all records fit into one batch"
        assert sum(outcome.entry.commit.read for outcome in outcomes) == total
        assert sum(outcome.entry.commit.rejected for outcome in outcomes) == rejected_count
        assert len(stream.sql("SELECT 1 FROM {t}")) == total - rejected_count
        stream.assert_accounted()


@pytest.mark.invariant("9.1", "9.6")
def test_another_cluster_at_the_same_address_stops_the_run(spark, fragile_broker, attack):
    stream = merge_first_records(DeletingStream.create(spark, fragile_broker.settings))
    with attack("Nothing is silent", "another cluster under the same address"):
        fragile_broker.start_with(None)
        stream.make_topic()
        stream.send(*lines(20, 9))
        assert_stops(stream, "The broker belongs to cluster", "partition 0 from offset 4, partition 1 from offset 2")
        assert accept_and_merge(stream, by_declaration=False) == [Range(0, 4, 4), Range(1, 2, 2), Range(2, 0, 0)]
        assert_holds(stream, hours(*range(6), *range(20, 29)))


@pytest.mark.invariant("8.1", "9.1", "9.4")
def test_a_broker_restored_from_an_older_copy_stops_the_run(spark, fragile_broker, attack, tmp_path):
    stream = merge_first_records(DeletingStream.create(spark, fragile_broker.settings))
    stream.is_counted = False
    with attack("Nothing is silent", "broker restored from an older copy: the topic ends behind the progress"):
        fragile_broker.copy_data(tmp_path / "copy")
        add_partitions(stream.settings, stream.table.topic, 5)
        stream.send(b"{", *lines(21, 2))
        stream.send(*lines(30, 1), partition=4)
        stream.merge()
        fragile_broker.start_with(tmp_path / "copy")
        stream.send(b"", *lines(40, 1))
        stream.table = replace(stream.table, gaps="accept")
        assert_stops(stream, "Partition 0 ends at 6, but the table has merged up to 7", "Partition 4 no longer exists")
        assert accept_and_merge(stream, by_declaration=False) == [Range(0, 6, 7), Range(4, 1, 1)]
        assert_holds(stream, hours(*range(12), 21, 22, 30, 40))
        assert sorted(stream.rejected()) == [(0, 4, "empty_value"), (0, 4, "truncated")], "both had the same offset"


@pytest.mark.invariant("2.3", "3.3")
def test_a_compacted_topic_with_missing_offsets_is_merged_completely(spark, cluster, attack):
    stream = Stream(spark, cluster.settings, unique_table(partitions=1, apply_as_deletes=DELETES))
    configs = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    new_topic = NewTopic(stream.table.topic, 1, 3, topic_configs=configs)
    with_client(AIOKafkaAdminClient, stream.settings, lambda admin: admin.create_topics([new_topic]))
    with attack("Nothing is lost", "compaction leaves holes below and above the progress"):
        send_keyed(stream, (1, b"{"), (13, 0.0))
        stream.merge()
        for turn in range(4):
            send_keyed(stream, *((number, float(turn)) for number in range(turn % 2, 12)))
        send_keyed(stream, (13, delete(hour(13))))
        stream.merge(until={0: 15})
        assert wait_until(lambda: send_and_count(stream) < 30, 120)
        (outcome,) = stream.merge()
        assert outcome.entry.commit.read < outcome.plan.span
        expected = {hour(0): 2.0, **{hour(n): 3.0 for n in range(1, 12)}, hour(30): 0.0}
        assert stream.temperatures() == expected
        stream.assert_accounted()
    with attack("Nothing is lost", "a replay of a compacted topic: a rejected record is only in the table now"):
        assert sum(outcome.entry.commit.rejected for outcome in stream.replay()) == 0
        assert stream.rejected() == [(0, 0, "truncated")]
        assert stream.temperatures() == expected
        stream.assert_accounted()


def send_keyed(stream: Stream, *readings: tuple[int, float | bytes]) -> None:
    """Send a temperature, or a raw line, with its hour as the key; return when all are acknowledged."""

    async def send_all(producer: AIOKafkaProducer) -> None:
        for number, value in readings:
            line = value if isinstance(value, bytes) else record(time=hour(number), temperature_2m=value)
            await producer.send_and_wait(stream.table.topic, line, key=hour(number).encode())

    with_client(AIOKafkaProducer, stream.settings, send_all, acks="all")


def send_and_count(stream: Stream) -> int:
    """Send one record, which closes the segment before it for compaction, and count the records."""
    send_keyed(stream, (30, 0.0))
    partition = TopicPartition(stream.table.topic, 0)

    async def count(consumer: AIOKafkaConsumer) -> int:
        consumer.assign([partition])
        await consumer.seek_to_beginning()
        record_count, end = 0, (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            record_count += sum(map(len, (await consumer.getmany(partition, timeout_ms=100)).values()))
        return record_count

    return with_client(AIOKafkaConsumer, stream.settings, count)
