"""The options of a declaration, the columns that they describe and the names that follow, checked or not."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Self

from lakehouse.declaration.columns import Column, Computed
from lakehouse.declaration.conditions import Condition, Deletes, FieldIs, Reject
from lakehouse.declaration.samples import Rows, Samples
from lakehouse.declaration.sources import (
    Files,
    Generated,
    Order,
    Start,
    TableRows,
    TableSource,
    Topic,
    TopicPattern,
    Topics,
)
from lakehouse.declaration.sql import NO_PLACES, computed_sql, named_columns
from lakehouse.declaration.vocabulary import (
    Check,
    Day,
    Explode,
    Late,
    Month,
    Promise,
    Reference,
    Rollup,
    Upkeep,
    Value,
    Version,
    VersionNulls,
    Year,
)
from lakehouse.decoding.formats import Format, Json
from lakehouse.decoding.record_parts import ELEMENT
from lakehouse.decoding.staged import UNKNOWN

_REQUIRED: Any = None  # the rules refuse it; only a topic may be left out, for a source


@dataclass(frozen=True)
class TableOptions:
    """The options of a table as somebody wrote them, with their defaults, and what its columns are for."""

    name: str
    topic: str = ""
    doc: str = _REQUIRED
    columns: Sequence[Column | Computed] = _REQUIRED
    key: Sequence[str] = _REQUIRED
    partition_by: Day | Month | Year | Value | None = None
    version: str | Version | None = None
    late: Late | None = None
    max_records: int = 500_000
    format: Format = field(default_factory=Json)
    owner: str = "team:lakehouse"
    base: Rows | None = None
    references: Sequence[Reference] = ()
    rollups: Sequence[Rollup] = ()
    checks: Sequence[Check] = ()
    samples: Samples | None = None
    file: str = field(default="", compare=False)
    where: Condition | Sequence[Condition] | None = None
    deletes: Deletes = field(default_factory=Deletes)
    rows_from: str | Sequence[str] | Explode | None = None
    source: TableSource | None = None
    rejects: Sequence[Reject] = ()
    promise: Promise = field(default_factory=Promise)
    upkeep: Upkeep = field(default_factory=Upkeep)

    def in_topic(self, name: str) -> Self:
        """Return the declaration for the records of one of its topics: ``topic`` names it.

        All else is the same: the tables, their fingerprint, and the order of their rows.
        """
        view = copy(self)
        object.__setattr__(view, "topic", name)
        return view

    @property
    def has_topics(self) -> bool:
        """Whether its records come from topics of a broker."""
        return not isinstance(self.source, Files | TableRows | Generated)

    @property
    def topics(self) -> Sequence[str] | TopicPattern:
        """The topics of a table that reads several, or the pattern of their names; empty for any other table."""
        if isinstance(self.source, TopicPattern):
            return self.source
        return self.source.names if isinstance(self.source, Topics) else ()

    @property
    def place_text(self) -> str:
        """The one source whose records this declaration is for, as an error names it."""
        return f"topic {self.topic}" if self.topic else self.topic_text

    @property
    def topic_text(self) -> str:
        """The topic, the topics or the folder, as a sentence names them."""
        return (self.source or Topic(self.topic)).text

    @property
    def position_noun(self) -> str:
        """What is counted in what it reads."""
        return (self.source or Topic).position_noun

    @property
    def source_suffix(self) -> str:
        """The end of the name of the asset that represents what it reads."""
        return (self.source or Topic).asset_suffix

    @property
    def reads_files(self) -> bool:
        """Whether its records come from files."""
        return isinstance(self.source, Files)

    @property
    def start(self) -> Start | None:
        """Where a new table begins in its topics; ``None`` if at their first records."""
        return self.topic_options.start

    @property
    def order(self) -> Order:
        """What decides first which record is newer, if there is no version."""
        return (
            "timestamp" if self.source is None or isinstance(self.source, Topics | TopicPattern) else self.source.order
        )

    @property
    def topic_options(self) -> Topic | Topics | TopicPattern:
        """The options of its topics; their defaults if it reads no topic."""
        return self.source if isinstance(self.source, Topic | Topics | TopicPattern) else Topic(self.topic)

    @property
    def has_changes(self) -> bool:
        """Whether its records are changes of a source, which also delete rows and have an order of their own."""
        return self.format.has_changes

    @property
    def has_sql(self) -> bool:
        """Whether it has columns, checks, measures or rules in SQL, whose types only Spark can check."""
        return bool(self.checks or self.rollups or self.computed or self.rejects)

    @property
    def named_versions(self) -> tuple[str, ...]:
        """The names of the columns that are declared as the version, the one that decides first in front."""
        names = self.version.column if isinstance(self.version, Version) else self.version
        return () if names is None else (names,) if isinstance(names, str) else tuple(names)

    @property
    def version_columns(self) -> tuple[str, ...]:
        """Those of them that decide: all records of a key have the same values of its columns."""
        return tuple(name for name in self.named_versions if name not in self.key)

    @property
    def version_sources(self) -> tuple[str, ...]:
        """The names of the columns of records that the version follows from."""
        computed = {column.name: named_columns(column.sql) for column in self.computed_columns}
        names = {source for name in self.version_columns for source in computed.get(name, {name})}
        return tuple(column.name for column in self.record_columns if column.name in names)

    @property
    def version_text(self) -> str | None:
        """The version as messages and stored tables name it, with the SQL of computed parts; ``None`` without one."""
        sql = {column.name: f" ({column.sql})" for column in self.computed_columns}
        return ", ".join(f"{name}{sql.get(name, '')}" for name in self.version_columns) or None

    @property
    def version_nulls(self) -> VersionNulls:
        """What a record is whose version is NULL."""
        nulls = self.version.nulls if isinstance(self.version, Version) else None
        return nulls or "oldest"

    @property
    def by_name(self) -> dict[str, Column | Computed]:
        """The declared columns by their names."""
        return {column.name: column for column in self.columns}

    @property
    def record_columns(self) -> tuple[Column, ...]:
        """The columns that are read from records: all columns except computed ones."""
        return tuple(column for column in self.columns if isinstance(column, Column))

    @property
    def computed_columns(self) -> tuple[Computed, ...]:
        """The columns that SQL computes."""
        return tuple(column for column in self.columns if isinstance(column, Computed))

    @property
    def has_elements(self) -> bool:
        """Whether the elements of an array in a record are rows, so that a record has any number of rows."""
        return self.rows_from is not None

    @property
    def rows_path(self) -> tuple[str, ...] | None:
        """The names that lead to the array whose elements are rows; ``None`` if each record is one row."""
        path = self.rows_from.path if isinstance(self.rows_from, Explode) else self.rows_from
        if path is None:
            return None
        return (path,) if isinstance(path, str) else tuple(path) or (ELEMENT,)

    @property
    def single_object(self) -> bool:
        """Whether an object in the place of the array is its only element."""
        return isinstance(self.rows_from, Explode) and self.rows_from.single_object

    @property
    def element_conditions(self) -> tuple[FieldIs, ...]:
        """The conditions that an element must meet to be a row."""
        return self.rows_from.conditions if isinstance(self.rows_from, Explode) else ()

    @property
    def computed(self) -> dict[str, str]:
        """The SQL of each computed column by name, over columns read from records; no record can make it fail."""
        return self._computed_from(NO_PLACES)

    def _computed_from(self, places: Mapping[str, str]) -> dict[str, str]:
        types = {column.name: column.type for column in self.record_columns if not column.is_nested}
        return {c.name: computed_sql(c.sql, c.type, types, places) for c in self.computed_columns}

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
        return tuple(column.name for column in self.record_columns if column.keep)

    @property
    def null_erases(self) -> tuple[str, ...]:
        """The kept columns whose stored value a null replaces."""
        return tuple(column.name for column in self.record_columns if column.null_erases)

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
    def stored_columns(self) -> tuple[Column | Computed, ...]:
        """The columns of a row: the declared ones, and the partition column."""
        return (*self.columns, *([self.partition_column] if self.partition_column else []))

    @property
    def is_log(self) -> bool:
        """Whether the table has no key, so that each record is a row."""
        return not self.key

    @property
    def base_name(self) -> str:
        """Name of the table that holds the base rows."""
        return f"{self.name}_base"

    @property
    def rejected_name(self) -> str:
        """Name of the table that holds the rejected records."""
        return f"{self.name}_rejected"

    @property
    def deletes_name(self) -> str:
        """Name of the table that holds the newest delete of each key."""
        return f"{self.name}_deletes"

    @property
    def erased_name(self) -> str:
        """Name of the table that holds the marks of erased keys."""
        return f"{self.name}_erased"

    @property
    def schemas_name(self) -> str:
        """Name of the table that stores the schemas by which records were decoded."""
        return f"{self.name}_schemas"

    @property
    def files_name(self) -> str:
        """Name of the table that holds the numbers of files, if the records come from files."""
        return f"{self.name}_files"

    @property
    def changes_name(self) -> str:
        """Name of the change feed."""
        return f"{self.name}_changes"

    @property
    def replayed_name(self) -> str:
        """Name of the asset whose partitions are days to replay; it has no table."""
        return f"{self.name}_replayed"

    @property
    def maintenance_schedule(self) -> str:
        """Name of the schedule in Dagster that requests maintenance."""
        return f"{self.name}_maintenance_{'daily' if self.upkeep.every == timedelta(days=1) else 'schedule'}"

    @property
    def derived(self) -> tuple[str, ...]:
        """The names of the tables that are derived from the merged one: its change feed, if it has one, and rollups."""
        return (*(() if self.is_log else (self.changes_name,)), *(rollup.name for rollup in self.rollups))

    @property
    def _names_in_dagster(self) -> Iterator[str]:
        """Further names in Dagster, which accepts no name twice, even for different kinds of objects."""
        suffixes = ("sensor", "alerts", "warnings", "promises", "batch_can_be_planned", "nothing_held_back")
        yield from (f"{self.name}_{suffix}" for suffix in (self.source_suffix, *suffixes))
        yield from (f"{self.name}_maintenance", self.maintenance_schedule)
        yield from (f"{self.name}_checks", f"{self.name}_checks_daily", f"{self.name}_registered")
        if self.topic_options.replay_from:
            yield self.replayed_name
        if not self.is_log:
            yield f"{self.changes_name}_every_change_kept"
        yield from (f"{rollup.name}_rollup_equals_recomputation" for rollup in self.rollups)
        yield from (f"{step}_{self.name}" for step in ("merge", "maintain", "verify"))
