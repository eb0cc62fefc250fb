"""Another client of the broker, which writes what lakehouse never writes and reads what lakehouse wrote."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from lakehouse.kafka import read_topic
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers


def with_client(client: type, broker: Settings, work: Callable[[Any], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        connection = client(bootstrap_servers=bootstrap_servers(broker), **options)
        await connection.start()
        try:
            return await work(connection)
        finally:
            await (connection.close() if client is AIOKafkaAdminClient else connection.stop())

    return asyncio.run(run())


def delete_before(broker: Settings, topic: str, offsets: dict[int, int]) -> None:
    """Delete the records of partitions up to an offset, as retention does."""
    deletions = {TopicPartition(topic, p): RecordsToDelete(before_offset=offset) for p, offset in offsets.items()}
    with_client(AIOKafkaAdminClient, broker, lambda admin: admin.delete_records(deletions))


def read_topic_records(broker: Settings, topic: str) -> list[Any]:
    """Read every record of a topic with another client."""
    state = read_topic(broker, topic)

    async def read(consumer: AIOKafkaConsumer) -> list[Any]:
        consumer.assign([TopicPartition(topic, partition) for partition in state.end])
        await consumer.seek_to_beginning()
        return [await consumer.getone() for _ in range(sum(state.end.values()))]

    return with_client(AIOKafkaConsumer, broker, read)
