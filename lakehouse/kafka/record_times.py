"""What only the records of a topic show: their times, and whether it lost some at its end."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zlib import crc32

from aiokafka import AIOKafkaConsumer, TopicPartition

from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.metadata import TopicState
from lakehouse.kafka.newest_records import LARGEST_BATCH, BatchesTooLargeError, batches_limited, to_record
from lakehouse.kafka.read import is_exact_in_spark
from lakehouse.ledger.commit_values import LastRecord, LastRecords, standing_records
from lakehouse.ledger.positions import Progress, Range
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


class MergedEnds(NamedTuple):
    """What a table has merged of a topic: its progress, and its last records.

    ``history`` returns those of each commit, the newest first; it is only called if the topic lost some. Only
    partitions with at least ``least_lag`` records to read are compared. ``needs_deletes``: records without a value
    delete rows of the table.
    """

    progress: Progress
    last_records: LastRecords
    history: Callable[[], Sequence[LastRecords]]
    least_lag: int = 0
    needs_deletes: bool = False


def with_lost_ends(settings: Settings, state: TopicState, merged: MergedEnds, limit: float) -> TopicState:
    """Return the state with the partitions that lost merged records at their end and gave their offsets to others.

    A broker that was restored from an older copy, or a leader that lagged behind, loses the newest records. Once the
    partition has grown beyond the progress again, only the contents show it. So the last record that was merged is
    compared with the topic. If it is another one, the history says up to which offset the topic is known to be
    unchanged. Of a compacted topic, a record that is gone proves nothing.
    """
    if merged.progress.source != state.source:
        return state
    if merged.needs_deletes and state.deletes_kept is not None:
        state = replace(state, overtaken=tuple(_overtaken(settings, state, merged, limit)))
    lags = {p: end - merged.progress.next_position(p) for p, end in state.end.items()}
    compared_records = {p: last for p, last in merged.last_records.items() if lags.get(p, -1) >= merged.least_lag}
    changed_partitions = _changed(settings, state, compared_records, limit)
    if not changed_partitions:
        return state
    history = merged.history()
    ends = {
        p: _unchanged_end(settings, state, [records.get(p) for records in history], p, limit)
        for p in changed_partitions
    }
    return replace(state, unchanged=ends)


def _overtaken(settings: Settings, state: TopicState, merged: MergedEnds, limit: float) -> Iterator[int]:
    """Yield the partitions whose records wait for longer than a compacted topic keeps deletes.

    Only those that were not seen to end at the progress within that time can be. If the first waiting record is there,
    nothing waited before it. Otherwise, records have been compacted away since.
    """
    now = time.time_ns() // 1000
    oldest = now - (state.deletes_kept or 0)
    caught_up = {p: last.caught_up for p, last in merged.last_records.items() if last.caught_up is not None}
    # if nothing was read before, nothing that is gone has a row; a time in the future is that of a wrong clock
    starts = {p: merged.progress.next_position(p) for p in state.end if not oldest <= caught_up.get(p, now) <= now}
    ranges = [Range(p, start, state.end[p]) for p, start in starts.items() if state.earliest[p] <= start < state.end[p]]
    # those of aborted transactions show too that nothing was removed there
    records = first_records(settings, state.stream, ranges, limit, "read_uncommitted") if ranges else {}
    for part in ranges:
        record = records.get(part.partition)
        arrived = _microseconds(record.time) if record and record.offset == part.start else None
        times = [t for t in (caught_up[part.partition], arrived) if t is not None and t <= now]
        if max(times, default=now) < oldest:
            yield part.partition


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def _changed(settings: Settings, state: TopicState, last_records: LastRecords, limit: float) -> list[int]:
    """Return the partitions in which the topic has another record than the last one that was merged."""
    places = {p: _place_of(p, last) for p, last in last_records.items() if last.position is not None}
    ranges = [part for p, part in places.items() if state.earliest[p] <= part.start and part.end <= state.end[p]]
    records = first_records(settings, state.stream, ranges, limit) if ranges else {}
    partitions = sorted(part.partition for part in ranges)
    return [p for p in partitions if _is_other(last_records[p], records.get(p), state)]


def _place_of(partition: int, last: LastRecord) -> Range:
    position = last.position or 0
    return Range(partition, position, position + 1)


def _is_other(last: LastRecord, record: FirstRecord | None, state: TopicState) -> bool:
    if record is None:
        return state.is_compacted is False
    return record.offset is not None and not _is_same(last, record)


def _is_same(last: LastRecord, record: FirstRecord | None) -> bool:
    """Whether a record is the last one of a partition; what is unknown of one of them does not count."""
    if record is None or record.offset is None:
        return False
    record_time = _microseconds(record.time)
    if record_time is not None and not is_exact_in_spark(record_time // 1000):
        record_time = None  # Spark shifts it by some days
    pairs = ((last.time, record_time), (last.checksum, record.checksum))
    return all(former == current for former, current in pairs if former is not None and current is not None)


def _unchanged_end(
    settings: Settings, state: TopicState, history: Sequence[LastRecord | None], partition: int, limit: float
) -> int:
    """Return the offset up to which a partition is known to hold the records that were merged.

    The last records of earlier commits are compared with the topic; each is only there if all before it are.
    """
    candidates = [last for last in standing_records(history) if (last.position or 0) >= state.earliest[partition]]
    low, high = 0, len(candidates)
    while low < high:
        middle = (low + high) // 2
        place = _place_of(partition, candidates[middle])
        if _is_same(candidates[middle], first_records(settings, state.stream, [place], limit).get(partition)):
            low = middle + 1
        else:
            high = middle
    return _place_of(partition, candidates[low - 1]).end if low else state.earliest[partition]
