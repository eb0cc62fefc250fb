"""The newest records of a topic, for display."""

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from lakehouse.errors import TopicError
from lakehouse.kafka.batch_limits import BatchesTooLargeError, batches_limited
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.state import find_topic
from lakehouse.settings import Settings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_POLL_MS = 500
_ROOM = 512 * 1024 * 1024  # bytes that the batches with the newest records may have, decompressed


@dataclass(frozen=True)
class Record:
    """One record as it is in its topic; ``milliseconds`` is its time on the broker, since 1970, UTC."""

    partition: int
    offset: int
    milliseconds: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def shown_place(self) -> dict[str, str | int]:
        """Where it is in its topic, by name."""
        return {"partition": self.partition, "offset": self.offset}

    @property
    def place(self) -> str:
        """Where it is in its topic, for messages."""
        return f"partition {self.partition}, offset {self.offset}"

    @property
    def time(self) -> datetime | None:
        """Its time on the broker, UTC; ``None`` if Python cannot represent it, as a producer may set any time."""
        try:
            return _EPOCH + timedelta(milliseconds=self.milliseconds)
        except OverflowError:
            return None


def newest_records(settings: Settings, topic: str, count: int, limit: float = 15.0) -> list[Record]:
    """Return at most ``count`` of the newest records of a topic, the newest last; the topic stays unchanged.

    The time that a record has in its topic decides which is newest. Records of open and aborted transactions are left
    out. Raises ``BrokerError`` within ``limit`` seconds if the broker is down or reports no offsets. Raises
    ``TopicError`` if the topic is missing, or if the records cannot be read within that time, or are too large.
    """
    deadline = time.monotonic() + 0.9 * limit  # before the limit of the request, so that the error can name the cause

    async def read(clients: Clients) -> list[Record]:
        async with clients.open(AIOKafkaAdminClient) as admin:
            metadata = await find_topic(admin, topic)
        async with clients.open(AIOKafkaConsumer, isolation_level="read_committed") as consumer:
            partitions = [TopicPartition(topic, partition) for partition in sorted(metadata.leaders)]
            ends, starts = await consumer.end_offsets(partitions), await consumer.beginning_offsets(partitions)
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    tails = [await _read_tail(consumer, p, (starts[p], ends[p]), count) for p in partitions]
            except BatchesTooLargeError:
                raise _read_error(topic, count, f"have more than {_ROOM >> 20} MB") from None
            except TimeoutError:
                raise _read_error(topic, count, f"were not read within {limit:.0f} seconds") from None
        records = [record for tail in tails for record in tail]
        return sorted(records, key=lambda record: (record.milliseconds, record.partition, record.offset))[-count:]

    with batches_limited(_ROOM):
        return ask(settings, limit, read)


def _read_error(topic: str, count: int, problem: str) -> TopicError:
    return TopicError(
        f"The batches with the newest {count:,} records of each partition {problem}",
        where=f"topic {topic}",
        action="Ask for fewer records, or check whether the broker answers: lakehouse doctor",
    )


async def _read_tail(consumer: Any, partition: TopicPartition, bounds: tuple[int, int], count: int) -> list[Record]:
    """Read the newest records of a partition; start further back if some offsets have no record."""
    earliest, end = bounds
    consumer.assign([partition])
    span, start, records = count, end, list[Record]()
    while len(records) < count and start > earliest:
        start, span = max(earliest, end - span), span * 4
        consumer.seek(partition, start)
        records = []
        while await consumer.position(partition) < end:
            try:
                batches = await consumer.getmany(partition, timeout_ms=_POLL_MS)
            except UnicodeDecodeError:
                raise TopicError(
                    f"A record of partition {partition.partition} has a header whose name is not UTF-8: this client"
                    f" cannot read offsets {start} to {end - 1}",
                    where=f"topic {partition.topic}",
                    action="A merge can read them, because Spark has another client. Look at the rows, or ask for fewer"
                    " records.",
                ) from None
            records += [to_record(message) for message in batches.get(partition, ()) if message.offset < end]
    return records[-count:]


def to_record(message: Any) -> Record:
    """Convert a message of the client into a record."""
    position = (message.partition, message.offset, message.timestamp)
    return Record(*position, message.key, message.value, tuple(message.headers))
