"""The options of a declaration, and the columns that they describe, checked or not."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Literal, Self

from lakehouse.declaration.conditions import Condition, FieldIs, Reject, Tombstone
from lakehouse.declaration.partitions import Day, Month, Value, Year
from lakehouse.declaration.references import Reference
from lakehouse.declaration.sql import NO_PLACES, computed_sql
from lakehouse.declaration.table_inputs import Files, Generated, Start, TableRows, TopicPattern, describe_topics
from lakehouse.declaration.table_names import TableNames
from lakehouse.declaration.vocabulary import Check, Column, Late, Rollup, Rows, Samples, Version, VersionNulls
from lakehouse.decoding.formats import Format, Json
from lakehouse.decoding.record_parts import ELEMENT
from lakehouse.decoding.staged import UNKNOWN

_NIGHTLY = timedelta(days=1)
_REQUIRED: Any = None  # the rules refuse it; only a topic may be left out, for topics


@dataclass(frozen=True)
class TableOptions(TableNames):
    """The options of a table as somebody wrote them, with their defaults, and what its columns are for."""

    name: str
    topic: str = ""
    doc: str = _REQUIRED
    columns: Sequence[Column] = _REQUIRED
    key: Sequence[str] = _REQUIRED
    partition_by: Day | Month | Year | Value | None = None
    version: str | Version | None = None
    order: Literal["timestamp", "offset"] = "timestamp"
    late: Late | None = None
    gaps: Literal["stop", "accept"] = "stop"
    max_records: int = 500_000
    retention: timedelta = timedelta(days=7)
    format: Format = field(default_factory=Json)
    partitions: int = 3
    owner: str = "team:lakehouse"
    base: Rows | None = None
    references: Sequence[Reference] = ()
    rollups: Sequence[Rollup] = ()
    checks: Sequence[Check] = ()
    samples: Samples | None = None
    file: str = field(default="", compare=False)
    cluster_by: Sequence[str] = ()
    replay_from: date | None = None
    fresh: timedelta | None = None
    max_lag: int | None = None
    apply_as_deletes: Tombstone | FieldIs | None = None
    apply_as_truncates: FieldIs | None = None
    purge_deletes: timedelta | None = None
    where: Condition | Sequence[Condition] | None = None
    start: Start | None = None
    rows_from: str | Sequence[str] | None = None
    topics: Sequence[str] | TopicPattern = ()
    source: Files | TableRows | Generated | None = None
    rejects: Sequence[Reject] = ()
    maintain_every: timedelta = _NIGHTLY
    single_object: bool = False
    may_forget: bool = False

    def in_topic(self, name: str) -> Self:
        """Return the declaration for the records of one of its topics: ``topic`` names it.

        All else is the same: the tables, their fingerprint, and the order of their rows.
        """
        view = copy(self)
        object.__setattr__(view, "topic", name)
        return view

    @property
    def place_text(self) -> str:
        """The one source whose records this declaration is for, as an error names it."""
        return f"topic {self.topic}" if self.topic else self.topic_text

    @property
    def topic_text(self) -> str:
        """The topic, the topics or the folder, as a sentence names them."""
        if self.source:
            return self.source.text
        return describe_topics(self.topics) if self.topics else f"topic {self.topic}"

    @property
    def position_noun(self) -> str:
        """What is counted in what it reads."""
        return self.source.position_noun if self.source else "offset"

    @property
    def has_changes(self) -> bool:
        """Whether its records are changes of a source, which also delete rows and have an order of their own."""
        return self.format.has_changes

    @property
    def has_sql(self) -> bool:
        """Whether it has columns, checks, measures or rules in SQL, whose types only Spark can check."""
        return bool(self.checks or self.rollups or self.computed or self.rejects)

    @property
    def version_column(self) -> str | None:
        """The name of the column that is the version; ``None`` if the table has none."""
        return self.version.column if isinstance(self.version, Version) else self.version

    @property
    def version_nulls(self) -> VersionNulls:
        """What a record is whose version is NULL."""
        nulls = self.version.nulls if isinstance(self.version, Version) else None
        return nulls or "oldest"

    @property
    def has_decimals(self) -> bool:
        """Whether a column that is read from records is a decimal or contains one, and so may round."""
        return any("DECIMAL" in column.type for column in self.record_columns)

    @property
    def by_name(self) -> dict[str, Column]:
        """The declared columns by their names."""
        return {column.name: column for column in self.columns}

    @property
    def record_columns(self) -> tuple[Column, ...]:
        """The columns that are read from records: all columns except computed ones."""
        return tuple(column for column in self.columns if column.sql is None)

    @property
    def has_elements(self) -> bool:
        """Whether the elements of an array in a record are rows, so that a record has any number of rows."""
        return self.rows_from is not None

    @property
    def rows_path(self) -> tuple[str, ...] | None:
        """The names that lead to the array whose elements are rows; ``None`` if each record is one row."""
        if self.rows_from is None:
            return None
        return (self.rows_from,) if isinstance(self.rows_from, str) else tuple(self.rows_from) or (ELEMENT,)

    @property
    def computed(self) -> dict[str, str]:
        """The SQL of each computed column by name, over columns read from records; no record can make it fail."""
        return self._computed_from(NO_PLACES)

    def _computed_from(self, places: Mapping[str, str]) -> dict[str, str]:
        types = {column.name: column.type for column in self.record_columns if not column.is_nested}
        return {c.name: computed_sql(c.sql, c.type, types, places) for c in self.columns if c.sql is not None}

    def reject_conditions(self, row: str = "") -> list[str]:
        """The SQL of each rule of ``rejects``: whether it rejects a row, or NULL. No record can make it fail.

        ``row`` is the name of a struct with the columns of the row, if they are not columns themselves.
        """
        return [
            self.condition_of(rule, row) or f"{row and f'{row}.'}{UNKNOWN}{number}"
            for number, rule in enumerate(self.rejects)
        ]

    def condition_of(self, rule: Reject, row: str = "") -> str:
        """The SQL of the condition of one rule, like ``reject_conditions``; empty if it has none."""
        if rule.when is None:
            return ""
        columns = [column for column in self.columns if not column.is_nested]
        places = {column.name: f"{row and f'{row}.'}`{column.name}`" for column in columns}
        places |= self._computed_from(places)
        return computed_sql(rule.when, "BOOLEAN", {column.name: column.type for column in columns}, places)

    @property
    def keep(self) -> tuple[str, ...]:
        """The kept columns."""
        return tuple(column.name for column in self.columns if column.keep)

    @property
    def null_erases(self) -> tuple[str, ...]:
        """The kept columns whose stored value a null replaces."""
        return tuple(column.name for column in self.columns if column.null_erases)

    @property
    def values(self) -> tuple[str, ...]:
        """The declared columns that are not part of the key."""
        return tuple(column.name for column in self.columns if column.name not in self.key)

    @property
    def partition_column(self) -> Column | None:
        """The partition column, if it is not a declared column."""
        if self.partition_by is None or isinstance(self.partition_by, Value):
            return None
        return Column(self.partition_by.name, "DATE", self.partition_by.doc)

    @property
    def stored_columns(self) -> tuple[Column, ...]:
        """The columns of a row: the declared ones, and the partition column."""
        return (*self.columns, *([self.partition_column] if self.partition_column else []))
