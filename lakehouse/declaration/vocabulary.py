"""The parts of a declaration: what a person says of columns, lateness, rollups and references."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from lakehouse.decoding.fields import Epoch, Field
from lakehouse.decoding.nested_types import nested, with_inner
from lakehouse.decoding.record_parts import VALUE, BrokerTime, RecordHeader, RecordKey
from lakehouse.decoding.times import Lateness


def fingerprint_of(*parts: object) -> str:
    """A short hash of values, the same in every process."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Column:
    """One column of a declared table.

    ``source`` is the field's name in the record where it differs from the column's; of a field within others, the
    names that lead to it, as ``("customer", "address", "city")``; or what stands beside the value of the record.
    ``between`` are the least and greatest values
    allowed. ``pattern`` (strptime) is how a time is written; it is in UTC. ``epoch`` is the unit of a time that is a
    number of them since 1970, UTC: a TIMESTAMP, rounded to microseconds, or days of a DATE. ``default`` is the value of
    a record that has none, or null, as it would be written in the record.
    ``formerly`` is the name of that field, or those that lead to it, before it was renamed: asked where it is missing.
    ``widened_from`` is the narrower type that it had: tables that have it are written once with the wider one.
    ``null_values`` are texts that say that there is no value, and where they are written numbers, those numbers.
    ``keep`` merges the column by itself: a record without a value for it leaves the stored value alone. With
    ``null_erases`` only a missing field and one of ``null_values`` do; a null is the newest value, and is stored.
    ``sql`` computes it from other columns of the same record instead, NULL where it cannot be computed.
    """

    name: str
    type: str
    doc: str
    required: bool = False
    between: tuple[float, float] | None = None
    source: str | Sequence[str] | RecordKey | RecordHeader | BrokerTime | None = None
    pattern: str | None = None
    epoch: Epoch | None = field(default=None, repr=False)
    default: str | bool | float | None = field(default=None, repr=False)
    keep: bool = False
    sql: str | None = field(default=None, repr=False)
    formerly: str | Sequence[str] | None = field(default=None, repr=False)
    widened_from: str | None = field(default=None, repr=False)
    null_values: Sequence[str] = field(default=(), repr=False)
    null_erases: bool = field(default=False, repr=False)

    @property
    def field(self) -> Field:
        """The column as a rule for one field of a record."""
        bounds: tuple[Decimal | float | None, ...] = self.between or (None, None)
        if self.type.startswith("DECIMAL"):  # the number that was written, not the nearest binary fraction
            bounds = tuple(None if bound is None else Decimal(str(bound)) for bound in bounds)
        least, most = bounds
        epoch: Epoch | None = "microseconds" if isinstance(self.source, BrokerTime) else self.epoch
        shown, path, part = self._place
        former = (self.formerly,) if isinstance(self.formerly, str) else tuple(self.formerly or ())
        rules = (self.pattern, path, epoch, self.default, part, former, tuple(self.null_values))
        found = Field(self.name, shown, self.type, self.required, least, most, *rules, null_erases=self.null_erases)
        written = self.source.written if isinstance(self.source, RecordKey) else found.written
        return with_inner(found._replace(written=written))

    @property
    def is_nested(self) -> bool:
        """Whether its values hold others."""
        return nested(self.type) is not None

    @property
    def _place(self) -> tuple[str, tuple[str, ...], str]:
        """What its field is called, the names that lead to it, and the part of the record in which it is."""
        source = self.source or self.name
        if isinstance(source, RecordKey | RecordHeader | BrokerTime):
            return source.called, (), source.part
        path = (source,) if isinstance(source, str) else tuple(source)
        return ".".join(path), path, VALUE


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
class Check:
    """What is expected of every row of the merged table, as a condition in SQL; a row of which it is NULL passes.

    It is a check of the table in Dagster, asked for every night: rows enter whether they pass or not. ``severity`` is
    what Dagster makes of a row that does not.
    """

    name: str
    sql: str
    doc: str
    severity: Literal["warn", "error"] = "error"


@dataclass(frozen=True)
class Measure:
    """One figure of a rollup: a deterministic SQL aggregate over the rows of a group.

    It may not depend on the order of the rows: sums and means of a DOUBLE column do, in their last digit, and the check
    of a rollup compares exactly. Cast what is added: ``sum(CAST(price AS DECIMAL(18,6)))``.
    """

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
        return fingerprint_of(tuple(self.by), *measures)


@runtime_checkable
class Rows(Protocol):
    """Where base rows come from: files of a folder, as ``OpenMeteoFiles`` reads those of one kind."""

    @property
    def default_folder(self) -> Path:
        """Read where nobody names a folder."""
        ...

    def read(self, spark: Any, folder: Path, fields: Sequence[Field]) -> Any:
        """One row for each row of each file, as a DataFrame of that session.

        Its columns are ``_file``, the name of the file (STRING), ``_place``, which row of it (BIGINT, from 0), and one
        for each field, by its ``name`` and of its ``type``; NULL where the file tells nothing.
        """
        ...


@runtime_checkable
class Samples(Protocol):
    """Deterministic sample records of a table, for the demo, the tests and benchmarks."""

    def stream(self) -> Iterator[bytes]:
        """Records, in the order in which they are sent; they follow the base, where there is one."""
        ...

    def update(self) -> Iterator[bytes]:
        """Records of which most change rows that exist; none where there is nothing to show."""
        ...


@runtime_checkable
class BaseSamples(Samples, Protocol):
    """Sample records of a table with base rows, and base files for it."""

    def write_base(self, folder: Path) -> None:
        """Write base files into the folder; a second run writes the same bytes."""
        ...


@runtime_checkable
class AvroSamples(Samples, Protocol):
    """Sample records of a table of Avro, and the schemas by which they are written."""

    @property
    def schemas(self) -> Mapping[str, str]:
        """The text of the schema for the records of ``stream``, and that for those of ``update``."""
        ...


@dataclass(frozen=True)
class SampleRecords:
    """Sample records as objects, each sent as JSON: ``new`` ones, then those that have ``changed`` since."""

    new: Sequence[Mapping[str, Any]]
    changed: Sequence[Mapping[str, Any]] = ()

    def stream(self) -> Iterator[bytes]:
        """The new ones, in their order."""
        return (json.dumps(each).encode() for each in self.new)

    def update(self) -> Iterator[bytes]:
        """The changed ones, in their order."""
        return (json.dumps(each).encode() for each in self.changed)


@dataclass(frozen=True)
class Reference:
    """A small table that describes the things the records are about, read whole from a file of JSON lines."""

    name: str
    file: Path
    columns: Sequence[Column]
    key: Sequence[str]
    doc: str
