"""The records of a plan as a Spark DataFrame.

Few records of many partitions are read by one client, because Spark's source opens one for each partition in turn. So
are records whose time is out of range for a timestamp of Spark, perhaps because a producer set it in nanoseconds:
Spark's source fails on them, even if no column needs their time. A plan is split around them.
"""

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError

from lakehouse.decoding import staged
from lakehouse.errors import BrokerError, TopicError
from lakehouse.kafka.clients import Clients, spark_security
from lakehouse.kafka.connection import ask
from lakehouse.kafka.failures import records_gone_error
from lakehouse.kafka.newest_records import LARGEST_BATCH, BatchesTooLargeError, Record, batches_limited, to_record
from lakehouse.ledger.positions import Plan, Range
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MIN_MILLISECONDS, MAX_MILLISECONDS = -9_223_372_036_854_000, 9_223_372_036_854_775
"""The times that Spark's source can read, in milliseconds since 1970, both inclusive."""
MAX_NEAR_RECORDS = 1_000
"""Maximum number of records between two timeless ones that are read here too, without another read by Spark."""
_NEAR_BYTES = 1024 * 1024
MOST_HOLES = 4
"""Maximum number of holes in one partition of one batch: each part between them is a separate read by Spark."""
ROOM = 32 * 1024 * 1024
"""Bytes of records that are read here for one batch, over all partitions."""
_RECORD_OVERHEAD = 200  # bytes per record in addition to its own
_SHIFTED_BEFORE = -12_219_292_800_000  # 15 October 1582: Spark's source shifts an older time by days
_POLL_MS = 500
_PATIENCE = 30.0  # seconds without a record and without progress
MANY_PARTITIONS = 3
FEW_POSITIONS = 10_000
_PAUSE_MS = 50  # also how long a broker waits for records of partitions that have been read
_LIMIT = 10.0  # seconds
_log = logging.getLogger(__name__)
_COLUMNS = (
    f"timestamp AS {staged.TIME}",
    f"partition AS {staged.PARTITION}",
    f"offset AS {staged.POSITION}",
    f"CAST(NULL AS BIGINT) AS {staged.SEQUENCE}",
    f"key AS {staged.KEY}",
    f"value AS {staged.VALUE}",
    f"headers AS {staged.HEADERS}",
)
_READ_OPTIONS = {
    "includeHeaders": "true",
    "failOnDataLoss": "true",
    "kafka.isolation.level": "read_committed",
    # With the defaults, small reads are slow and broken ones hang for minutes. A dead leader is replaced after
    # 9 seconds (the broker's default): a read waits longer than that, and then fails.
    "kafka.fetch.max.wait.ms": "50",
    "kafka.request.timeout.ms": "5000",
    "kafka.default.api.timeout.ms": "10000",
    "kafkaConsumer.pollTimeoutMs": "12000",
    "fetchOffset.numRetries": "1",
}
OFFSETS_A_TASK = 50_000  # a longer range is split, so that one partition keeps all cores busy


@dataclass(frozen=True)
class CutPlan:
    """A plan, split into the part that Spark can read and the records that it cannot.

    ``plan`` is the requested plan, or its beginning if it has too much to read here. ``spark_plans`` are what Spark
    reads of it, each with at most one range per partition. ``timeless_records`` are the records whose time is out of
    range for a timestamp, and ``records_between`` are the records that were read between them.
    """

    plan: Plan
    spark_plans: tuple[Plan, ...]
    records_between: tuple[Record, ...]
    timeless_records: tuple[Record, ...]


def is_timeless(milliseconds: int) -> bool:
    """Whether Spark's source fails on a record with that time, in milliseconds since 1970."""
    return not MIN_MILLISECONDS <= milliseconds <= MAX_MILLISECONDS


def is_exact_in_spark(milliseconds: int) -> bool:
    """Whether Spark's source gives a record with that time in the topic, in milliseconds since 1970, the same time."""
    return _SHIFTED_BEFORE <= milliseconds <= MAX_MILLISECONDS


def timeless_detail(milliseconds: int) -> str:
    """Return the detail that stores such a time: no other column has it, and it distinguishes records at one position.

    Stored details are compared with it, so its text must not change.
    """
    return f"its time in the topic is {milliseconds} milliseconds after 1970, which is beyond any timestamp"


def cut_around(settings: Settings, plan: Plan, command: str) -> CutPlan:
    """Read all records of a plan once, without Spark, and split it around those whose time is out of range.

    Holds little more than ``ROOM`` bytes of them; each partition advances at least past its first one. ``command`` is
    what the user runs to continue. Raises ``ReadLossError`` if records are gone, ``BrokerError`` if the broker does
    not deliver them, and ``TopicError`` if this client cannot read them either.
    """
    ranges = [offsets for offsets in plan.ranges if offsets.span]
    cuts = [_Cut(offsets, ROOM // max(1, len(ranges))) for offsets in ranges]

    async def scan_all(clients: Clients) -> bool:
        consumer_arguments = {"isolation_level": "read_committed", "auto_offset_reset": "none"}
        starts = {TopicPartition(plan.stream, offsets.partition): offsets.start for offsets in ranges}
        async with clients.open(AIOKafkaConsumer, **consumer_arguments) as consumer:
            try:
                for cut in cuts:
                    await _scan(consumer, plan.stream, cut)
            except (OffsetOutOfRangeError, NoOffsetForPartitionError):
                return False
            earliest = await consumer.beginning_offsets(list(starts))
        return all(earliest[partition] <= start for partition, start in starts.items())

    with batches_limited(LARGEST_BATCH, each=True):
        is_whole = ask(settings, None, scan_all)
    if not is_whole:
        raise records_gone_error(plan, command)
    read_ranges = {cut.offsets.partition: cut.offsets for cut in cuts}
    read_plan = replace(plan, ranges=tuple(read_ranges.get(offsets.partition, offsets) for offsets in plan.ranges))
    records_between = tuple(record for cut in cuts for record in cut.records_between)
    timeless_records = tuple(record for cut in cuts for record in cut.timeless_records)
    turns = zip_longest(*(cut.ranges_outside for cut in cuts))
    spark_plans = tuple(replace(plan, ranges=tuple(filter(None, ranges))) for ranges in turns)
    return CutPlan(read_plan, spark_plans, records_between, timeless_records)


class _Cut:
    """Splits the range of one partition: it takes the records in order and keeps those that are read here.

    ``holes`` are the ranges that Spark must not read.
    """

    def __init__(self, offsets: Range, room: int) -> None:
        self.offsets = offsets
        self.holes: list[Range] = []
        self.records_between: list[Record] = []
        self.timeless_records: list[Record] = []
        self._room = room
        self._records_since: list[Record] | None = None  # records after the last hole, while they are near it
        self._bytes_since = 0

    @property
    def ranges_outside(self) -> list[Range]:
        """The rest of the range, without the holes."""
        starts = [self.offsets.start, *(hole.end for hole in self.holes)]
        ends = [*(hole.start for hole in self.holes), self.offsets.end]
        ranges = (Range(self.offsets.partition, start, end) for start, end in zip(starts, ends, strict=True))
        return [offsets for offsets in ranges if offsets.span]

    def take(self, record: Record) -> bool:
        """Take the next record; return whether there is room for another."""
        if is_timeless(record.milliseconds):
            return self._cut_out(record)
        if self._records_since is not None:
            self._records_since.append(record)
            self._bytes_since += size_of(record)
            is_far = len(self._records_since) > MAX_NEAR_RECORDS or self._bytes_since > _NEAR_BYTES
            if is_far or record.milliseconds < _SHIFTED_BEFORE:
                self._records_since = None
        return True

    def _cut_out(self, record: Record) -> bool:
        hole = Range(self.offsets.partition, record.offset, record.offset + 1)
        if self._records_since is None:
            if len(self.holes) == MOST_HOLES:
                self.offsets = replace(self.offsets, end=record.offset)
                return False
            self.holes.append(hole)
            self._bytes_since = 0
        else:
            self.holes[-1] = replace(self.holes[-1], end=hole.end)
            self.records_between += self._records_since
        self.timeless_records.append(record)
        self._room -= self._bytes_since + size_of(record)
        self._records_since, self._bytes_since = [], 0
        if self._room <= 0:
            self.offsets = replace(self.offsets, end=hole.end)
        return self._room > 0


def size_of(record: Record) -> int:
    """Return about how many bytes a record takes in this process."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return _RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"") + headers


def _unreadable_error(partition: TopicPartition, position: int, problem: str) -> TopicError:
    return TopicError(
        f"Neither client can read the records of partition {partition.partition} from offset {position} on: the time of"
        f" one is out of range for a timestamp, and {problem}",
        where=f"topic {partition.topic}",
        action="Nothing was merged. Delete the records up to them from the topic. Then accept the gap:"
        " lakehouse repair gap TABLE",
    )


async def _scan(consumer: Any, topic: str, cut: _Cut) -> None:
    """Feed the records of its range to a cut until it has no room."""
    partition, end = TopicPartition(topic, cut.offsets.partition), cut.offsets.end
    consumer.assign([partition])
    consumer.seek(partition, cut.offsets.start)
    position, deadline = cut.offsets.start, time.monotonic() + _PATIENCE
    while position < end:
        try:
            batches = await consumer.getmany(partition, timeout_ms=_POLL_MS)
        except UnicodeDecodeError:
            raise _unreadable_error(partition, position, "one near it has a header whose name is not UTF-8") from None
        except BatchesTooLargeError:
            problem = f"one near it is in a compressed batch that has more than {LARGEST_BATCH >> 20} MB"
            raise _unreadable_error(partition, position, problem) from None
        if not all(cut.take(to_record(message)) for message in batches.get(partition, ()) if message.offset < end):
            return
        position_before, position = position, await consumer.position(partition)
        deadline = time.monotonic() + _PATIENCE if position > position_before else deadline
        if time.monotonic() > deadline:
            raise BrokerError(
                f"The broker delivered no record of partition {partition.partition} from offset {position} on within"
                f" {_PATIENCE:.0f} seconds",
                where=f"topic {topic}",
                action="Nothing was merged. Check that the broker is healthy, and run it again.",
            )


def read_few_records(settings: Settings, plan: Plan) -> list[Record] | None:
    """Return exactly the committed records in the ranges of a plan; ``None`` if Spark has to read them.

    That is so if the ranges have many positions or few partitions, if the records have many bytes, or a time or a
    header that only Spark's client can read as it does; and if anything fails, so that Spark's failure is the one that
    is explained.
    """
    ranges = [offsets for offsets in plan.ranges if offsets.span]
    if len(ranges) < MANY_PARTITIONS or plan.span > FEW_POSITIONS:
        return None

    async def read_all(clients: Clients) -> list[Record] | None:
        options = {
            "isolation_level": "read_committed",
            "auto_offset_reset": "none",
            "fetch_max_wait_ms": _PAUSE_MS,
        }
        async with clients.open(AIOKafkaConsumer, **options) as consumer:
            records = await _read(consumer, plan)
            earliest = await consumer.beginning_offsets(list(consumer.assignment()))
        is_whole = all(earliest[TopicPartition(plan.stream, part.partition)] <= part.start for part in ranges)
        return records if is_whole else None

    try:
        with batches_limited(2 * ROOM):  # a batch may also have records outside of the ranges
            return ask(settings, _LIMIT, read_all)
    except Exception as error:
        _log.debug("Spark reads %s instead: %s", plan.stream, error)
        return None


async def _read(consumer: Any, plan: Plan) -> list[Record] | None:
    """Read the ranges of a plan; ``None`` as soon as Spark has to read them."""
    ends = {TopicPartition(plan.stream, offsets.partition): offsets.end for offsets in plan.ranges if offsets.span}
    consumer.assign(list(ends))
    for offsets in plan.ranges:
        if offsets.span:
            consumer.seek(TopicPartition(plan.stream, offsets.partition), offsets.start)
    records, size = list[Record](), 0
    while ends:
        batches = await consumer.getmany(*ends, timeout_ms=_PAUSE_MS)
        for partition, messages in batches.items():
            new_records = [to_record(message) for message in messages if message.offset < ends[partition]]
            size += sum(map(size_of, new_records))
            if size > ROOM or not all(is_exact_in_spark(record.milliseconds) for record in new_records):
                return None
            records += new_records
        for partition in [part for part, end in ends.items() if await consumer.position(part) >= end]:
            consumer.pause(partition)
            del ends[partition]
    return records


def read_records(spark: "SparkSession", settings: Settings, plan: Plan) -> "DataFrame":
    """Return exactly the committed records in the ranges of the plan: one row for each record.

    Columns: ``_partition`` INT, ``_position`` BIGINT (the offset), ``_sequence`` BIGINT (NULL: a topic has no other
    order), ``_time`` TIMESTAMP, ``_key`` BINARY (NULL: none), ``_value`` BINARY (NULL: none),
    ``_headers`` ARRAY<STRUCT<key STRING, value BINARY>>.
    If records or the broker are gone, the action that reads the DataFrame fails.
    """
    few_records = read_few_records(settings, plan)
    if few_records is not None:
        return spark.createDataFrame(to_arrow(few_records))
    ranges = [offsets for offsets in plan.ranges if offsets.span] or plan.ranges
    plan_options = {
        "maxRecordsPerPartition": str(OFFSETS_A_TASK),
        "kafka.bootstrap.servers": bootstrap_servers(settings),
        "assign": json.dumps({plan.stream: [offsets.partition for offsets in ranges]}),
        "startingOffsets": json.dumps({plan.stream: {str(offsets.partition): offsets.start for offsets in ranges}}),
        "endingOffsets": json.dumps({plan.stream: {str(offsets.partition): offsets.end for offsets in ranges}}),
    }
    user_options = {f"kafka.{name}": value for name, value in settings.client_properties.items()}
    options = {**_READ_OPTIONS, **user_options, **plan_options, **spark_security(settings)}
    return spark.read.format("kafka").options(**options).load().selectExpr(*_COLUMNS)


def to_arrow(records: Sequence[Record]) -> "pa.Table":
    """Return records with the columns of ``read_records``; a time that is out of range is NULL."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and most callers read no records

    from lakehouse.decoding.arrow_types import RECORD_SCHEMA  # noqa: PLC0415 - it is made of pyarrow

    columns = [
        [None if is_timeless(record.milliseconds) else record.milliseconds * 1000 for record in records],
        [record.partition for record in records],
        [record.offset for record in records],
        [None] * len(records),
        [record.key for record in records],
        [record.value for record in records],
        [[{"key": name, "value": value} for name, value in record.headers] or None for record in records],
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, RECORD_SCHEMA, strict=True)], RECORD_SCHEMA
    )
