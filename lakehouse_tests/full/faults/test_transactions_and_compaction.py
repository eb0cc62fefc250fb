"""Transactions and compaction leave holes in a topic: every record that exists is merged once, and no other."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from lakehouse.declaration import Deletes
from lakehouse_tests.helpers.attacks.first_records import assert_holds, hours
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.brokers.streams import DELETES, Stream, delete, hour, record, unique_table
from lakehouse_tests.helpers.waiting import wait_until


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


@pytest.mark.invariant("2.3", "3.3")
def test_a_compacted_topic_with_missing_offsets_is_merged_completely(spark, cluster, attack):
    stream = Stream(spark, cluster.settings, unique_table(partitions=1, may_forget=True, deletes=Deletes(when=DELETES)))
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
