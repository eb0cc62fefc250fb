"""The classes of a declaration's parts: columns, lateness, checks, rollups, base rows and samples."""

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
from lakehouse.decoding.record_parts import (
    ELEMENT,
    VALUE,
    WINDOW_TIMES,
    BrokerTime,
    Element,
    ElementIndex,
    ParentField,
    RecordHeader,
    RecordKey,
    TopicName,
    UnmappedFields,
    ValueOrObject,
)
from lakehouse.decoding.times import Lateness
from lakehouse.decoding.written_forms import Written
from lakehouse.decoding.zones import Zone, zone_of


def fingerprint_of(*parts: object) -> str:
    """A short hash of values, the same in every process."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


Source = (
    str
    | Sequence[str]
    | ValueOrObject
    | RecordKey
    | RecordHeader
    | BrokerTime
    | TopicName
    | UnmappedFields
    | ParentField
    | Element
    | ElementIndex
)
"""What a column is read from."""


@dataclass(frozen=True)
class Column:
    """One column of a declared table.

    ``source`` is the name of the field in the record, if it differs from that of the column. For a field within
    objects, it is the path, for example ``("customer", "address", "city")``, and for one that is a value or an object
    ``ValueOrObject(...)``. It can also be ``RecordKey()``, ``RecordHeader(...)``, ``BrokerTime()``, ``TopicName()``, or
    ``UnmappedFields()`` for the rest of the record. In a table with ``rows_from``, a name or path begins in the element
    that is the row, ``ParentField(...)`` in the record around it, ``Element()`` is the element as a whole, and
    ``ElementIndex()`` its place in the record. ``between`` is the smallest and the largest allowed value. ``pattern``
    is the format of a time that is a text: ``iso8601``, or directives of strptime. It is in UTC, unless it has an
    offset. ``zone`` is the time zone of texts without an offset: a name, or ``Zone(...)`` with what happens if clocks
    change. ``epoch`` is the unit of a time that is a number since 1970, UTC: of a TIMESTAMP, which is rounded to
    microseconds, or days of a DATE. ``default`` replaces a missing field or null, and is written as a record would
    contain it. ``formerly`` is the name or path of the field before it was renamed, which is read if the field is
    missing. ``widened_from`` is the narrower type that the column had: tables with that type are rewritten once with
    the wider one. ``null_values`` are texts that mean that there is no value; if they are numbers, also those numbers.
    ``keep`` merges the column on its own: a missing value leaves the stored one unchanged. With ``null_erases`` this
    holds only for a missing field and for ``null_values``; a null replaces the stored value. ``sql`` computes the
    column from other columns of the same record, NULL if it cannot be computed. ``written`` is how the record writes
    the value, if not in JSON's own form: a number as ``"text"``, bytes as ``"base64"``, attributes as ``"otlp"``, for
    example. ``invalid="null"`` reads a value that is wrong as NULL, if another column has its text.
    ``rounding="reject"`` rejects a number that the DECIMAL of the column would round, which loses digits.
    """

    name: str
    type: str
    doc: str
    required: bool = False
    between: tuple[float, float] | None = None
    source: Source | None = None
    pattern: str | None = None
    epoch: Epoch | None = field(default=None, repr=False)
    default: str | bool | float | None = field(default=None, repr=False)
    keep: bool = False
    sql: str | None = field(default=None, repr=False)
    formerly: str | Sequence[str] | None = field(default=None, repr=False)
    widened_from: str | None = field(default=None, repr=False)
    null_values: Sequence[str] = field(default=(), repr=False)
    null_erases: bool = field(default=False, repr=False)
    zone: str | Zone | None = field(default=None, repr=False)
    written: Written | None = field(default=None, repr=False)
    invalid: Literal["null"] | None = field(default=None, repr=False)
    rounding: Literal["reject"] | None = field(default=None, repr=False)

    @property
    def field(self) -> Field:
        """The rule for the field of a record that the column is read from."""
        bounds: tuple[Decimal | float | None, ...] = self.between or (None, None)
        if self.type.startswith("DECIMAL"):  # the number as written, not the nearest binary fraction
            bounds = tuple(None if bound is None else Decimal(str(bound)) for bound in bounds)
        minimum, maximum = bounds
        key = self.source if isinstance(self.source, RecordKey) else RecordKey()
        epoch: Epoch | None = "microseconds" if isinstance(self.source, BrokerTime) else self.epoch
        epoch = "milliseconds" if key.written in WINDOW_TIMES else epoch
        shown_name, path, part = self._place
        former = _path_of(self.formerly or ())
        rules = (self.pattern, path, epoch, self.default, part, former, tuple(self.null_values))
        rule = Field(
            self.name, shown_name, self.type, self.required, minimum, maximum, *rules, null_erases=self.null_erases
        )
        written = "json" if isinstance(self.source, UnmappedFields) else self.written
        whole_depth = len(self.source.whole_path) if isinstance(self.source, ValueOrObject) else 0
        rule = rule._replace(key_encoding=key.written, key_window=key.key_window, whole_depth=whole_depth)
        rule = rule._replace(nulls_invalid=self.invalid is not None, rejects_rounding=self.rounding is not None)
        return with_inner(rule._replace(written=written, zone=zone_of(self.zone)))

    @property
    def is_nested(self) -> bool:
        """Whether its type is an array, a map or a struct."""
        return nested(self.type) is not None

    @property
    def _place(self) -> tuple[str, tuple[str, ...], str]:
        """The shown name of its field, the path to it, and the part of the record that contains it."""
        source = self.source or self.name
        if isinstance(source, RecordKey | RecordHeader | BrokerTime | TopicName | UnmappedFields | ElementIndex):
            return source.shown_name, source.names if isinstance(source, RecordKey) else (), source.part
        if isinstance(source, Element):
            return "element", (ELEMENT,), VALUE
        if isinstance(source, ValueOrObject):
            return ".".join(source.whole_path), source.path, VALUE
        path = source.path if isinstance(source, ParentField) else _path_of(source)
        return ".".join(path), path, VALUE


def _path_of(source: str | Sequence[str]) -> tuple[str, ...]:
    return (source,) if isinstance(source, str) else tuple(source)


VersionNulls = Literal["oldest", "newest", "reject"]


@dataclass(frozen=True)
class Version:
    """The column that decides which record of a key is newer, and what a record is whose version is NULL.

    ``nulls="oldest"``: it is older than every record with a version. ``"newest"``: it is newer. ``"reject"``: it is
    rejected, as by a required column. Of two records with NULL, the source decides, as of two with equal versions. A
    column that may be NULL needs the choice.
    """

    column: str
    nulls: VersionNulls | None = None


@dataclass(frozen=True)
class Late:
    """When a record is late, and whether it is rejected or accepted. Late records are counted either way.

    ``column`` holds the event time (a DATE counts from the start of its day, UTC). A record is late if the broker
    received it more than ``after`` later; a record without an event time is never late. Both times belong to the
    record, so a replay decides the same.
    """

    column: str
    after: timedelta
    policy: Literal["accept", "reject"] = "reject"

    @property
    def rule(self) -> Lateness:
        """The rule that decides for one record."""
        return Lateness(self.column, self.after, self.policy == "reject")


@dataclass(frozen=True)
class Check:
    """A SQL condition that every row of the merged table should meet; a row for which it is NULL passes.

    It becomes a check of the table in Dagster, which runs every night. Rows that fail are merged nevertheless.
    ``severity`` is the severity of the check in Dagster if a row fails.
    """

    name: str
    sql: str
    doc: str
    severity: Literal["warn", "error"] = "error"


@dataclass(frozen=True)
class Measure:
    """One column of a rollup: a deterministic SQL aggregate over the rows of a group.

    It must not depend on the order of the rows. Sums and means of a DOUBLE column do, in their last digit, and the
    check of a rollup compares exactly. Cast what is added: ``sum(CAST(price AS DECIMAL(18,6)))``.
    """

    sql: str
    type: str
    doc: str


@dataclass(frozen=True)
class Rollup:
    """An aggregate table with one row per group of the columns ``by``, kept up to date from the change feed."""

    name: str
    by: Sequence[str]
    measures: Mapping[str, Measure]
    doc: str

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides the rows of the rollup."""
        measures = [(name, measure.sql, measure.type) for name, measure in self.measures.items()]
        return fingerprint_of(tuple(self.by), *measures)


@runtime_checkable
class Rows(Protocol):
    """A reader of base rows from the files of a folder; ``OpenMeteoFiles`` is an example."""

    @property
    def default_folder(self) -> Path:
        """The folder that is read unless another one is given."""
        ...

    def read(self, spark: Any, folder: Path, fields: Sequence[Field]) -> Any:
        """Return a DataFrame of this session with one row per row of each file.

        Its columns are ``_file``, the name of the file (STRING), ``_place``, the number of the row in the file (BIGINT,
        from 0), and one column per field, with its ``name`` and ``type``; NULL if the file has no value.
        """
        ...


@runtime_checkable
class Samples(Protocol):
    """Deterministic sample records of a table, for the demo, the tests and benchmarks."""

    def stream(self) -> Iterator[bytes]:
        """Records, in the order in which they are sent; they follow the base, if there is one."""
        ...

    def update(self) -> Iterator[bytes]:
        """Records of which most change existing rows; none if there is nothing to show."""
        ...


@runtime_checkable
class BaseSamples(Samples, Protocol):
    """Sample records of a table with base rows, and base files for it."""

    def write_base(self, folder: Path) -> None:
        """Write base files into the folder; a second run writes the same bytes."""
        ...


@runtime_checkable
class AvroSamples(Samples, Protocol):
    """Sample records of a table in Avro, and the schemas with which they are written."""

    @property
    def schemas(self) -> Mapping[str, str]:
        """The text of the schema of the records of ``stream``, and of those of ``update``."""
        ...


@dataclass(frozen=True)
class SampleRecords:
    """Sample records as objects, each sent as JSON: first the ``new`` ones, then the ``changed`` ones."""

    new: Sequence[Mapping[str, Any]]
    changed: Sequence[Mapping[str, Any]] = ()

    def stream(self) -> Iterator[bytes]:
        """The new records, in their order."""
        return (json.dumps(record).encode() for record in self.new)

    def update(self) -> Iterator[bytes]:
        """The changed records, in their order."""
        return (json.dumps(record).encode() for record in self.changed)
