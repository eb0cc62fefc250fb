"""The state of a topic: its identity and the offsets it holds."""

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from lakehouse.errors import TopicError
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.incarnation import TopicState
from lakehouse.kafka.metadata import TopicMetadata, describe_topics, require_ids
from lakehouse.settings import Settings

_TIMESTAMP_TYPE, _CLEANUP_POLICY = "message.timestamp.type", "cleanup.policy"

PATIENCE = 15.0
"""Seconds to wait before a batch: a dead leader is replaced after 9, by the broker's default."""


def read_topic(settings: Settings, topic: str, limit: float = 4.0) -> TopicState:
    """Return the identity of a topic, and the earliest and the last stable offset of each partition.

    An open transaction holds the end back: records after it are not committed. ``producer_time`` is also true if the
    broker does not report who sets the time of records.

    Raises ``BrokerError`` within ``limit`` seconds if the broker is down or hangs. Raises ``BrokerRefusedError`` if the
    cluster or the topic has no id, and ``TopicError`` if the topic is missing or changes during the call.
    """

    async def read(clients: Clients) -> TopicState:
        async with clients.open(AIOKafkaAdminClient) as admin:
            before = await find_topic(admin, topic)
            require_ids(before)
            configs = await _read_configs(admin, topic)
            earliest, end = await _read_offsets(clients, before)
            after = await find_topic(admin, topic)
            if after.incarnation != before.incarnation:
                fact = "The topic was replaced while its offsets were read"
                raise TopicError(fact, where=f"topic {topic}", action="Try again.")
            producer_time = configs.get(_TIMESTAMP_TYPE) != "LogAppendTime"
            policy = configs.get(_CLEANUP_POLICY)
            is_compacted = None if policy is None else "compact" in policy.split(",")
            source = before.incarnation.source
            return TopicState(topic, source, earliest, end, is_compacted, producer_time=producer_time)

    return ask(settings, limit, read)


def topic_names(settings: Settings, limit: float = 4.0) -> list[str]:
    """Return the names of the topics, sorted, without the broker's internal ones."""

    async def list_names(clients: Clients) -> list[str]:
        async with clients.open(AIOKafkaAdminClient) as admin:
            return sorted(metadata.topic for metadata in await describe_topics(admin) if not metadata.internal)

    return ask(settings, limit, list_names)


async def find_topic(admin: AIOKafkaAdminClient, topic: str) -> TopicMetadata:
    """Return the metadata of one topic; ``TopicError`` if it does not exist."""
    topics = await describe_topics(admin, [topic])
    if not topics:
        raise TopicError(
            f"The topic {topic!r} does not exist on this broker",
            action="Correct topic= in the declaration or the broker's address, or create it: lakehouse topics --create",
        )
    return topics[0]


async def _read_offsets(clients: Clients, metadata: TopicMetadata) -> tuple[dict[int, int], dict[int, int]]:
    partitions = [TopicPartition(metadata.topic, partition) for partition in sorted(metadata.leaders)]
    async with clients.open(AIOKafkaConsumer, isolation_level="read_committed") as consumer:
        # The end first: if records are deleted in between, the range is empty, never wrong.
        end = await consumer.end_offsets(partitions)
        earliest = await consumer.beginning_offsets(partitions)
    return _by_partition(earliest), _by_partition(end)


def _by_partition(offsets: dict[TopicPartition, int]) -> dict[int, int]:
    return {partition.partition: offset for partition, offset in sorted(offsets.items())}


async def _read_configs(admin: AIOKafkaAdminClient, topic: str) -> dict[str, str]:
    """Return settings of a topic by name; none if the broker does not report them."""
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {_TIMESTAMP_TYPE: "", _CLEANUP_POLICY: ""})
    try:
        (response,) = await admin.describe_configs([resource])
    except KafkaError:
        return {}
    return {name: value or "" for *_, entries in response.resources for name, value, *_ in entries}
