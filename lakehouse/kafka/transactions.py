"""Records in transactions that also hold the progress of their sender, so that each is sent once.

The progress is the last record of a topic of its own, ``TOPIC.progress``, with one partition, which only the sender of
that topic writes: an open transaction of another one would hide it. A sender that begins fences every older one.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import InvalidProducerEpoch, MessageSizeTooLargeError, ProducerFenced

from lakehouse.errors import ConflictError, TopicError
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.publish import PRODUCER_ARGUMENTS
from lakehouse.kafka.raw_records import RawRecord
from lakehouse.kafka.state import PATIENCE
from lakehouse.settings import Settings

_TRANSACTION_MS = 600_000  # brokers allow 900,000 by default
_RECORDS_AT_ONCE = 5_000  # that wait for an acknowledgement
_POLL_MS = 1_000
_KEY = b"progress"
Marker = dict[str, Any]
Pairs = list[tuple[bytes, bytes | None]]


class Step(NamedTuple):
    """Records of one transaction, and the progress after them, which is known when they were iterated."""

    records: Iterable[RawRecord]
    marker: Callable[[], Marker]


class Sender(Protocol):
    """Decides what is sent, once the progress is certain."""

    def needs_contents(self, marker: Marker | None) -> bool:
        """Whether the records that the topic holds have to be read first."""

    def add_contents(self, records: Pairs) -> None:
        """Take some records of the topic, in the order of each key."""

    def steps(self) -> Iterator[Step]:
        """Yield what to send, one transaction after another."""


def progress_topic(topic: str) -> str:
    """Return the name of the topic with the progress of the sender of a topic."""
    return f"{topic}.progress"


def read_marker(settings: Settings, topic: str) -> Marker | None:
    """Read the progress of the sender of a topic; ``None`` if it has none. A transaction may be about to change it."""
    return ask(settings, PATIENCE, lambda clients: _read_marker(clients, topic))


def send_steps(settings: Settings, topic: str, sender: Sender) -> None:
    """Send what ``sender`` decides to a topic, each step in a transaction with its progress. Both topics exist.

    Raises ``ConflictError`` if another sender of the topic began meanwhile; the open transaction is undone then.
    """

    async def send(clients: Clients) -> None:
        try:
            await send_all(clients)
        except (ProducerFenced, InvalidProducerEpoch):
            fact, action = "Another run sends to the topic, and took it over", "Run it again when that run is done."
            raise ConflictError(fact, where=f"topic {topic}", action=action) from None

    async def send_all(clients: Clients) -> None:
        options = {"transactional_id": f"lakehouse.{topic}", "transaction_timeout_ms": _TRANSACTION_MS}
        async with clients.open(AIOKafkaProducer, **PRODUCER_ARGUMENTS, **options) as producer:
            if sender.needs_contents(await _read_marker(clients, topic)):
                async for records in _read_committed(clients, topic):
                    sender.add_contents(records)
            for step in sender.steps():
                async with producer.transaction():
                    await _send(producer, topic, step.records)
                    value = json.dumps(step.marker()).encode()
                    await producer.send_and_wait(progress_topic(topic), value, _KEY)

    ask(settings, None, send)


def read_contents(settings: Settings, topic: str, add: Callable[[Pairs], None]) -> None:
    """Read the committed records of a topic, in the order of each key."""

    async def read(clients: Clients) -> None:
        async for records in _read_committed(clients, topic):
            add(records)

    ask(settings, None, read)


async def _send(producer: AIOKafkaProducer, topic: str, records: Iterable[RawRecord]) -> None:
    iterator = iter(records)
    while part := [*islice(iterator, _RECORDS_AT_ONCE)]:
        futures = []
        for record in part:
            try:
                futures.append(await producer.send(topic, record.value, record.key, headers=list(record.headers)))
            except MessageSizeTooLargeError:
                fact = f"The row {(record.key or b'').decode()} has more bytes than the broker accepts in a record"
                action = "Raise max.request.size and the limit of the topic, or leave columns out with columns=."
                raise TopicError(fact, where=f"topic {topic}", action=action) from None
        await asyncio.gather(*futures)


async def _read_marker(clients: Clients, topic: str) -> Marker | None:
    newest = None
    async for records in _read_committed(clients, progress_topic(topic)):
        newest = records[-1][1]
    return json.loads(newest) if newest else None


async def _read_committed(clients: Clients, topic: str) -> AsyncIterator[Pairs]:
    """Yield the committed records of a topic up to its present end, one partition after another in each part."""
    async with clients.open(AIOKafkaConsumer, isolation_level="read_committed", enable_auto_commit=False) as consumer:
        await consumer._client.set_topics([topic])
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        starts = await consumer.beginning_offsets(partitions)
        open_partitions = {partition for partition in partitions if starts[partition] < ends[partition]}
        await consumer.seek_to_beginning(*partitions)
        while open_partitions:
            parts = await consumer.getmany(*open_partitions, timeout_ms=_POLL_MS)
            for records in parts.values():
                yield [(record.key, record.value) for record in records]
            for partition in [*open_partitions]:
                if await consumer.position(partition) >= ends[partition]:
                    open_partitions.remove(partition)
