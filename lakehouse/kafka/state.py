"""The state of topics: their identity and the offsets they hold; their creation and deletion."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.consumer.fetcher import READ_COMMITTED, READ_UNCOMMITTED
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from lakehouse.declaration import StreamTable
from lakehouse.errors import TopicError
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.metadata import TopicMetadata, TopicState, describe_topics, require_ids
from lakehouse.ledger.positions import HeldPart
from lakehouse.settings import Settings

Offsets = Mapping[str, dict[int, int]]
_IN_TRANSACTION = "behind an open transaction"
_TIMESTAMP_TYPE, _CLEANUP_POLICY = "message.timestamp.type", "cleanup.policy"
_DELETES_KEPT = ("delete.retention.ms", "min.compaction.lag.ms")

PATIENCE = 15.0
"""Seconds to wait before a batch: a dead leader is replaced after 9, by the broker's default."""
_LIMIT = 15.0
_REPLICAS = 3


def read_topic(settings: Settings, topic: str, limit: float = 4.0, *, with_held: bool = False) -> TopicState:
    """Return the identity of a topic, and the earliest and the last stable offset of each partition.

    An open transaction holds the end back: records after it are not committed. ``with_held`` asks for their number too.
    ``producer_time`` is also true if the broker does not report who sets the time of records.

    Raises ``BrokerError`` within ``limit`` seconds if the broker is down or hangs. Raises ``BrokerRefusedError`` if the
    cluster or the topic has no id, and ``TopicError`` if the topic is missing or changes during the call.
    """
    (state,) = read_topics(settings, [topic], limit, with_held=with_held)
    return state


def read_topics(
    settings: Settings, topics: Sequence[str], limit: float = 4.0, *, with_held: bool = False
) -> list[TopicState]:
    """Return the state of each topic, like ``read_topic``; each request to the broker is about all of them."""

    async def read(clients: Clients) -> list[TopicState]:
        async with clients.open(AIOKafkaAdminClient) as admin:
            before = await find_topics(admin, topics)
            for metadata in before:
                require_ids(metadata)
            configs = await _read_configs(admin, topics)
            offsets = await _read_offsets(clients, before, with_held=with_held)
            after = await find_topics(admin, topics)
        for old_metadata, new_metadata in zip(before, after, strict=True):
            if new_metadata.incarnation != old_metadata.incarnation:
                fact = "The topic was replaced while its offsets were read"
                raise TopicError(fact, where=f"topic {old_metadata.topic}", action="Try again.")
        return [_state_of(metadata, offsets, configs.get(metadata.topic, {})) for metadata in before]

    return ask(settings, limit, read)


def _state_of(metadata: TopicMetadata, offsets: "_AllOffsets", configs: Mapping[str, str]) -> TopicState:
    policy, kept_times = configs.get(_CLEANUP_POLICY), [configs.get(name, "") for name in _DELETES_KEPT]
    kept_times = [text for text in kept_times if text.isdecimal()]
    is_compacted = None if policy is None else "compact" in policy.split(",")
    return TopicState(
        metadata.topic,
        metadata.incarnation.source,
        offsets.earliest[metadata.topic],
        offsets.end[metadata.topic],
        is_compacted=is_compacted,
        deletes_kept=max(map(int, kept_times)) * 1000 if is_compacted and kept_times else None,
        producer_time=configs.get(_TIMESTAMP_TYPE) != "LogAppendTime",
        held_parts=tuple(_held_parts(metadata.topic, offsets)),
    )


def _held_parts(topic: str, offsets: "_AllOffsets") -> Iterator[HeldPart]:
    """Yield the records of each partition that an open transaction holds back; the same name until it ends."""
    for partition, end in offsets.end[topic].items():
        count = offsets.written.get(topic, {}).get(partition, end) - end
        if count > 0:
            yield HeldPart(f"topic {topic}, partition {partition} from offset {end} on", _IN_TRANSACTION, count)


def written_ends(settings: Settings, topic: str, partitions: Iterable[int], limit: float = 4.0) -> dict[int, int]:
    """Return the offset that the next record of each partition will get, also after records that are not committed.

    Raises ``BrokerError`` within ``limit`` seconds if the broker is down or hangs.
    """

    async def read(clients: Clients) -> dict[int, int]:
        async with clients.open(AIOKafkaConsumer, isolation_level="read_uncommitted") as consumer:
            end = await consumer.end_offsets([TopicPartition(topic, number) for number in partitions])
        return _by_topic(end)[topic]

    return ask(settings, limit, read)


def topic_names(settings: Settings, limit: float = 4.0) -> list[str]:
    """Return the names of the topics, sorted, without the broker's internal ones."""

    async def list_names(clients: Clients) -> list[str]:
        async with clients.open(AIOKafkaAdminClient) as admin:
            return sorted(metadata.topic for metadata in await describe_topics(admin) if not metadata.internal)

    return ask(settings, limit, list_names)


async def find_topic(admin: AIOKafkaAdminClient, topic: str) -> TopicMetadata:
    """Return the metadata of one topic; ``TopicError`` if it does not exist."""
    (metadata,) = await find_topics(admin, [topic])
    return metadata


async def find_topics(admin: AIOKafkaAdminClient, topics: Sequence[str]) -> list[TopicMetadata]:
    """Return the metadata of each topic; ``TopicError`` if one does not exist."""
    by_name = {metadata.topic: metadata for metadata in await describe_topics(admin, topics)}
    for topic in topics:
        if topic not in by_name:
            raise TopicError(
                f"The topic {topic!r} does not exist on this broker",
                action="Correct the name of the topic or the broker's address, or create it: lakehouse topics"
                f" --create {topic}",
            )
    return [by_name[topic] for topic in topics]


class _AllOffsets(NamedTuple):
    """The earliest and the last stable offset of each partition, and the next one to be written if it was asked for."""

    earliest: Offsets
    end: Offsets
    written: Offsets


async def _read_offsets(clients: Clients, topics: Sequence[TopicMetadata], *, with_held: bool) -> _AllOffsets:
    """Return the offsets of each partition of the topics."""
    partitions = [TopicPartition(metadata.topic, number) for metadata in topics for number in sorted(metadata.leaders)]
    async with clients.open(AIOKafkaConsumer, isolation_level="read_committed") as consumer:
        if len(topics) > 1:  # else the client asks for the leaders of one topic after the other
            await consumer._client.set_topics([metadata.topic for metadata in topics])
        # Before the end: records that are committed in between do not seem to be held back.
        written = await _read_written_ends(consumer, partitions) if with_held else {}
        # The end first: if records are deleted in between, the range is empty, never wrong.
        end = await consumer.end_offsets(partitions)
        earliest = await consumer.beginning_offsets(partitions)
    return _AllOffsets(_by_topic(earliest), _by_topic(end), _by_topic(written))


async def _read_written_ends(
    consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Return the next offset of each partition, also after open transactions, without another connection."""
    fetcher = consumer._fetcher
    fetcher._isolation_level = READ_UNCOMMITTED
    try:
        return dict(await consumer.end_offsets(partitions))
    finally:
        fetcher._isolation_level = READ_COMMITTED


def _by_topic(offsets: Mapping[TopicPartition, int]) -> Offsets:
    """Return the offsets by topic, and by partition."""
    offsets_by_topic = defaultdict[str, dict[int, int]](dict)
    for place, offset in sorted(offsets.items()):
        offsets_by_topic[place.topic][place.partition] = offset
    return offsets_by_topic


async def _read_configs(admin: AIOKafkaAdminClient, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return settings of topics by name; none if the broker does not report them."""
    names = dict.fromkeys((_TIMESTAMP_TYPE, _CLEANUP_POLICY, *_DELETES_KEPT), "")
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic, names) for topic in topics]
    try:
        (response,) = await admin.describe_configs(resources)
    except KafkaError:
        return {}
    return {topic: {name: value or "" for name, value, *_ in entries} for *_, topic, entries in response.resources}


def create_topic(settings: Settings, table: StreamTable, partitions: int | None = None) -> bool:
    """Create the topic of a table, with timestamps set by the broker, and return once it is usable.

    Returns whether the topic was created. An existing topic stays as it is, and needs no permission to create topics.
    """
    return create_named_topic(settings, table.topic, partitions or table.topic_options.partitions)


def create_named_topic(
    settings: Settings, topic: str, partitions: int, options: Mapping[str, str] = MappingProxyType({})
) -> bool:
    """Create a topic as ``create_topic`` creates that of a table, whether a table reads it or not.

    ``options`` are further ones of the topic, by their Kafka names.
    """

    async def create(clients: Clients) -> bool:
        async with clients.open(AIOKafkaAdminClient) as admin:
            if _is_usable(await describe_topics(admin, [topic])):
                return False
            replicas = min(_REPLICAS, len((await admin.describe_cluster())["brokers"]))
            topic_configs = {"message.timestamp.type": "LogAppendTime", **options}
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
