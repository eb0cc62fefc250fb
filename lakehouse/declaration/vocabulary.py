"""The classes of a declaration's parts: order, lateness, upkeep, checks, rollups, references and partitions."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Literal

from lakehouse.declaration.columns import Column
from lakehouse.declaration.conditions import FieldExists, FieldIs
from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats import Format, Json
from lakehouse.decoding.times import Lateness


def fingerprint_of(*parts: object) -> str:
    """A short hash of values, the same in every process."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


VersionNulls = Literal["oldest", "newest", "reject"]


@dataclass(frozen=True)
class Version:
    """The column that decides which record of a key is newer, and what a record is whose version is NULL.

    Of several columns, each decides if those before it are equal; a computed one ranks states, for example.
    ``nulls="oldest"``: it is older than every record with a version. ``"newest"``: it is newer. ``"reject"``: it is
    rejected, as by a required column. Of two records with NULL, the source decides, as of two with equal versions. A
    column that may be NULL needs the choice, and so does a computed one.
    """

    column: str | Sequence[str]
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


@dataclass(frozen=True)
class Explode:
    """The elements of an array in each record are rows: ``rows_from`` of a table with options.

    ``path`` is the name of the field with the array, or its path; ``()`` if each record is the array. With
    ``single_object``, an object in the place of the array is its only element. ``where`` is a condition on an element,
    or several that must all hold, whose paths begin in it: other elements are counted as filtered.
    """

    path: str | Sequence[str]
    single_object: bool = False
    where: FieldIs | FieldExists | Sequence[FieldIs] | None = None

    @property
    def conditions(self) -> tuple[FieldIs, ...]:
        """The conditions on an element."""
        return () if self.where is None else (self.where,) if isinstance(self.where, FieldIs) else tuple(self.where)


@dataclass(frozen=True)
class Promise:
    """What a table promises: checks in Dagster fail while a promise is broken.

    ``fresh``: no record waits longer than that to be merged. ``max_lag``: at most so many positions wait.
    """

    fresh: timedelta | None = None
    max_lag: int | None = None


@dataclass(frozen=True)
class Upkeep:
    """How a table is maintained: compacted, and cleared of old files by VACUUM.

    ``retention`` is how far back every table of the declaration can at least be read as of an earlier time. ``every``
    is how often Dagster maintains the tables. ``cluster_by`` names columns: compaction stores rows with similar values
    in the same files. It requires a table without partitions. ``deletion_vectors`` hides replaced rows of the merged
    table instead of copying the files that hold them: batches that update few rows in many files write less, and some
    readers cannot open the table.
    """

    retention: timedelta = timedelta(days=7)
    every: timedelta = timedelta(days=1)
    cluster_by: Sequence[str] = ()
    deletion_vectors: bool = False


@dataclass(frozen=True)
class Reference:
    """A small table that describes what the records refer to, loaded as a whole from a file.

    Each line of the file is a row, in the ``format``. ``header`` is the first line of the file, which is not a row.
    """

    name: str
    file: Path
    columns: Sequence[Column]
    key: Sequence[str]
    doc: str
    format: Format = field(default_factory=Json)
    header: str = ""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The rules for the fields of a line."""
        return tuple(column.field.in_texts(is_text=self.format.is_text) for column in self.columns)


@dataclass(frozen=True)
class _Period:
    """Partition by a period of a TIMESTAMP or DATE column, in UTC: a separate DATE column holds its first day."""

    column: str
    types: ClassVar[tuple[str, ...]] = ("TIMESTAMP", "DATE")

    @property
    def unit(self) -> str:
        """The name of the period in SQL, which is the lower-case name of the class."""
        return type(self).__name__.lower()

    @property
    def name(self) -> str:
        """Name of the partition column."""
        return f"{self.column.removesuffix('_at')}_{self.unit}"

    @property
    def expression(self) -> str:
        """The partition column in SQL."""
        return f"CAST(date_trunc('{self.unit.upper()}', `{self.column}`) AS DATE)"

    @property
    def doc(self) -> str:
        """What the partition column means."""
        return f"First day of the {self.unit}, UTC; partition column."


@dataclass(frozen=True)
class Day(_Period):
    """Partition by the day of a TIMESTAMP column, in UTC."""

    types: ClassVar[tuple[str, ...]] = ("TIMESTAMP",)

    @property
    def expression(self) -> str:
        """The day in SQL."""
        return f"CAST(`{self.column}` AS DATE)"

    @property
    def doc(self) -> str:
        """What the partition column means."""
        return "The day, UTC; partition column."


@dataclass(frozen=True)
class Hour(_Period):
    """Partition the files of an export by the hour of a TIMESTAMP column, in UTC; tables have no such partitions."""

    types: ClassVar[tuple[str, ...]] = ("TIMESTAMP",)


@dataclass(frozen=True)
class Month(_Period):
    """Partition by the month of a TIMESTAMP or DATE column, as the first day of it, in UTC."""


@dataclass(frozen=True)
class Year(_Period):
    """Partition by the year of a TIMESTAMP or DATE column, as the first day of it, in UTC."""


@dataclass(frozen=True)
class Value:
    """Partition by the values of a column with few distinct values: dates or integers.

    Strings are not supported: they may be too long for the name of a folder, and an empty one is read back as NULL.
    """

    column: str
    types: ClassVar[tuple[str, ...]] = ("DATE", "INT", "BIGINT")

    @property
    def name(self) -> str:
        """Name of the partition column: the declared column itself."""
        return self.column

    @property
    def expression(self) -> str:
        """The value in SQL."""
        return f"`{self.column}`"
