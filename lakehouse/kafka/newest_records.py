"""The newest records of a topic, for people to look at."""

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from lakehouse.errors import TopicError
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.state import find
from lakehouse.settings import Settings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_POLL_MS = 500


@dataclass(frozen=True)
class Record:
    """One record as it stands in its topic; ``milliseconds`` is the broker's time of it, since 1970, UTC."""

    partition: int
    offset: int
    milliseconds: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def time(self) -> datetime | None:
        """The broker's time of it, UTC; ``None`` where that is no time of ours, as a producer may write any."""
        try:
            return _EPOCH + timedelta(milliseconds=self.milliseconds)
        except OverflowError:
            return None


def newest_records(settings: Settings, topic: str, count: int, limit: float = 15.0) -> list[Record]:
    """Return the newest records of a topic, so many at most, the newest last; nothing is changed by it.

    Newest is by the time that each has in its topic. Records of transactions that are open or were aborted are left
    out. Raises ``BrokerError`` within ``limit`` seconds where the broker is down, or does not tell its offsets,
    ``TopicError`` where the topic is missing, and where so many records are not read within that time.
    """
    due = time.monotonic() + 0.9 * limit  # before the limit of the question, so that what ran out is told

    async def question(clients: Clients) -> list[Record]:
        async with clients.open(AIOKafkaAdminClient) as admin:
            found = await find(admin, topic)
        async with clients.open(AIOKafkaConsumer, isolation_level="read_committed") as consumer:
            parts = [TopicPartition(topic, partition) for partition in sorted(found.leaders)]
            ends, earliest = await consumer.end_offsets(parts), await consumer.beginning_offsets(parts)
            try:
                async with asyncio.timeout(due - time.monotonic()):
                    tails = [await _tail(consumer, part, (earliest[part], ends[part]), count) for part in parts]
            except TimeoutError:
                raise TopicError(
                    f"The newest {count:,} records of each of {len(parts)} partitions were not read within {limit:.0f}"
                    " seconds",
                    where=f"topic {topic}",
                    action="Ask for fewer records, or see whether the broker answers: lakehouse doctor",
                ) from None
        records = [each for tail in tails for each in tail]
        return sorted(records, key=lambda each: (each.milliseconds, each.partition, each.offset))[-count:]

    return ask(settings, limit, question)


async def _tail(consumer: Any, part: TopicPartition, bounds: tuple[int, int], count: int) -> list[Record]:
    """The newest records of a partition: from further back, where offsets stand for no record."""
    earliest, end = bounds
    consumer.assign([part])
    span, start, records = count, end, list[Record]()
    while len(records) < count and start > earliest:
        start, span = max(earliest, end - span), span * 4
        consumer.seek(part, start)
        records = []
        while await consumer.position(part) < end:
            try:
                fetched = await consumer.getmany(part, timeout_ms=_POLL_MS)
            except UnicodeDecodeError:
                raise TopicError(
                    f"A record of partition {part.partition} has a header whose name is not UTF-8: this client reads"
                    f" none of offsets {start} to {end - 1}",
                    where=f"topic {part.topic}",
                    action="A merge reads them, as Spark's client does: look at the rows, or ask for fewer records.",
                ) from None
            records += [record_of(each) for each in fetched.get(part, ()) if each.offset < end]
    return records[-count:]


def record_of(fetched: Any) -> Record:
    """A record as the client gives it."""
    place = (fetched.partition, fetched.offset, fetched.timestamp)
    return Record(*place, fetched.key, fetched.value, tuple(fetched.headers))
