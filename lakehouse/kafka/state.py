"""One look at a topic: which records it holds and who it is."""

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from lakehouse.errors import TopicError
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.incarnation import TopicState
from lakehouse.kafka.metadata import TopicMetadata, describe, require_ids
from lakehouse.settings import Settings

_DATED_BY = "message.timestamp.type"

PATIENCE = 15.0
"""Seconds for a look of a batch: a leader that died has a successor after 9, by the broker's default."""


def look(settings: Settings, topic: str, limit: float = 4.0) -> TopicState:
    """Return the identity of a topic, and the earliest and the last stable offset of each partition.

    An open transaction holds the end back: records beyond it are not committed. ``producer_time`` is true
    also where the broker does not tell who dates the records.

    Raises ``BrokerError`` within ``limit`` seconds where the broker is down or hangs, ``BrokerRefusedError`` where it
    gives no id to its cluster or to the topic, ``TopicError`` where the topic is missing or changes while it is looked
    at.
    """

    async def question(clients: Clients) -> TopicState:
        async with clients.open(AIOKafkaAdminClient) as admin:
            before = await find(admin, topic)
            require_ids(before)
            producer_time = await _producer_time(admin, topic)
            earliest, end = await _offsets(clients, before)
            after = await find(admin, topic)
            if after.incarnation != before.incarnation:
                raise TopicError("The topic changed just now", where=f"topic {topic}", action="Try again.")
            return TopicState(topic, before.incarnation.source, earliest, end, producer_time)

    return ask(settings, limit, question)


def topic_names(settings: Settings, limit: float = 4.0) -> list[str]:
    """Return the names of the topics, sorted, without the broker's internal ones."""

    async def question(clients: Clients) -> list[str]:
        async with clients.open(AIOKafkaAdminClient) as admin:
            return sorted(found.topic for found in await describe(admin) if not found.internal)

    return ask(settings, limit, question)


async def find(admin: AIOKafkaAdminClient, topic: str) -> TopicMetadata:
    """Return what the broker knows of one topic; ``TopicError`` where it does not exist."""
    found = await describe(admin, [topic])
    if not found:
        raise TopicError(
            f"The topic {topic!r} does not exist on this broker",
            action="Correct the name, or the broker's address. That of a declared table is made by lakehouse publish.",
        )
    return found[0]


async def _offsets(clients: Clients, found: TopicMetadata) -> tuple[dict[int, int], dict[int, int]]:
    parts = [TopicPartition(found.topic, partition) for partition in sorted(found.leaders)]
    async with clients.open(AIOKafkaConsumer, isolation_level="read_committed") as consumer:
        # The end first: records deleted in between leave a range that is empty, never one that is wrong.
        end = await consumer.end_offsets(parts)
        earliest = await consumer.beginning_offsets(parts)
    return _by_partition(earliest), _by_partition(end)


def _by_partition(offsets: dict[TopicPartition, int]) -> dict[int, int]:
    return {part.partition: offset for part, offset in sorted(offsets.items())}


async def _producer_time(admin: AIOKafkaAdminClient, topic: str) -> bool:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {_DATED_BY: ""})
    try:
        (answer,) = await admin.describe_configs([resource])
    except KafkaError:
        return True
    entries = [entry for *_, found in answer.resources for entry in found]
    values = {name: value for name, value, *_ in entries}
    return values.get(_DATED_BY) != "LogAppendTime"
