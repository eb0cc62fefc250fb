"""Create, widen and delete topics."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import TopicAlreadyExistsError, for_code

from lakehouse.declaration import StreamTable
from lakehouse.errors import TopicError
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.metadata import TopicMetadata, describe_topics
from lakehouse.kafka.state import find_topic
from lakehouse.settings import Settings

_LIMIT = 15.0
_REPLICAS = 3


def create_topic(settings: Settings, table: StreamTable, partitions: int | None = None) -> bool:
    """Create the topic of a table, with timestamps set by the broker, and return once it is usable.

    Returns whether the topic was created. An existing topic stays as it is, and needs no permission to create topics.
    """
    return create_named_topic(settings, table.topic, partitions or table.topic_options.partitions)


def create_named_topic(settings: Settings, topic: str, partitions: int) -> bool:
    """Create a topic as ``create_topic`` creates that of a table, whether a table reads it or not."""

    async def create(clients: Clients) -> bool:
        async with clients.open(AIOKafkaAdminClient) as admin:
            if _is_usable(await describe_topics(admin, [topic])):
                return False
            replicas = min(_REPLICAS, len((await admin.describe_cluster())["brokers"]))
            topic_configs = {"message.timestamp.type": "LogAppendTime"}
            new_topic = NewTopic(topic, partitions, replicas, topic_configs=topic_configs)
            response = await admin.create_topics([new_topic])
            is_created = _read_creation(topic, response.topic_errors)
            await _wait_until(admin, topic, _is_usable)
            return is_created

    return ask(settings, _LIMIT, create)


def add_partitions(settings: Settings, topic: str, total: int) -> None:
    """Widen a topic to ``total`` partitions; ``TopicError`` if it is missing or already has as many."""

    async def widen(clients: Clients) -> None:
        async with clients.open(AIOKafkaAdminClient) as admin:
            partition_count = len((await find_topic(admin, topic)).leaders)
            if partition_count >= total:
                fact = f"The topic has {partition_count} partitions and cannot be changed to {total}"
                action = f"Ask for more than {partition_count} partitions."
                raise TopicError(fact, where=f"topic {topic}", action=action)
            await admin.create_partitions({topic: NewPartitions(total)})
            await _wait_until(admin, topic, lambda topics: _is_usable(topics) and len(topics[0].leaders) == total)

    ask(settings, _LIMIT, widen)


def delete_topic(settings: Settings, topic: str) -> None:
    """Delete a topic with all its records and return once it is gone; ``TopicError`` if it is missing."""

    async def delete(clients: Clients) -> None:
        async with clients.open(AIOKafkaAdminClient) as admin:
            await find_topic(admin, topic)
            response = await admin.delete_topics([topic])
            for _, code in response.topic_error_codes:
                _require_success(topic, code, "")
            await _wait_until(admin, topic, lambda topics: not topics)

    ask(settings, _LIMIT, delete)


def _read_creation(topic: str, errors: list[tuple[Any, ...]]) -> bool:
    """Return whether the request created the topic; ``False`` if another client was first."""
    for _, code, *message in errors:
        if code == TopicAlreadyExistsError.errno:
            return False
        _require_success(topic, code, message[0] if message else "")
    return True


def _require_success(topic: str, code: int, message: str | None) -> None:
    if code:
        fact = f"The broker refused the request: {message or for_code(code).__name__}"
        raise TopicError(fact, where=f"topic {topic}", action="Correct the name of the topic or this user's rights.")


def _is_usable(topics: list[TopicMetadata]) -> bool:
    return bool(topics) and all(leader >= 0 for leader in topics[0].leaders.values())


async def _wait_until(
    admin: AIOKafkaAdminClient, topic: str, is_reached: Callable[[list[TopicMetadata]], bool]
) -> None:
    """Wait until the broker that answers reports the change; the time limit of the request ends the wait."""
    while not is_reached(await describe_topics(admin, [topic])):
        await asyncio.sleep(0.02)
