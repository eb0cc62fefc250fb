"""The first records of many partitions are read together, and each result is that of its own partition. No Spark."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from lakehouse.errors import TopicError
from lakehouse.kafka import first_records, read, read_topic, record_times
from lakehouse.ledger.positions import Plan, Range, SourceId
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.histories.surroundings import make_topic
from lakehouse_tests.helpers.waiting import wait_until

PARTITIONS = 6
NOON = datetime(2023, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def topic(broker: Settings) -> str:
    """A topic of six partitions, in which producers set the times."""
    name = f"first-{uuid4().hex[:12]}"
    make_topic(broker, name, PARTITIONS)
    return name


def after(hours: int) -> datetime:
    return NOON + timedelta(hours=hours)


def send(broker: Settings, topic: str, partition: int, *hours: int) -> None:
    """Send a record for each of these hours to a partition."""

    async def send_all(producer: AIOKafkaProducer) -> None:
        for hour in hours:
            milliseconds = int(after(hour).timestamp() * 1000)
            await producer.send_and_wait(topic, b"{}", None, partition, milliseconds)

    with_client(AIOKafkaProducer, broker, send_all)


def abort(broker: Settings, topic: str, partition: int) -> None:
    """Send two records to a partition in a transaction that is aborted: three offsets without a record."""

    async def run(producer: AIOKafkaProducer) -> None:
        await producer.begin_transaction()
        for _ in range(2):
            await producer.send_and_wait(topic, b"{}", partition=partition)
        await producer.abort_transaction()

    with_client(AIOKafkaProducer, broker, run, transactional_id=topic)
    assert wait_until(lambda: read_topic(broker, topic).end[partition] == 3), (
        "the broker has written the mark of its end"
    )


def times(broker: Settings, topic: str, *ranges: Range) -> dict[int, datetime | None]:
    return {partition: record.time for partition, record in first_records(broker, topic, ranges).items()}


def test_the_partitions_are_requested_together_up_to_a_limit(
    broker: Settings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for partition in range(PARTITIONS - 1):
        send(broker, topic, partition, partition, 9, 10)
    counts: list[int] = []
    assign: Callable[..., None] = AIOKafkaConsumer.assign

    def count_and_assign(consumer: AIOKafkaConsumer, partitions: list[Any]) -> None:
        counts.append(len(partitions))
        assign(consumer, partitions)

    monkeypatch.setattr(AIOKafkaConsumer, "assign", count_and_assign)
    monkeypatch.setattr(record_times, "_TOGETHER", 4)
    ranges = [Range(0, 1, 3), *(Range(partition, 0, 3) for partition in range(1, 5)), Range(5, 0, 0)]
    assert times(broker, topic, *ranges) == {0: after(9), **{partition: after(partition) for partition in range(1, 5)}}
    assert counts == [4, 2]


def test_a_range_without_a_committed_record_has_no_result_and_hides_no_other(broker: Settings, topic: str) -> None:
    for partition in (0, 2):
        abort(broker, topic, partition)
    send(broker, topic, 1, 1)
    send(broker, topic, 2, 2)
    assert times(broker, topic, Range(0, 0, 3), Range(1, 0, 1), Range(2, 0, 4)) == {1: after(1), 2: after(2)}
    assert times(broker, topic, Range(2, 0, 3)) == {}


@pytest.mark.invariant("8.11")
def test_a_compressed_batch_that_is_too_large_hides_its_own_partition_alone(
    broker: Settings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def send_large(producer: AIOKafkaProducer) -> None:
        await producer.send_and_wait(topic, bytes(100_000), partition=0)

    with_client(AIOKafkaProducer, broker, send_large, compression_type="gzip")
    send(broker, topic, 0, 1)
    send(broker, topic, 1, 1)
    monkeypatch.setattr(record_times, "LARGEST_BATCH", 50_000)
    assert times(broker, topic, Range(0, 0, 2), Range(1, 0, 1)) == {0: None, 1: after(1)}
    monkeypatch.setattr(read, "LARGEST_BATCH", 50_000)
    plan = Plan(topic, SourceId("topic", "a"), (Range(0, 0, 2), Range(1, 0, 1)))
    with pytest.raises(TopicError, match=r"Neither client can read the records of partition 0 from offset 0 on"):
        read.cut_around(broker, plan, "lakehouse merge t")
    monkeypatch.setattr(read, "LARGEST_BATCH", 200_000)
    assert read.cut_around(broker, plan, "lakehouse merge t").plan == plan
