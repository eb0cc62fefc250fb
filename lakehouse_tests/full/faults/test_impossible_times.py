"""Records whose time is impossible are rejected, and all others are merged."""

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record, unique_table


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
