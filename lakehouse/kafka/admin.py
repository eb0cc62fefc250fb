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
from lakehouse.kafka.metadata import TopicMetadata, describe
from lakehouse.kafka.state import find
from lakehouse.settings import Settings

_LIMIT = 15.0
_REPLICAS = 3


def create_topic(settings: Settings, table: StreamTable, partitions: int | None = None) -> bool:
    """Create the topic of a table, with records dated by the broker, and return when it can be used.

    Returns whether it was created; a topic that exists is left as it is, and no right to create one is needed.
    """

    async def question(clients: Clients) -> bool:
        async with clients.open(AIOKafkaAdminClient) as admin:
            if _usable(await describe(admin, [table.topic])):
                return False
            replicas = min(_REPLICAS, len((await admin.describe_cluster())["brokers"]))
            dated = {"message.timestamp.type": "LogAppendTime"}
            wanted = NewTopic(table.topic, partitions or table.partitions, replicas, topic_configs=dated)
            answer = await admin.create_topics([wanted])
            created = _created(table.topic, answer.topic_errors)
            await _until(admin, table.topic, _usable)
            return created

    return ask(settings, _LIMIT, question)


def add_partitions(settings: Settings, topic: str, total: int) -> None:
    """Give a topic ``total`` partitions; ``TopicError`` where it is missing or has as many already."""

    async def question(clients: Clients) -> None:
        async with clients.open(AIOKafkaAdminClient) as admin:
            there = len((await find(admin, topic)).leaders)
            if there >= total:
                fact = f"The topic has {there} partitions and cannot be given {total}"
                raise TopicError(fact, where=f"topic {topic}", action="Ask for more than it has.")
            await admin.create_partitions({topic: NewPartitions(total)})
            await _until(admin, topic, lambda found: _usable(found) and len(found[0].leaders) == total)

    ask(settings, _LIMIT, question)


def delete_topic(settings: Settings, topic: str) -> None:
    """Delete a topic with all its records and return when it is gone; ``TopicError`` where it is missing."""

    async def question(clients: Clients) -> None:
        async with clients.open(AIOKafkaAdminClient) as admin:
            await find(admin, topic)
            answer = await admin.delete_topics([topic])
            for _, code in answer.topic_error_codes:
                _refuse(topic, code, "")
            await _until(admin, topic, lambda found: not found)

    ask(settings, _LIMIT, question)


def _created(topic: str, errors: list[tuple[Any, ...]]) -> bool:
    for _, code, *text in errors:
        if code == TopicAlreadyExistsError.errno:
            return False
        _refuse(topic, code, text[0] if text else "")
    return True


def _refuse(topic: str, code: int, text: str | None) -> None:
    if code:
        fact = f"The broker refused: {text or for_code(code).__name__}"
        raise TopicError(fact, where=f"topic {topic}", action="Correct the name or the rights of this user.")


def _usable(found: list[TopicMetadata]) -> bool:
    return bool(found) and all(leader >= 0 for leader in found[0].leaders.values())


async def _until(admin: AIOKafkaAdminClient, topic: str, reached: Callable[[list[TopicMetadata]], bool]) -> None:
    """Wait until the broker that answers knows of the change; the limit of the question ends the wait."""
    while not reached(await describe(admin, [topic])):
        await asyncio.sleep(0.02)
