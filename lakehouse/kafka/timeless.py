"""Records whose time is beyond any timestamp of Spark: a plan is cut around them, and they are read here.

Spark's source fails on such a record, whatever is selected of it. A producer wrote its time in nanoseconds, perhaps.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError

from lakehouse.errors import BrokerError, TopicError
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.failures import gone
from lakehouse.kafka.newest_records import Record, record_of
from lakehouse.ledger.positions import Plan, Range
from lakehouse.settings import Settings

LEAST, MOST = -9_223_372_036_854_000, 9_223_372_036_854_775
"""The times that Spark's source can read, in milliseconds since 1970, both inclusive."""
NEAR = 1_000
"""Records between two such ones: so few of them are read here too, and make no further part of Spark's read."""
_NEAR_BYTES = 1024 * 1024
MOST_HOLES = 4
"""Of one partition in one batch: Spark reads each part between them by a read of its own."""
ROOM = 32 * 1024 * 1024
"""Bytes of records that are read here for one batch, over all partitions."""
_OF_A_RECORD = 200  # bytes, beside its own
_SHIFTED_BEFORE = -12_219_292_800_000  # 15 October 1582: Spark's source shifts an older time by days
_POLL_MS = 500
_PATIENCE = 30.0  # seconds without a record, and without a step forward


@dataclass(frozen=True)
class CutPlan:
    """A plan without what Spark cannot read.

    ``plan`` is the whole: that which was asked for, or its beginning where there is too much to read here. ``parts``
    are what Spark reads of it, at most one range for each partition in each. ``timeless`` are the records whose time is
    beyond any timestamp, ``between`` those that stand between them.
    """

    plan: Plan
    parts: tuple[Plan, ...]
    between: tuple[Record, ...]
    timeless: tuple[Record, ...]


def is_timeless(milliseconds: int) -> bool:
    """Whether a record of that time, since 1970, is one that Spark's source fails on."""
    return not LEAST <= milliseconds <= MOST


def told_time(milliseconds: int) -> str:
    """What to tell of such a time, as it is stored nowhere else: records at one position are told apart by it."""
    return f"its time in the topic is {milliseconds} milliseconds after 1970, which is beyond any timestamp"


def cut_around(settings: Settings, plan: Plan, command: str) -> CutPlan:
    """Read all records of a plan once, without Spark, and cut it around those whose time is beyond any timestamp.

    Holds little more than ``ROOM`` of them; each partition goes on behind its first one at least. ``command`` is what a
    person types to go on. Raises ``ReadLossError`` where records are gone, ``BrokerError`` where the broker does not
    give them, ``TopicError`` where this client cannot read them either.
    """
    parts = [part for part in plan.ranges if part.span]
    cuts = [_Cut(part, ROOM // max(1, len(parts))) for part in parts]

    async def question(clients: Clients) -> bool:
        own = {"isolation_level": "read_committed", "auto_offset_reset": "none"}
        starts = {TopicPartition(plan.stream, part.partition): part.start for part in parts}
        async with clients.open(AIOKafkaConsumer, **own) as consumer:
            try:
                for cut in cuts:
                    await _scan(consumer, plan.stream, cut)
            except (OffsetOutOfRangeError, NoOffsetForPartitionError):
                return False
            earliest = await consumer.beginning_offsets(list(starts))
        return all(earliest[part] <= start for part, start in starts.items())

    if not ask(settings, None, question):
        raise gone(plan, command)
    read = {cut.part.partition: cut.part for cut in cuts}
    whole = replace(plan, ranges=tuple(read.get(part.partition, part) for part in plan.ranges))
    between = tuple(record for cut in cuts for record in cut.between)
    return CutPlan(whole, tuple(_parts(plan, cuts)), between, tuple(each for cut in cuts for each in cut.timeless))


def _parts(plan: Plan, cuts: "list[_Cut]") -> Iterator[Plan]:
    for ranges in zip_longest(*(cut.outside for cut in cuts)):
        yield replace(plan, ranges=tuple(part for part in ranges if part))


class _Cut:
    """The range of one partition, of which records are taken in order: what of it is read here instead."""

    def __init__(self, part: Range, room: int) -> None:
        self.part = part
        self.holes: list[Range] = []
        self.between: list[Record] = []
        self.timeless: list[Record] = []
        self._room = room
        self._since: list[Record] | None = None  # records behind the last hole, while they are near
        self._since_bytes = 0

    @property
    def outside(self) -> list[Range]:
        """What is left of the range beside the holes."""
        starts = [self.part.start, *(hole.end for hole in self.holes)]
        ends = [*(hole.start for hole in self.holes), self.part.end]
        ranges = (Range(self.part.partition, start, end) for start, end in zip(starts, ends, strict=True))
        return [part for part in ranges if part.span]

    def take(self, record: Record) -> bool:
        """Take the next record; whether there is room for another."""
        if is_timeless(record.milliseconds):
            return self._cut_out(record)
        if self._since is not None:
            self._since.append(record)
            self._since_bytes += _size(record)
            far = len(self._since) > NEAR or self._since_bytes > _NEAR_BYTES
            if far or record.milliseconds < _SHIFTED_BEFORE:
                self._since = None
        return True

    def _cut_out(self, record: Record) -> bool:
        here = Range(self.part.partition, record.offset, record.offset + 1)
        if self._since is None:
            if len(self.holes) == MOST_HOLES:
                self.part = replace(self.part, end=record.offset)
                return False
            self.holes.append(here)
            self._since_bytes = 0
        else:
            self.holes[-1] = replace(self.holes[-1], end=here.end)
            self.between += self._since
        self.timeless.append(record)
        self._room -= self._since_bytes + _size(record)
        self._since, self._since_bytes = [], 0
        if self._room <= 0:
            self.part = replace(self.part, end=here.end)
        return self._room > 0


def _size(record: Record) -> int:
    headers = sum(len(name) + len(told or b"") for name, told in record.headers)
    return _OF_A_RECORD + len(record.key or b"") + len(record.value or b"") + headers


async def _scan(consumer: Any, topic: str, cut: _Cut) -> None:
    """Let a cut take the records of its range until it has no room."""
    part, end = TopicPartition(topic, cut.part.partition), cut.part.end
    consumer.assign([part])
    consumer.seek(part, cut.part.start)
    at, due = cut.part.start, time.monotonic() + _PATIENCE
    while at < end:
        try:
            fetched = await consumer.getmany(part, timeout_ms=_POLL_MS)
        except UnicodeDecodeError:
            raise TopicError(
                f"Records of partition {part.partition} from offset {at} on are read by neither client: the time of one"
                " is beyond any timestamp, and one near it has a header whose name is not UTF-8",
                where=f"topic {topic}",
                action="Nothing was merged. Delete the records up to them from the topic, and accept that gap.",
            ) from None
        if not all(cut.take(record_of(each)) for each in fetched.get(part, ()) if each.offset < end):
            return
        before, at = at, await consumer.position(part)
        due = time.monotonic() + _PATIENCE if at > before else due
        if time.monotonic() > due:
            raise BrokerError(
                f"The broker gave nothing of partition {part.partition} from offset {at} on in {_PATIENCE:.0f} seconds",
                where=f"topic {topic}",
                action="Nothing was merged. Look after the broker, and run it again.",
            )
