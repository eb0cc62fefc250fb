"""Spark reads exactly the committed records of a plan from a real topic, or fails."""

from dataclasses import replace

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from pyspark.sql import SparkSession

from lakehouse.declaration import StreamTable
from lakehouse.kafka import publish, read_records, read_topic
from lakehouse.ledger.planning import plan_batch
from lakehouse.ledger.positions import Plan, Range
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.clients import read_topic_records, with_client


@pytest.mark.invariant("2.4")
def test_exactly_the_ranges_of_a_plan_are_read(
    spark: SparkSession, broker: Settings, table: StreamTable, topic: str
) -> None:
    publish(broker, table, [b'{"n": %d}' % number for number in range(100)])
    state = read_topic(broker, topic)
    plan = plan_batch(state, None)
    middle_ranges = tuple(Range(p.partition, p.start + p.span // 4, p.start + p.span // 2) for p in plan.ranges)
    rows = read_records(spark, broker, replace(plan, ranges=middle_ranges)).collect()
    read_rows = sorted((row._partition, row._position, bytes(row._value)) for row in rows)
    expected = [
        (stored_record.partition, stored_record.offset, stored_record.value)
        for stored_record in read_topic_records(broker, topic)
        if middle_ranges[stored_record.partition].start
        <= stored_record.offset
        < middle_ranges[stored_record.partition].end
    ]
    assert read_rows == sorted(expected)
    assert len(read_rows) == sum(offset_range.span for offset_range in middle_ranges) > 0


def test_a_record_is_read_with_its_key_time_and_headers(spark: SparkSession, broker: Settings, topic: str) -> None:
    message = {"value": b"v", "key": None, "partition": 0, "headers": [("trace", b"\x00\x01")]}
    with_client(AIOKafkaProducer, broker, lambda producer: producer.send_and_wait(topic, **message))
    frame = read_records(spark, broker, plan_batch(read_topic(broker, topic), None))
    types = dict(frame.dtypes)
    assert types == {
        "_time": "timestamp",
        "_partition": "int",
        "_position": "bigint",
        "_sequence": "bigint",
        "_key": "binary",
        "_value": "binary",
        "_headers": "array<struct<key:string,value:binary>>",
    }
    (row,) = frame.collect()
    assert (row._partition, row._position, row._key, bytes(row._value)) == (0, 0, None, b"v")
    assert [(header.key, bytes(header.value)) for header in row._headers] == [("trace", b"\x00\x01")]


def test_a_plan_of_empty_ranges_reads_nothing(spark: SparkSession, broker: Settings, topic: str) -> None:
    plan = plan_batch(read_topic(broker, topic), None)
    assert read_records(spark, broker, plan).count() == 0


@pytest.mark.invariant("9.5")
@pytest.mark.parametrize("ranges", [(Range(0, 0, 10),), (Range(0, 10, 15),)], ids=["deleted", "beyond the end"])
def test_a_read_of_missing_records_fails(
    spark: SparkSession, broker: Settings, topic: str, ranges: tuple[Range, ...]
) -> None:
    async def send_records(producer: AIOKafkaProducer) -> None:
        for _ in range(10):
            await producer.send_and_wait(topic, b"v", partition=0)

    with_client(AIOKafkaProducer, broker, send_records)
    deletion = {TopicPartition(topic, 0): RecordsToDelete(before_offset=4)}
    with_client(AIOKafkaAdminClient, broker, lambda admin: admin.delete_records(deletion))
    state = read_topic(broker, topic)
    with pytest.raises(Exception, match=r"KAFKA_DATA_LOSS|data may have been lost"):
        read_records(spark, broker, Plan(topic, state.source, ranges)).count()
