"""The vocabulary in which a table is declared. A declaration is checked when it is made."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Protocol

from lakehouse.errors import DeclarationError
from lakehouse.records import Field, Lateness

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_POSITION = {"kafka_timestamp", "kafka_partition", "kafka_offset", "base_version"}
_TAKEN = _POSITION | {"key", "value", "headers", "reason", "detail", "is_late", "is_stale", "newest"}
_TYPE = re.compile(r"STRING|BOOLEAN|INT|BIGINT|DOUBLE|DATE|TIMESTAMP|DECIMAL\(\d+,\d+\)")


def _hash(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Json:
    """Records are JSON objects in UTF-8, decoded strictly."""


@dataclass(frozen=True)
class Column:
    """One column of a declared table.

    ``source`` is the field's name in the record where it differs from the column's. ``between`` are the
    least and greatest values allowed. ``pattern`` (strptime) is how a time is written; it is in UTC.
    ``keep`` merges the column by itself: a record without a value for it leaves the stored value alone.
    """

    name: str
    type: str
    doc: str
    required: bool = False
    between: tuple[float, float] | None = None
    source: str | None = None
    pattern: str | None = None
    keep: bool = False

    @property
    def field(self) -> Field:
        """The column as a rule for one field of a record."""
        least, most = self.between or (None, None)
        return Field(self.name, self.source or self.name, self.type, self.required, least, most, self.pattern)


@dataclass(frozen=True)
class Month:
    """Partition by the month of a time column, as the first day of it, in UTC."""

    column: str

    @property
    def name(self) -> str:
        """Name of the partition column, a DATE."""
        return f"{self.column.removesuffix('_at')}_month"

    @property
    def expression(self) -> str:
        """The month in SQL."""
        return f"CAST(date_trunc('MONTH', `{self.column}`) AS DATE)"


@dataclass(frozen=True)
class Late:
    """When a record is late, and what becomes of it: it is rejected, or enters. Either way it is counted.

    ``column`` holds the event time (a DATE counts from the start of its day, UTC). A record is late where
    the broker got it more than ``after`` later; one without an event time never is. Both times stay with
    the record, so a replay judges the same.
    """

    column: str
    after: timedelta
    policy: Literal["accept", "reject"] = "reject"

    @property
    def rule(self) -> Lateness:
        """The declaration as a rule for one record."""
        return Lateness(self.column, self.after, self.policy == "reject")


@dataclass(frozen=True)
class Measure:
    """One figure of a rollup: a deterministic SQL aggregate over the rows of a group."""

    sql: str
    type: str
    doc: str


@dataclass(frozen=True)
class Rollup:
    """An aggregate table with one row for each group ``by``, kept up to date from the changes."""

    name: str
    by: Sequence[str]
    measures: Mapping[str, Measure]
    doc: str

    @property
    def fingerprint(self) -> str:
        """A hash of what decides which rows the rollup holds."""
        measures = [(name, measure.sql, measure.type) for name, measure in self.measures.items()]
        return _hash(tuple(self.by), *measures)


class Rows(Protocol):
    """Where base rows come from; see ``lakehouse.sources``."""

    @property
    def default_folder(self) -> Path:
        """Read where nobody names a folder."""
        ...

    def read(self, spark: Any, folder: Path, fields: Sequence[Field]) -> Any:
        """One row for each row of each file, as a DataFrame, with its file and place in it."""
        ...


class Samples(Protocol):
    """Deterministic sample records of a table, for the demo, the tests and benchmarks."""

    def write_base(self, folder: Path) -> None:
        """Write base files into the folder; a second run writes the same bytes."""
        ...

    def stream(self) -> Iterator[bytes]:
        """Records that follow the base, in the order in which they are sent."""
        ...

    def update(self) -> Iterator[bytes]:
        """Records of which most change rows that exist."""
        ...


@dataclass(frozen=True)
class Reference:
    """A small table that describes the things the records are about, read whole from a file of JSON lines."""

    name: str
    file: Path
    columns: Sequence[Column]
    key: Sequence[str]
    doc: str


@dataclass(frozen=True)
class StreamTable:
    """A table kept up to date from a topic, and everything that follows from it.

    Grain: one row for each ``key``. ``version`` names a column that decides, before the broker's
    timestamp, which record is newer; ``order="offset"`` uses offsets alone instead, for topics whose
    producers date the records and whose keys stay in one partition. ``gaps`` decides what happens where
    records are gone from the topic before they were merged: stop with an error, or record and go on.
    ``max_records`` is how many positions a batch takes at most, where nobody asks for another number.
    ``retention`` is how far back every table of the declaration can be read as it was then, at least.
    """

    name: str
    topic: str
    doc: str
    columns: Sequence[Column]
    key: Sequence[str]
    partition_by: Month | None = None
    version: str | None = None
    order: Literal["timestamp", "offset"] = "timestamp"
    late: Late | None = None
    gaps: Literal["stop", "accept"] = "stop"
    max_records: int = 500_000
    retention: timedelta = timedelta(days=7)
    format: Json = Json()
    partitions: int = 3
    owner: str = "team:lakehouse"
    base: Rows | None = None
    references: Sequence[Reference] = ()
    rollups: Sequence[Rollup] = ()
    samples: Samples | None = None
    file: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Refuse a declaration that contradicts itself."""
        names = [self.name, *(c.name for c in self.columns), *(r.name for r in self.rollups)]
        self._require(all(map(_NAME.fullmatch, names)), "names are lower case letters, digits and _")
        self._require(len(set(self.by_name)) == len(self.columns), "two columns have the same name")
        for column in self.columns:
            fact = f"column {column.name}: the name is taken; choose another, and name the field in its source"
            self._require(column.name not in _TAKEN, fact)
            self._require(_TYPE.fullmatch(column.type), f"column {column.name}: no such type {column.type}")
            timed = column.pattern is not None or column.type not in ("TIMESTAMP", "DATE")
            self._require(timed, f"column {column.name}: a time needs a pattern")
            self._require(not (column.keep and column.required), f"column {column.name}: required or keep")
        for name in self.key:
            known = name in self.by_name and self.by_name[name].required
            self._require(known, f"key column {name} must be declared and required")
        self._require(self.key, "a table needs a key")
        self._check_parts()

    def _check_parts(self) -> None:
        columns = {*self.by_name, *((self.partition_by.name,) if self.partition_by else ())}
        if self.partition_by:
            timed = self.by_name.get(self.partition_by.column)
            self._require(timed and timed.type == "TIMESTAMP", "partition_by needs a TIMESTAMP column")
        self._require(self.version is None or self.version in self.by_name, "version is no column")
        self._require(self.gaps in ("stop", "accept"), "gaps is stop or accept")
        counted = type(self.max_records) is int and self.max_records >= 1
        self._require(counted, "max_records is a whole number, at least 1")
        self._require(self.retention > timedelta(0), "retention is more than nothing")
        if self.late:
            self._check_late(self.late)
        for rollup in self.rollups:
            self._require(set(rollup.by) <= columns, f"rollup {rollup.name}: groups by unknown columns")

    def _check_late(self, late: Late) -> None:
        timed = self.by_name.get(late.column)
        self._require(timed and timed.type in ("TIMESTAMP", "DATE"), "late needs a TIMESTAMP or DATE column")
        self._require(late.after >= timedelta(0), "late: after is less than nothing")
        self._require(late.policy in ("accept", "reject"), "late: the policy is accept or reject")

    def _require(self, holds: object, fact: str) -> None:
        if not holds:
            raise DeclarationError(f"Table {self.name!r}: {fact}", action="Correct its declaration.")

    @property
    def by_name(self) -> dict[str, Column]:
        """The declared columns by their names."""
        return {column.name: column for column in self.columns}

    @property
    def fields(self) -> tuple[Field, ...]:
        """The declared columns as rules for the fields of a record."""
        return tuple(column.field for column in self.columns)

    @property
    def keep(self) -> tuple[str, ...]:
        """Columns that are merged by themselves."""
        return tuple(column.name for column in self.columns if column.keep)

    @property
    def values(self) -> tuple[str, ...]:
        """Declared columns outside the key."""
        return tuple(column.name for column in self.columns if column.name not in self.key)

    @property
    def base_name(self) -> str:
        """Name of the table that holds the base rows."""
        return f"{self.name}_base"

    @property
    def rejected_name(self) -> str:
        """Name of the table that holds the rejected records."""
        return f"{self.name}_rejected"

    @property
    def changes_name(self) -> str:
        """Name of the change feed."""
        return f"{self.name}_changes"

    @property
    def fingerprint(self) -> str:
        """A hash of what decides how a record is decoded and merged."""
        late = (self.late,) if self.late else ()
        parts = (self.topic, self.format, tuple(self.columns), tuple(self.key), self.version, self.order, *late)
        return _hash(*parts)
