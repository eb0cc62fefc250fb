"""Another client of the broker, to write what ours never would and to read what ours wrote."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from lakehouse.kafka import look
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers


def with_client(client: type, broker: Settings, work: Callable[[Any], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        opened = client(bootstrap_servers=bootstrap_servers(broker), **options)
        await opened.start()
        try:
            return await work(opened)
        finally:
            await (opened.close() if client is AIOKafkaAdminClient else opened.stop())

    return asyncio.run(run())


def delete_before(broker: Settings, topic: str, offsets: dict[int, int]) -> None:
    """Delete the records of partitions up to an offset, as retention does."""
    gone = {TopicPartition(topic, p): RecordsToDelete(before_offset=offset) for p, offset in offsets.items()}
    with_client(AIOKafkaAdminClient, broker, lambda admin: admin.delete_records(gone))


def stored(broker: Settings, topic: str) -> list[Any]:
    """Every record of a topic, as another client reads it."""
    state = look(broker, topic)

    async def read(consumer: AIOKafkaConsumer) -> list[Any]:
        consumer.assign([TopicPartition(topic, partition) for partition in state.end])
        await consumer.seek_to_beginning()
        return [await consumer.getone() for _ in range(sum(state.end.values()))]

    return with_client(AIOKafkaConsumer, broker, read)
