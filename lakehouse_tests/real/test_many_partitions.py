"""Few records over many partitions are read by one client, exactly as Spark's source reads them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pyspark.sql import SparkSession

from lakehouse.kafka import TimelessRecordError, read, read_failures, read_records, read_topic
from lakehouse.kafka.read import MAX_MILLISECONDS, read_few_records
from lakehouse.ledger.planning import plan_batch
from lakehouse.ledger.positions import Plan, Range
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.clients import delete_before, with_client
from lakehouse_tests.helpers.brokers.streams import unique_table

PARTITIONS = 8


@pytest.fixture
def topic(broker: Settings) -> str:
    """A topic whose producers set any time of their records."""
    limits = {f"message.timestamp.{side}.max.ms": str(2**63 - 1) for side in ("before", "after")}
    configs = {"message.timestamp.type": "CreateTime", **limits}
    new_topic = NewTopic(unique_table().topic, PARTITIONS, 1, topic_configs=configs)
    with_client(AIOKafkaAdminClient, broker, lambda admin: admin.create_topics([new_topic]))
    return str(new_topic.name)


def send(broker: Settings, topic: str, messages: Sequence[dict[str, Any]], **options: Any) -> None:
    async def send_all(producer: AIOKafkaProducer) -> None:
        for message in messages:
            await producer.send_and_wait(topic, **message)

    with_client(AIOKafkaProducer, broker, send_all, **options)


def plan_all(broker: Settings, topic: str) -> Plan:
    return plan_batch(read_topic(broker, topic), None)


def rows_of(spark: SparkSession, broker: Settings, plan: Plan) -> list[tuple[Any, ...]]:
    rows = read_records(spark, broker, plan).selectExpr("unix_micros(_time)", "* EXCEPT (_time)").collect()
    return sorted((tuple(row) for row in rows), key=lambda row: (row[1], row[2]))


def rows_of_source(spark: SparkSession, broker: Settings, plan: Plan) -> list[tuple[Any, ...]]:
    """The rows that Spark's source gives for the plan."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "FEW_POSITIONS", 0)
        return rows_of(spark, broker, plan)


@pytest.mark.invariant("2.1", "2.3", "2.4")
def test_one_client_reads_the_same_rows_as_the_source_of_spark(spark, broker, topic):
    parts: list[dict[str, Any]] = [
        {"value": None, "key": b"k"},
        {"value": b"", "key": b""},
        {"value": b"\x00\xff", "key": None, "headers": [("a", b"1"), ("a", b""), ("\u00e9", b"\xff")]},
        *({"value": b"v", "timestamp_ms": milliseconds} for milliseconds in (0, 1, MAX_MILLISECONDS)),
    ]
    for compression in (None, "gzip", "snappy", "lz4", "zstd"):
        messages = [{**part, "partition": n} for n in range(PARTITIONS - 1) for part in parts]
        send(broker, topic, messages, compression_type=compression)

    async def run_transactions(producer: AIOKafkaProducer) -> None:
        for end in (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction):
            await producer.begin_transaction()
            for partition in range(0, PARTITIONS, 2):
                await producer.send_and_wait(topic, end.__name__.encode(), partition=partition)
            await end()

    with_client(AIOKafkaProducer, broker, run_transactions, transactional_id=topic)
    plan = plan_all(broker, topic)
    inner_plan = replace(plan, ranges=tuple(Range(r.partition, r.start + 3, r.end - 1) for r in plan.ranges if r.span))
    for some_plan in (plan, inner_plan):
        records = read_few_records(broker, some_plan)
        rows = rows_of(spark, broker, some_plan)
        assert records is not None
        assert len(records) == len(rows)
        assert rows == rows_of_source(spark, broker, some_plan)
    assert not any(b"abort" in (row[5] or b"") for row in rows_of(spark, broker, plan))


def test_a_time_that_spark_cannot_read_is_left_to_its_failure(spark, broker, topic):
    send(broker, topic, [{"value": b"v", "partition": n} for n in range(PARTITIONS)])
    assert read_few_records(broker, plan_all(broker, topic)) is not None
    send(broker, topic, [{"value": b"v", "partition": 0, "timestamp_ms": MAX_MILLISECONDS + 1}])
    plan = plan_all(broker, topic)
    assert read_few_records(broker, plan) is None
    with pytest.raises(TimelessRecordError), read_failures(plan, "lakehouse merge t"):
        read_records(spark, broker, plan).count()


def test_records_with_many_bytes_are_read_by_spark(broker, topic, monkeypatch):
    send(broker, topic, [{"value": b"v" * 1_000, "partition": n} for n in range(PARTITIONS)])
    plan = plan_all(broker, topic)
    assert len(read_few_records(broker, plan) or ()) == PARTITIONS
    monkeypatch.setattr(read, "ROOM", PARTITIONS * 1_000)
    assert read_few_records(broker, plan) is None


@pytest.mark.parametrize("count", [2, 3])
def test_few_partitions_are_read_by_spark(broker, topic, count):
    send(broker, topic, [{"value": b"v", "partition": n} for n in range(count)])
    records = read_few_records(broker, plan_all(broker, topic))
    assert (None if records is None else len(records)) == (3 if count == 3 else None)


@pytest.mark.invariant("9.5")
def test_a_read_of_deleted_records_over_many_partitions_fails(spark, broker, topic):
    send(broker, topic, [{"value": b"v", "partition": n} for n in range(PARTITIONS) for _ in range(5)])
    plan = plan_all(broker, topic)
    delete_before(broker, topic, {3: 2})
    with pytest.raises(Exception, match=r"KAFKA_DATA_LOSS|data may have been lost"):
        read_records(spark, broker, plan).count()


def test_a_client_that_cannot_read_leaves_it_to_spark_within_its_limit(broker, topic, monkeypatch):
    send(broker, topic, [{"value": b"v", "partition": n} for n in range(PARTITIONS)])
    plan = plan_all(broker, topic)
    beyond_plan = replace(plan, ranges=tuple(replace(offsets, end=offsets.end + 1) for offsets in plan.ranges))
    monkeypatch.setattr(read, "_LIMIT", 1.0)
    assert read_few_records(broker, beyond_plan) is None
