"""The times of records in a topic: of the first record of a range, and the offsets at which a time begins."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

from aiokafka import AIOKafkaConsumer, TopicPartition

from lakehouse.kafka.batch_limits import LARGEST_BATCH, BatchesTooLargeError, batches_limited
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.newest_records import to_record
from lakehouse.ledger.positions import Range
from lakehouse.settings import Settings

_LIMIT = 60.0  # seconds for all partitions together
_POLL_MS = 500
_TOGETHER = 50  # partitions to request at the same time
_FETCH_BYTES = 16 * 1024  # of each: a larger batch is sent as a whole
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOG_APPEND_TIME = 1  # Kafka's number for a time that the broker set


@dataclass(frozen=True)
class FirstRecord:
    """The first record of a range: its time in the topic, UTC, and whether its producer set the time.

    ``offset`` is its place, and ``checksum`` the CRC-32 of its value, or of its key if it has no value. If this client
    cannot read the record, because its batch is too large, for example, they are ``None``; so is ``time`` if Python
    cannot represent it.
    """

    time: datetime | None
    producer_time: bool
    offset: int | None = None
    checksum: int | None = None


def first_records(
    settings: Settings, topic: str, ranges: Sequence[Range], limit: float = _LIMIT, isolation: str = "read_committed"
) -> dict[int, FirstRecord]:
    """Return the first record of each range by partition; a range without a record is left out.

    Only committed records count, unless ``isolation`` is ``read_uncommitted``.

    A topic whose ``message.timestamp.type`` was changed still holds records with times of producers. Raises
    ``BrokerError`` if the broker does not deliver them within ``limit`` seconds.
    """

    async def read(clients: Clients) -> dict[int, FirstRecord]:
        consumer_arguments = {
            "isolation_level": isolation,
            "auto_offset_reset": "earliest",
            "max_partition_fetch_bytes": _FETCH_BYTES,
        }
        records: dict[int, FirstRecord] = {}
        async with clients.open(AIOKafkaConsumer, **consumer_arguments) as consumer:
            for number in range(0, len(ranges), _TOGETHER):
                records |= await _read_together(consumer, topic, ranges[number : number + _TOGETHER])
        return records

    with batches_limited(LARGEST_BATCH, each=True):
        return ask(settings, limit, read)


def offsets_at(
    settings: Settings, topic: str, partitions: Iterable[int], time: datetime, limit: float = _LIMIT
) -> dict[int, int]:
    """Return for each partition the first offset whose record has this time or a later one, from 1970 on.

    A partition without such a record is left out. If the broker sets the times, all records before that offset are
    older, and no record after it is, as far as the clocks of the brokers agree. If producers set them, later records
    may be older. Raises ``BrokerError`` if the broker does not answer within ``limit`` seconds.
    """
    milliseconds = -((_EPOCH - time) // timedelta(milliseconds=1))  # rounded up: no record before the time counts

    async def look_up(clients: Clients) -> dict[int, int]:
        times = {TopicPartition(topic, partition): milliseconds for partition in partitions}
        async with clients.open(AIOKafkaConsumer, isolation_level="read_committed") as consumer:
            answers = await consumer.offsets_for_times(times)
        return {partition.partition: answer.offset for partition, answer in answers.items() if answer}

    return ask(settings, limit, look_up)


async def _read_together(consumer: Any, topic: str, ranges: Sequence[Range]) -> dict[int, FirstRecord]:
    """Read the first record of each range: the client requests all partitions of a broker at once and buffers them."""
    parts = {TopicPartition(topic, part.partition): part for part in ranges}
    consumer.assign(list(parts))
    for partition, part in parts.items():
        consumer.seek(partition, part.start)
    records = {part.partition: await _read_first(consumer, partition, part.end) for partition, part in parts.items()}
    return {partition: record for partition, record in records.items() if record}


async def _read_first(consumer: Any, partition: TopicPartition, end: int) -> FirstRecord | None:
    """Read the next record before an offset; those of aborted transactions and of compacted records have none."""
    while await consumer.position(partition) < end:
        try:
            batches = await consumer.getmany(partition, timeout_ms=_POLL_MS, max_records=1)
        except (
            UnicodeDecodeError,
            BatchesTooLargeError,
        ):  # the name of a header is not UTF-8, or a small batch is huge
            return FirstRecord(None, producer_time=True)
        for message in batches.get(partition, ()):
            if message.offset >= end:
                return None
            contents = message.key if message.value is None else message.value
            checksum = None if contents is None else crc32(contents)
            is_of_producer = message.timestamp_type != _LOG_APPEND_TIME
            return FirstRecord(to_record(message).time, is_of_producer, message.offset, checksum)
    return None
