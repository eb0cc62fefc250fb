"""Records in transactions that also hold the progress of their sender, so that each is sent once.

The progress is the last record of a topic of its own, ``TOPIC.progress``, with one partition, which only the sender of
that topic writes: an open transaction of another one would hide it. A sender that begins fences every older one.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import InvalidProducerEpoch, KafkaError, MessageSizeTooLargeError, ProducerFenced

from lakehouse.errors import ConflictError, TopicError
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.publish import PRODUCER_ARGUMENTS
from lakehouse.kafka.raw_records import RawRecord
from lakehouse.kafka.state import PATIENCE
from lakehouse.settings import Settings

_TRANSACTION_MS = 600_000  # brokers allow 900,000 by default
_RECORDS_AT_ONCE, _BYTES_AT_ONCE = 5_000, 8_000_000  # that wait for an acknowledgement
_STALL_SECONDS = 30.0
_PAUSE = 0.1  # seconds between two looks for a topic
_POLL_MS = 1_000
_KEY = b"progress"
T = TypeVar("T")
Marker = dict[str, Any]
Pairs = Sequence[tuple[bytes | None, bytes | None]]


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
                await _send_step(producer, topic, step)

    ask(settings, None, send)


def read_contents(settings: Settings, topic: str, add: Callable[[Pairs], None]) -> None:
    """Read the committed records of a topic, in the order of each key."""

    async def read(clients: Clients) -> None:
        async for records in _read_committed(clients, topic):
            add(records)

    ask(settings, None, read)


async def _send_step(producer: AIOKafkaProducer, topic: str, step: Step) -> None:
    await _within(producer.begin_transaction())
    try:
        await _send(producer, topic, step.records)
        await _within(producer.send_and_wait(progress_topic(topic), json.dumps(step.marker()).encode(), _KEY))
    except BaseException:
        with suppress(TimeoutError, KafkaError):
            await _within(producer.abort_transaction())
        raise
    await _within(producer.commit_transaction())


async def _send(producer: AIOKafkaProducer, topic: str, records: Iterable[RawRecord]) -> None:
    """Send records, and wait for their acknowledgements before too many are on their way."""
    futures, size = list["asyncio.Future[Any]"](), 0
    for record in records:
        try:
            sending = producer.send(topic, record.value, record.key, headers=list(record.headers))
            futures.append(await _within(sending))
        except MessageSizeTooLargeError:
            fact = f"The row {(record.key or b'').decode()} has more bytes than the broker accepts in a record"
            action = "Raise max.request.size and the limit of the topic, or leave columns out with columns=."
            raise TopicError(fact, where=f"topic {topic}", action=action) from None
        size += len(record.value or b"")
        if len(futures) >= _RECORDS_AT_ONCE or size >= _BYTES_AT_ONCE:
            await _within(asyncio.gather(*futures))
            futures, size = [], 0
    await _within(asyncio.gather(*futures))


async def _within(step: Awaitable[T]) -> T:
    """Await a step; ``TimeoutError`` if the broker does not answer for long."""
    async with asyncio.timeout(_STALL_SECONDS):
        return await step


async def _read_marker(clients: Clients, topic: str) -> Marker | None:
    newest = None
    async for records in _read_committed(clients, progress_topic(topic)):
        newest = records[-1][1]
    return json.loads(newest) if newest else None


async def _partition_numbers(consumer: AIOKafkaConsumer, topic: str) -> set[int]:
    """Return the partitions of a topic, once the broker knows it: it may be new."""
    await consumer._client.set_topics([topic])
    deadline = time.monotonic() + PATIENCE
    while not (numbers := consumer.partitions_for_topic(topic)):
        if time.monotonic() > deadline:
            raise TopicError("The topic does not exist", where=f"topic {topic}", action="Run it again.")
        await asyncio.sleep(_PAUSE)
        await consumer._client.force_metadata_update()
    return set(numbers)


async def _read_committed(clients: Clients, topic: str) -> AsyncIterator[Pairs]:
    """Yield the committed records of a topic up to its present end, one partition after another in each part.

    Raises ``TopicError`` if the topic does not exist, ``TimeoutError`` if the broker does not answer for long, and an
    error of the client if records expire meanwhile: none is left out.
    """
    options = {"isolation_level": "read_committed", "auto_offset_reset": "none", "enable_auto_commit": False}
    async with clients.open(AIOKafkaConsumer, **options) as consumer:
        partitions = [TopicPartition(topic, number) for number in await _partition_numbers(consumer, topic)]
        ends, starts = await consumer.end_offsets(partitions), await consumer.beginning_offsets(partitions)
        consumer.assign(partitions)
        for partition in partitions:  # at once: the client would begin where the topic ends
            consumer.seek(partition, starts[partition])
        open_partitions = {partition for partition in partitions if starts[partition] < ends[partition]}
        last_answer = time.monotonic()
        while open_partitions:
            parts = await consumer.getmany(*open_partitions, timeout_ms=_POLL_MS)
            for records in parts.values():
                yield [(record.key, record.value) for record in records]
            ended = {part for part in open_partitions if await _within(consumer.position(part)) >= ends[part]}
            last_answer = time.monotonic() if parts or ended else last_answer
            if time.monotonic() - last_answer > _STALL_SECONDS:
                raise TimeoutError
            open_partitions -= ended
