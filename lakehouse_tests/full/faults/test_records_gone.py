"""Records that go away, topics that are not what they were: nothing that is there is missed, and no loss is silent."""

import asyncio
import re
from dataclasses import replace
from functools import partial

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from lakehouse.errors import DataLossError
from lakehouse.kafka import add_partitions, create_topic, delete_topic
from lakehouse.ledger.positions import Range
from lakehouse_tests.helpers.brokers.clients import delete_before, with_client
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record, unique_table
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = pytest.mark.invariant(2, 9)

UNTIL = {0: 4, 1: 2, 2: 0}  # merged of the first records: more than none of each partition but the last


@pytest.fixture
def stream(spark, broker) -> Stream:
    return begun(Stream.create(spark, broker))


def begun(stream: Stream) -> Stream:
    """Send four hours into each of three partitions, and merge some of the first two."""
    for partition in range(3):
        stream.send(*lines(partition * 4, 4), partition=partition)
    stream.merge(until=UNTIL)
    return stream


def lines(first: int, count: int) -> list[bytes]:
    return [record(time=hour(number)) for number in range(first, first + count)]


def hours(*numbers: int) -> set[str]:
    return {hour(number) for number in numbers}


def make_anew(stream: Stream, first: int, count: int) -> None:
    """Delete the topic, create it again and fill its first partition."""
    delete_topic(stream.settings, stream.table.topic)
    create_topic(stream.settings, stream.table)
    stream.send(*lines(first, count))


def assert_stops(stream: Stream, *named: str) -> None:
    """The run stops with an error that names the topic, all of this and the command, and merges nothing."""
    before = committed(stream)
    with pytest.raises(DataLossError) as caught:
        stream.merge()
    for text in (f"topic {stream.table.topic}", *named, f"lakehouse accept-gap {stream.table.name}"):
        assert re.search(text, str(caught.value))
    version = stream.ledger.version
    for again in (stream.merge, stream.replay):
        with pytest.raises(DataLossError):
            again()
    assert (committed(stream), stream.ledger.version) == (before, version)


def committed(stream: Stream) -> tuple[int, int]:
    """The transaction number and the newest version that may have changed a row; what is declared is in neither."""
    return stream.ledger.transaction, stream.ledger.rows_version


def accepted(stream: Stream, *, declared: bool) -> list[Range]:
    """Go on behind the gap and merge all there is; the offsets that the ledger names as gone."""
    if declared:
        stream.table = replace(stream.table, gaps="accept")
    else:
        stream.accept_gap()
    stream.merge()
    gap = next(entry for entry in stream.ledger.entries if entry.commit.kind == "gap")
    assert stream.merge() == []
    return list(gap.commit.gap)


def assert_holds(stream: Stream, expected: set[str]) -> None:
    assert set(stream.temperatures()) == expected
    stream.assert_accounted()


@pytest.mark.parametrize("declared", [False, True])
def test_records_deleted_below_the_progress_are_named_and_stepped_over(spark, broker, attack, declared):
    stream = begun(Stream.create(spark, broker))
    with attack("Nothing is silent", "records deleted before they were merged"):
        delete_before(broker, stream.table.topic, {0: 3, 1: 3, 2: 1})
        assert_stops(stream, "Partition 1: records from 2 to 2 were deleted", "Partition 2: records from 0 to 0")
        assert accepted(stream, declared=declared) == [Range(1, 2, 3), Range(2, 0, 1)]
        assert_holds(stream, hours(*range(12)) - hours(6, 8))


@pytest.mark.parametrize("count", [2, 4, 9])
def test_a_topic_made_anew_is_told_from_the_old_one(spark, broker, attack, count):
    stream = begun(Stream.create(spark, broker))
    with attack("Nothing is silent", "topic deleted and created again, with fewer or more records than before"):
        make_anew(stream, 20, count)
        assert_stops(stream, "deleted and created again", "partition 0 from offset 4, partition 1 from offset 2")
        assert accepted(stream, declared=False) == [Range(0, 4, 4), Range(1, 2, 2), Range(2, 0, 0)]
        assert_holds(stream, hours(*range(6), *range(20, 20 + count)))


@pytest.mark.parametrize("declared", [True, False])
def test_records_deleted_between_plan_and_read_are_planned_again(spark, broker, attack, interference, declared):
    stream = begun(Stream.create(spark, broker))
    with attack("Nothing is silent", "records deleted between plan and read"):
        interference.before_reading(partial(delete_before, broker, stream.table.topic, {1: 3}))
        if declared:
            stream.table = replace(stream.table, gaps="accept")
            kinds = [outcome.entry.commit.kind for outcome in stream.merge()]
            assert kinds == ["gap", "batch"]
        else:
            assert_stops(stream, "Partition 1: records from 2 to 2 were deleted")
            assert accepted(stream, declared=False) == [Range(1, 2, 3)]
        assert_holds(stream, hours(*range(12)) - hours(6))
    with attack("Nothing is silent", "records deleted between plan and read of a replay"):
        interference.before_reading(partial(delete_before, broker, stream.table.topic, {0: 1}))
        named = f"partition 0 offsets 0 to 3.*lakehouse replay {stream.table.name}"
        with pytest.raises(DataLossError, match=named):
            stream.replay()


def test_a_topic_made_anew_between_plan_and_read_is_never_read_as_the_old_one(stream, attack, interference):
    with attack("Nothing is silent", "topic created again, with more records, between plan and read"):

        def make_larger() -> None:
            make_anew(stream, 20, 9)
            for partition in (1, 2):
                stream.send(*lines(20 + 10 * partition, 9), partition=partition)

        interference.before_reading(make_larger)
        stream.table = replace(stream.table, gaps="accept")
        assert_stops(stream, "deleted and created again")
        accepted(stream, declared=False)
        assert_holds(stream, hours(*range(6), *range(20, 29), *range(30, 39), *range(40, 49)))


def test_partitions_added_between_plan_and_read_are_read_by_the_next_batch(stream, attack, interference):
    with attack("Nothing is lost", "partitions added between plan and read"):

        def widen() -> None:
            add_partitions(stream.settings, stream.table.topic, 5)
            stream.send(*lines(20, 2), partition=4)

        interference.before_reading(widen)
        planned, later = stream.merge()
        assert [part.partition for part in planned.plan.ranges] == [0, 1, 2]
        assert (planned.entry.commit.read, later.entry.commit.read) == (6, 2)
        assert_holds(stream, hours(*range(12), 20, 21))


def test_transactions_that_are_open_or_aborted_are_never_merged(stream, attack):
    topic = stream.table.topic

    async def transact(producer: AIOKafkaProducer) -> None:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, record(time=hour(20)), partition=1)
        await asyncio.to_thread(stream.send, record(time=hour(21)), partition=1)
        await asyncio.to_thread(stream.merge)
        assert set(stream.temperatures()) == hours(*range(12)), "what stands behind an open transaction waits"
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_and_wait(topic, record(time=hour(22)), partition=1)
        await producer.commit_transaction()

    with attack("Nothing is doubled", "transactions open while merging, aborted and committed"):
        with_client(AIOKafkaProducer, stream.settings, transact, transactional_id=topic)
        (outcome,) = stream.merge()
        assert outcome.entry.commit.read == 2
        assert outcome.plan.span > 2, "markers and aborted records take offsets too"
        assert_holds(stream, hours(*range(12), 21, 22))


@pytest.mark.parametrize("many", [1, 5_000])
def test_records_whose_time_is_beyond_any_timestamp_are_rejected_and_all_others_merged(spark, broker, attack, many):
    """Among 20,000 records over three partitions; in one of them, of every second one the time is in nanoseconds."""
    stream = Stream(spark, broker, unique_table())
    configs = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(2**63 - 1)}
    made = NewTopic(stream.table.topic, 3, 1, topic_configs=configs)
    with_client(AIOKafkaAdminClient, broker, lambda admin: admin.create_topics([made]))
    total = 20_000

    async def send(producer: AIOKafkaProducer) -> None:
        for number in range(total):
            beyond = number % 3 == 1 and number // 3 % 2 == 0 and number // 6 < many
            time = 1_700_000_000_000_000_000 if beyond else 1_700_000_000_000
            value = record(time=hour(number % 600), latitude=float(number // 600))
            await producer.send(stream.table.topic, value, partition=number % 3, timestamp_ms=time)
        await producer.flush()

    with attack("Nothing is silent", f"{many:,} records whose time is in nanoseconds"):
        with_client(AIOKafkaProducer, broker, send)
        outcomes = stream.merge()
        rejected = min(many, len(range(1, total, 6)))
        assert len(outcomes) == 1, "they fit into the memory of one batch"
        assert sum(outcome.entry.commit.read for outcome in outcomes) == total
        assert sum(outcome.entry.commit.rejected for outcome in outcomes) == rejected
        assert len(stream.sql("SELECT 1 FROM {t}")) == total - rejected
        stream.assert_accounted()


def test_another_cluster_under_the_same_address_is_told_apart(spark, one, attack):
    stream = begun(Stream.create(spark, one.settings))
    with attack("Nothing is silent", "another cluster under the same address"):
        one.start_with(None)
        create_topic(stream.settings, stream.table)
        stream.send(*lines(20, 9))
        assert_stops(stream, "The broker belongs to cluster", "partition 0 from offset 4, partition 1 from offset 2")
        assert accepted(stream, declared=False) == [Range(0, 4, 4), Range(1, 2, 2), Range(2, 0, 0)]
        assert_holds(stream, hours(*range(6), *range(20, 29)))


def test_a_broker_that_came_back_with_older_data(spark, one, attack, tmp_path):
    stream = begun(Stream.create(spark, one.settings))
    with attack("Nothing is silent", "broker restored from an older copy: the topic ends behind the progress"):
        one.copy_data(tmp_path / "copy")
        add_partitions(stream.settings, stream.table.topic, 4)
        stream.send(b"{", *lines(21, 2))
        stream.send(*lines(30, 1), partition=3)
        stream.merge()
        one.start_with(tmp_path / "copy")
        stream.send(b"", *lines(40, 1))
        stream.table = replace(stream.table, gaps="accept")
        assert_stops(stream, "Partition 0 ends at 6, but the table has merged up to 7", "Partition 3 no longer exists")
        assert accepted(stream, declared=False) == [Range(0, 6, 7), Range(3, 1, 1)]
        assert_holds(stream, hours(*range(12), 21, 22, 30, 40))
        assert sorted(stream.rejected()) == [(0, 4, "empty_value"), (0, 4, "truncated")], "at an offset given twice"


def test_a_compacted_topic_has_holes_and_keeps_its_newest(spark, cluster, attack):
    stream = Stream(spark, cluster.settings, unique_table(partitions=1))
    configs = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    made = NewTopic(stream.table.topic, 1, 3, topic_configs=configs)
    with_client(AIOKafkaAdminClient, stream.settings, lambda admin: admin.create_topics([made]))
    with attack("Nothing is lost", "compaction leaves holes below and above the progress"):
        send_keyed(stream, (1, b"{"))
        stream.merge()
        for turn in range(4):
            send_keyed(stream, *((number, float(turn)) for number in range(turn % 2, 12)))
        stream.merge(until={0: 15})
        assert wait_until(lambda: send_and_count(stream) < 30, 120)
        (outcome,) = stream.merge()
        assert outcome.entry.commit.read < outcome.plan.span
        held = {hour(0): 2.0, **{hour(n): 3.0 for n in range(1, 12)}, hour(30): 0.0}
        assert stream.temperatures() == held
        stream.assert_accounted()
    with attack("Nothing is lost", "a replay of a compacted topic: a rejected record is only in the table now"):
        assert sum(outcome.entry.commit.rejected for outcome in stream.replay()) == 0
        assert stream.rejected() == [(0, 0, "truncated")]
        assert stream.temperatures() == held
        stream.assert_accounted()


def send_keyed(stream: Stream, *readings: tuple[int, float | bytes]) -> None:
    """Send a temperature, or a line as it is, under the key of its hour, and return when each can be read."""

    async def send_all(producer: AIOKafkaProducer) -> None:
        for number, value in readings:
            line = value if isinstance(value, bytes) else record(time=hour(number), temperature_2m=value)
            await producer.send_and_wait(stream.table.topic, line, key=hour(number).encode())

    with_client(AIOKafkaProducer, stream.settings, send_all, acks="all")


def send_and_count(stream: Stream) -> int:
    """Send one record, so that the segment before it is closed and compacted, and count what is there."""
    send_keyed(stream, (30, 0.0))
    part = TopicPartition(stream.table.topic, 0)

    async def count(consumer: AIOKafkaConsumer) -> int:
        consumer.assign([part])
        await consumer.seek_to_beginning()
        found, end = 0, (await consumer.end_offsets([part]))[part]
        while await consumer.position(part) < end:
            found += sum(map(len, (await consumer.getmany(part, timeout_ms=100)).values()))
        return found

    return with_client(AIOKafkaConsumer, stream.settings, count)
