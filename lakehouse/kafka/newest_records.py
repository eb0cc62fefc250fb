"""The newest records of a topic, for display, and a limit for what compressed batches become in this process.

aiokafka decompresses a batch as a whole, Spark's client piece by piece.
"""

import asyncio
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from gzip import GzipFile
from typing import Any

import cramjam
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import CorruptRecordException
from aiokafka.record import default_records as python_records

from lakehouse.errors import TopicError
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.state import find_topic
from lakehouse.settings import Settings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_POLL_MS = 500
_ROOM = 512 * 1024 * 1024  # bytes that the batches with the newest records may have, decompressed


try:
    from aiokafka.record._crecords import default_records as compiled_records
except ImportError:  # without its extension
    compiled_records = python_records

LARGEST_BATCH = 512 * 1024 * 1024
"""Bytes that a batch may have, decompressed, if batches are read one after the other and dropped."""
_LZ4_RATIO, _SNAPPY_RATIO = 255, 32  # more than that, no data can become


@dataclass
class _Limit:
    """The bytes that are left for batches together, or for each of them."""

    room: int
    is_for_each: bool

    def take(self, size: int) -> bool:
        """Take these bytes; return whether there was room."""
        has_room = size <= self.room
        self.room -= 0 if self.is_for_each else size
        return has_room


_limit: ContextVar[_Limit | None] = ContextVar("limit", default=None)


class BatchesTooLargeError(CorruptRecordException):  # type: ignore[misc]
    """Batches have more contents than the limit."""


@contextmanager
def batches_limited(room: int, *, each: bool = False) -> Iterator[None]:
    """Let the batches that are decompressed meanwhile have at most ``room`` bytes of contents together, or ``each``.

    A read of more raises ``BatchesTooLargeError``. Without a limit, batches are read as aiokafka does.
    """
    for module in (python_records, compiled_records):
        for name, read_bounded in _BOUNDED.items():
            if not isinstance(getattr(module, name), _Decoder):
                setattr(module, name, _Decoder(getattr(module, name), read_bounded))
    token = _limit.set(_Limit(room, each))
    try:
        yield
    finally:
        _limit.reset(token)


class _Decoder:
    """Decompresses a batch, within the limit if there is one."""

    def __init__(self, decode: Callable[[Any], bytes], read_bounded: Callable[[Any, int], bytes | None]) -> None:
        self._decode, self._read_bounded = decode, read_bounded

    def __call__(self, payload: Any) -> bytes:
        limit = _limit.get()
        if limit is None:
            return self._decode(payload)
        contents = self._read_bounded(payload, max(0, limit.room))
        contents = self._decode(payload) if contents is None else contents
        if not limit.take(len(contents)):
            raise BatchesTooLargeError("The batches have too many bytes")
        return contents


def _read_gzip(payload: Any, room: int) -> bytes:
    with GzipFile(fileobj=io.BytesIO(payload)) as file:
        return file.read(room + 1)


def _read_zstd(payload: Any, room: int) -> bytes:
    import zstandard  # noqa: PLC0415 - only batches with zstd need it

    with zstandard.ZstdDecompressor().stream_reader(bytes(payload), read_across_frames=True) as reader:
        return bytes(reader.read(room + 1))


def _read_lz4(payload: Any, room: int) -> bytes | None:
    if len(payload) * _LZ4_RATIO <= room:
        return None
    contents = bytearray(room)
    try:
        return bytes(contents[: cramjam.lz4.decompress_into(bytes(payload), contents)])
    except cramjam.DecompressionError as error:
        raise BatchesTooLargeError("A batch has too many bytes, or is damaged") from error


def _read_snappy(payload: Any, room: int) -> None:
    if len(payload) * _SNAPPY_RATIO > room:
        raise BatchesTooLargeError("A batch may have too many bytes")


_BOUNDED: dict[str, Callable[[Any, int], bytes | None]] = {
    "gzip_decode": _read_gzip,
    "snappy_decode": _read_snappy,
    "lz4_decode": _read_lz4,
    "zstd_decode": _read_zstd,
}


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
