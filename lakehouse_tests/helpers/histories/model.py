"""What the tables must hold, in plain Python: dictionaries, tuples and loops, and nothing of Delta or Spark.

A key is (latitude, longitude, hour). An order is a tuple that compares: ``(0, number of their commit)`` for base rows,
``(1, broker time, partition, offset)`` for records; the greater one is newer.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

Key = tuple[Decimal, Decimal, datetime]
Order = tuple[Any, ...]
Position = tuple[int, int]
LATE_AFTER = timedelta(days=5)


@dataclass(frozen=True)
class Record:
    """A record as it was sent; ``malformed`` is the reason for which no declaration takes it.

    Without a temperature it ``says_null``, or nothing.
    """

    partition: int
    offset: int
    broker_time: datetime
    key: Key | None
    temperature: float | None
    malformed: str | None = None
    says_null: bool = False

    @property
    def position(self) -> Position:
        return self.partition, self.offset

    @property
    def order(self) -> Order:
        return 1, self.broker_time, self.partition, self.offset

    @property
    def is_late(self) -> bool:
        return self.key is not None and self.broker_time - self.key[2] > LATE_AFTER

    def reason(self, rules: "Rules") -> str | None:
        """Why the record may not enter under these rules; ``None`` where it may."""
        if self.malformed:
            return self.malformed
        if self.temperature is not None and self.temperature > rules.hottest:
            return "out_of_range"
        return "late" if rules.rejects_late and self.is_late else None


@dataclass(frozen=True)
class Rules:
    """What of a declaration may change: the highest temperature, and what happens to late records and to nulls."""

    hottest: float = 70.0
    rejects_late: bool = True
    null_erases: bool = False


@dataclass(frozen=True)
class Row:
    """A row of the merged table: a temperature is kept by itself, with the order it came with, or was erased with."""

    temperature: float | None
    order: Order
    temperature_order: Order | None


@dataclass(frozen=True)
class Counted:
    """What one commit does."""

    read: int = 0
    rejected: int = 0
    late: int = 0
    duplicate: int = 0
    inserted: int = 0
    updated: int = 0
    stale: int = 0


@dataclass
class Moment:
    """All that one version of the merged table stands for."""

    rows: dict[Key, Row] = field(default_factory=dict)
    progress: dict[int, int] = field(default_factory=dict)
    base_version: int | None = None
    totals: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    decided: dict[Position, str | None] = field(default_factory=dict)


class Model:
    """The tables of one stream table, step by step. ``now`` is what the newest version stands for."""

    def __init__(self) -> None:
        self.rules = Rules()
        self.topic: dict[int, list[Record]] = {}
        self.base: dict[Key, float | None] = {}
        self.base_version: int | None = None
        self.now = Moment()
        self.moments: dict[int, Moment] = {}

    def committed(self, version: int) -> None:
        """The table has this version now."""
        self.moments[version] = deepcopy(self.now)

    def batch(self, ranges: Mapping[int, tuple[int, int]]) -> Counted:
        """The next records are merged: they begin where the last batch ended."""
        counted = self.replay(ranges)
        for partition, (start, end) in ranges.items():
            assert start == self.now.progress.get(partition, 0), "a batch begins where the one before it ended"
            self.now.progress[partition] = end
        for name in ("read", "rejected", "duplicate", "inserted", "updated", "stale"):
            self.now.totals[name] += getattr(counted, name)
        self.now.totals["batches"] += 1
        return counted

    def replay(self, ranges: Mapping[int, tuple[int, int]]) -> Counted:
        """Records are merged, and no progress moves."""
        return self._decide([r for p, (start, end) in ranges.items() for r in self.topic[p][start:end]])

    def redrive(self) -> Counted | None:
        """What is rejected is decided again; ``None`` where nothing passes."""
        redriven = [self.topic[p][offset] for p, offset in self.rejected()]
        if all(record.reason(self.rules) for record in redriven):
            for record in redriven:
                self.now.decided[record.position] = record.reason(self.rules)
            return None
        return self._decide(redriven)

    def _decide(self, records: list[Record]) -> Counted:
        for record in records:
            self.now.decided[record.position] = record.reason(self.rules)
        passing = [record for record in records if record.reason(self.rules) is None]
        keyed = [(r.key, r) for r in passing if r.key is not None]
        erasing = {r.order for _, r in keyed if r.says_null and self.rules.null_erases}
        counted = self._merge([(key, r.temperature, r.order) for key, r in keyed], erasing)
        late = sum(r.is_late and r.reason(self.rules) in (None, "late") for r in records)
        return replace(counted, read=len(records), rejected=len(records) - len(passing), late=late)

    def merge_base(self, number: int) -> Counted | None:
        """The base rows are merged by the commit of that number, where they are another version than before."""
        if self.base_version is None or self.base_version == self.now.base_version:
            return None
        self.now.base_version = self.base_version
        return self._merge([(key, value, (0, number)) for key, value in self.base.items()])

    def _merge(self, rows: Iterable[tuple[Key, float | None, Order]], erasing: Collection[Order] = ()) -> Counted:
        newest: dict[Key, Row] = {}
        read = 0
        for key, value, order in sorted(rows, key=lambda row: row[2]):
            read += 1
            before = newest.get(key)
            brings = value is not None or order in erasing
            kept, kept_order = (value, order) if brings else (None, None)
            if before and not brings:
                kept, kept_order = before.temperature, before.temperature_order
            newest[key] = Row(kept, order, kept_order)
        figures = dict(inserted=0, updated=0, stale=0)
        for key, row in newest.items():
            figures[self._put(key, row)] += 1
        return Counted(read=read, duplicate=read - len(newest), **figures)

    def _put(self, key: Key, row: Row) -> str:
        stored = self.now.rows.get(key)
        if stored is None:
            self.now.rows[key] = row
            return "inserted"
        is_newer = row.order > stored.order
        brings = row.temperature_order is not None and row.temperature_order > (stored.temperature_order or ())
        if not is_newer and not brings:
            return "stale"
        kept = row if brings else stored
        order = row.order if is_newer else stored.order
        self.now.rows[key] = Row(kept.temperature, order, kept.temperature_order)
        return "updated"

    def load_base(self, values: Mapping[Key, float | None], version: int | None) -> None:
        """Base files are loaded: a value that is there is never lost."""
        for key, value in values.items():
            self.base[key] = self.base.get(key) if value is None else value
        self.base_version = version

    def overwrite(self, key: Key, temperature: float | None) -> None:
        """Somebody else updates a row: a temperature where there was none has come with it."""
        row = self.now.rows[key]
        self.now.rows[key] = replace(row, temperature=temperature, temperature_order=row.temperature_order or row.order)

    def restore(self, version: int) -> None:
        """The table goes back to a version; rejected records of what stays merged go on being listed."""
        decided = self.now.decided
        self.now = deepcopy(self.moments[version])
        for position, reason in decided.items():
            self.now.decided[position] = reason or self.now.decided.get(position)

    def rejected(self) -> dict[Position, str]:
        """Positions that may not enter, with their reasons; none at or beyond the progress."""
        progress = self.now.progress
        return {(p, o): reason for (p, o), reason in self.now.decided.items() if reason and o < progress.get(p, 0)}

    def changes(self) -> set[tuple[Any, ...]]:
        """What every version changed: key, version, kind, temperature before and after."""
        found = set()
        before: dict[Key, Row] = {}
        for version, moment in sorted(self.moments.items()):
            for key in before.keys() | moment.rows.keys():
                change = _change(before.get(key), moment.rows.get(key))
                if change:
                    found.add((*key, version, *change))
            before = moment.rows
        return found

    def rollup(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """Rows, readings, least, greatest, sum, mean, first and last hour of each place and month."""
        groups: dict[tuple[Any, ...], list[tuple[datetime, float | None]]] = defaultdict(list)
        for (latitude, longitude, hour), row in self.now.rows.items():
            groups[latitude, longitude, hour.date().replace(day=1)].append((hour, row.temperature))
        return {group: _figures(rows) for group, rows in groups.items()}


def _change(before: Row | None, after: Row | None) -> tuple[str, float | None, float | None] | None:
    if before is None or after is None:
        present = before or after
        assert present is not None
        value = present.temperature
        return ("insert", None, value) if before is None else ("delete", value, None)
    if before.temperature == after.temperature:
        return None
    return "update", before.temperature, after.temperature


def _figures(rows: list[tuple[datetime, float | None]]) -> tuple[Any, ...]:
    hours = [hour for hour, _ in rows]
    values = [value for _, value in rows if value is not None]
    if not values:
        return len(rows), 0, None, None, None, None, min(hours), max(hours)
    total = sum((Decimal(str(value)) for value in values), Decimal(0))
    mean = round(float(total / len(values)), 9)
    return len(rows), len(values), min(values), max(values), total, mean, min(hours), max(hours)
