"""Loss is never silent: a topic made anew, records deleted, transactions; and the gap a person accepts."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from lakehouse.errors import DataLossError
from lakehouse.local.broker import bootstrap_servers
from lakehouse.repair import accept_gap, recover_progress
from lakehouse.topic import create_topic, delete_topic
from lakehouse_tests.streams import Stream, hour, record


@pytest.fixture
def stream(spark, broker):
    stream = Stream.create(spark, broker)
    stream.send(*(record(time=hour(number)) for number in range(4)))
    return stream


def delete_records(stream: Stream, before: int) -> None:
    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers(stream.settings))
        await admin.start()
        try:
            part = TopicPartition(stream.table.topic, 0)
            await admin.delete_records({part: RecordsToDelete(before_offset=before)})
        finally:
            await admin.close()

    asyncio.run(run())


def test_a_topic_made_anew_stops_the_run_until_the_gap_is_accepted(stream):
    stream.merge()
    delete_topic(stream.settings, stream.table.topic)
    create_topic(stream.settings, stream.table)
    stream.send(*(record(time=hour(number)) for number in range(4, 10)))
    with pytest.raises(DataLossError, match=r"deleted and created again.*lakehouse accept-gap"):
        stream.merge()
    assert accept_gap(stream.spark, stream.settings, stream.table).commit.kind == "gap"
    stream.merge()
    assert set(stream.temperatures()) == {hour(number) for number in range(10)}
    stream.assert_accounted()


def test_records_deleted_before_they_were_merged_are_named_and_recorded(stream):
    stream.merge(until={0: 1, 1: 0, 2: 0})
    delete_records(stream, before=3)
    with pytest.raises(DataLossError, match=r"Records from 1 to 2 were deleted .*partition 0"):
        stream.merge()
    entry = accept_gap(stream.spark, stream.settings, stream.table)
    assert [(part.partition, part.start, part.end) for part in entry.commit.gap] == [(0, 1, 3)]
    stream.merge()
    assert set(stream.temperatures()) == {hour(0), hour(3)}
    stream.assert_accounted()


def test_progress_is_recovered_from_the_merged_rows(stream):
    stream.merge(until={0: 3, 1: 0, 2: 0})
    entry = recover_progress(stream.spark, stream.settings, stream.table)
    assert entry.commit.progress == {0: 3, 1: 0, 2: 0}
    stream.merge()
    assert len(stream.temperatures()) == 4


def test_an_open_transaction_holds_back_only_what_is_not_committed(stream):
    stream.merge()

    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap_servers(stream.settings), transactional_id=stream.table.topic
        )
        await producer.start()
        try:
            await producer.begin_transaction()
            await producer.send_and_wait(stream.table.topic, record(time=hour(5)), partition=1)
            assert await asyncio.to_thread(stream.merge) == []
            await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.send_and_wait(stream.table.topic, record(time=hour(6)), partition=1)
            await producer.abort_transaction()
        finally:
            await producer.stop()

    asyncio.run(run())
    (outcome,) = stream.merge()
    assert set(stream.temperatures()) == {hour(number) for number in (0, 1, 2, 3, 5)}
    assert outcome.entry.commit.read == 1
    assert outcome.plan.span > 1, "markers and aborted records take offsets too"
    stream.assert_accounted()
