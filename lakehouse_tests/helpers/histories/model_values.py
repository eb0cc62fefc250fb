"""The values of the model: records and rules, the rows and counts that follow, and how rows combine and change.

A key is (latitude, longitude, hour). An order is a tuple: ``(0, number of the commit)`` for base rows and
``(1, time of order, partition, offset)`` for records; of an element, its index follows. The greater order is newer. If
a table reads several topics, a partition is (source, number).
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

Key = tuple[Decimal, Decimal, datetime]
Order = tuple[Any, ...]
Partition = Any
Position = tuple[Any, ...]
"""Partition and offset; of an element, its index follows, which is ``None`` for the record as a whole."""
LATE_AFTER = timedelta(days=5)


@dataclass(frozen=True)
class Record:
    """A sent record, or an element of one; ``malformed`` is the reason for which every declaration rejects it.

    If the temperature is ``None``, ``says_null`` distinguishes a null from a missing field. ``place`` is the index of
    an element, ``(None,)`` for a record that has elements and is judged as a whole, and empty for others.
    ``order_time`` is the greatest broker time of the partition up to it, once a batch has read it. One that is
    ``filtered`` never belongs to the table, one of another type does unless the rules filter by the type.
    """

    partition: Partition
    offset: int
    broker_time: datetime
    key: Key | None
    temperature: float | None
    malformed: str | None = None
    says_null: bool = False
    deletes: bool = False
    truncates: bool = False
    filtered: bool = False
    is_other_type: bool = False
    place: Position = ()
    order_time: datetime | None = None

    @property
    def position(self) -> Position:
        return self.partition, self.offset, *self.place

    @property
    def order(self) -> Order:
        return 1, self.order_time or self.broker_time, self.partition, self.offset, *self.place

    @property
    def is_late(self) -> bool:
        return (
            self.key is not None
            and not self.deletes
            and not self.truncates
            and self.broker_time - self.key[2] > LATE_AFTER
        )

    def is_filtered(self, rules: "Rules") -> bool:
        return self.filtered or (self.is_other_type and rules.filters_types)

    def reason(self, rules: "Rules") -> str | None:
        """Return why these rules reject the record, or ``None`` if they accept it."""
        if self.malformed:
            return self.malformed
        if self.truncates:
            return None
        if self.temperature is not None and self.temperature > rules.hottest and not self.deletes:
            return "out_of_range"
        return "late" if rules.rejects_late and self.is_late else None


@dataclass(frozen=True)
class Rules:
    """The parts of a declaration that change: the maximum, the treatment of late records, nulls and other types."""

    hottest: float = 70.0
    rejects_late: bool = True
    null_erases: bool = False
    filters_types: bool = False


@dataclass(frozen=True)
class Row:
    """A row of the merged table. The temperature has the order of the record that set or erased it."""

    temperature: float | None
    order: Order
    temperature_order: Order | None


@dataclass(frozen=True)
class ModelCounts:
    """The counts of one commit: the records that it read, those without elements, and then counts of rows."""

    read: int = 0
    empty: int = 0
    judged: int = 0
    filtered: int = 0
    rejected: int = 0
    late: int = 0
    superseded: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    deletes_without_row: int = 0
    stale: int = 0
    corrected: int = 0
    withdrawn: int = 0
    erased: int = 0


@dataclass
class Moment:
    """The state of one version of the merged table, with the newest delete of each key, and the newest of all rows.

    ``purged`` is the greatest order of a delete that was forgotten. ``commits`` decided records up to this version. If
    the table reads several topics, ``sources`` are those that it ever began, up to this version.
    """

    rows: dict[Key, Row] = field(default_factory=dict)
    greatest_times: dict[Partition, datetime] = field(default_factory=dict)
    deletes: dict[Key, Order] = field(default_factory=dict)
    truncate: Order | None = None
    purged: Order | None = None
    progress: dict[Partition, int] = field(default_factory=dict)
    base_version: int | None = None
    totals: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    commits: frozenset[int] = frozenset()
    sources: frozenset[str] = frozenset()


def combine_rows(stored_row: Row | None, row: Row | None) -> Row | None:
    """Return the newer of two rows, with the newer temperature."""
    if stored_row is None or row is None:
        return stored_row or row
    newer_row = max(stored_row, row, key=lambda part: part.order)
    temperature_row = max(stored_row, row, key=lambda part: part.temperature_order or ())
    return Row(temperature_row.temperature, newer_row.order, temperature_row.temperature_order)


def compare_rows(before: Row | None, after: Row | None) -> tuple[str, float | None, float | None] | None:
    if before is None or after is None:
        row = before or after
        assert row is not None
        value = row.temperature
        return ("insert", None, value) if before is None else ("delete", value, None)
    if before.temperature == after.temperature:
        return None
    return "update", before.temperature, after.temperature


def rollup_values(rows: list[tuple[datetime, float | None]]) -> tuple[Any, ...]:
    hours = [hour for hour, _ in rows]
    values = [value for _, value in rows if value is not None]
    if not values:
        return len(rows), 0, None, None, None, None, min(hours), max(hours)
    total = sum((Decimal(str(value)) for value in values), Decimal(0))
    mean = round(float(total / len(values)), 9)
    return len(rows), len(values), min(values), max(values), total, mean, min(hours), max(hours)
