"""The fields of a declaration and the names derived from them; the rules check them before a ``StreamTable`` exists."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Literal, Self

from lakehouse.declaration.delete_conditions import FieldIs, HeaderIs, SchemaIs, Tombstone
from lakehouse.declaration.files import Files
from lakehouse.declaration.fingerprint import column_options, columns_by_type
from lakehouse.declaration.partitions import Day, Month, Value, Year
from lakehouse.declaration.sql import computed_sql
from lakehouse.declaration.start import Start
from lakehouse.declaration.table_names import TableNames
from lakehouse.declaration.topics import TopicPattern, describe_topics
from lakehouse.declaration.vocabulary import Check, Column, Late, Reference, Rollup, Rows, Samples, fingerprint_of
from lakehouse.decoding.deletes import DeleteRule
from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats import Format, Json
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas
from lakehouse.decoding.record_keys import key_parser
from lakehouse.decoding.record_parts import (
    ELEMENT,
    TOPIC,
    TYPED_ENCODINGS,
    UNMAPPED,
    VALUE,
    Element,
    ParentField,
    RecordKey,
    shared_way,
    steps_to_rows,
)
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.unmapped_values import taken_fields

_REQUIRED: Any = None  # the rules refuse it; only a topic may be left out, for topics


@dataclass(frozen=True)
class TableParts(TableNames):
    """The parts of a declaration, checked or not, and the names, columns and fields that are derived from them."""

    name: str
    topic: str = ""
    doc: str = _REQUIRED
    columns: Sequence[Column] = _REQUIRED
    key: Sequence[str] = _REQUIRED
    partition_by: Day | Month | Year | Value | None = None
    version: str | None = None
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
    where: FieldIs | HeaderIs | SchemaIs | None = None
    start: Start | None = None
    rows_from: str | Sequence[str] | None = None
    topics: Sequence[str] | TopicPattern = ()
    source: Files | None = None

    def in_topic(self, name: str) -> Self:
        """Return the declaration for the records of one of its topics: ``topic`` names it.

        All else is the same: the tables, their fingerprint, and the order of their rows.
        """
        view = copy(self)
        object.__setattr__(view, "topic", name)
        return view

    @property
    def topic_text(self) -> str:
        """The topic, the topics or the folder, as a sentence names them."""
        if self.source:
            return f"folder {self.source.folder}"
        return describe_topics(self.topics) if self.topics else f"topic {self.topic}"

    @property
    def reads_topic(self) -> bool:
        """Whether a column is the name of the topic."""
        return any(field.part == TOPIC for field in self.fields)

    @property
    def is_log(self) -> bool:
        """Whether the table has no key, so that each record is a row."""
        return not self.key

    @property
    def has_schemas(self) -> bool:
        """Whether its records, or their keys, are decoded by schemas of a registry."""
        keys = (column.source for column in self.columns if isinstance(column.source, RecordKey))
        return self.format.needs_schemas or any(key.written in TYPED_ENCODINGS for key in keys)

    @property
    def has_changes(self) -> bool:
        """Whether its records are changes of a source, which also delete rows and have an order of their own."""
        return self.format.has_changes

    @property
    def has_sql(self) -> bool:
        """Whether it has columns, checks or measures in SQL, whose types only Spark can check."""
        return bool(self.checks or self.rollups or self.computed)

    @property
    def by_name(self) -> dict[str, Column]:
        """The declared columns by their names."""
        return {column.name: column for column in self.columns}

    @property
    def record_columns(self) -> tuple[Column, ...]:
        """The columns that are read from records: all columns except computed ones."""
        return tuple(column for column in self.columns if column.sql is None)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The rules for the fields of the columns that are read from records."""
        fields = (self._place_field(column) for column in self.record_columns)
        return tuple(field._replace(reads_text=True) if self.format.is_text else field for field in fields)

    def _place_field(self, column: Column) -> Field:
        """The rule for the field of a column; if elements of an array are rows, its path begins in the element."""
        field = column.field
        if self.rows_path is None or field.part != VALUE or isinstance(column.source, Element):
            return field
        if isinstance(column.source, ParentField):
            depth, level = shared_way(field.path, self.rows_path)
            return field._replace(of_parent=True, level=level, path=field.path[depth:], former=field.former[depth:])
        source = f"{'.'.join(self.rows_path)}[].{field.source}"
        former = (ELEMENT, *field.former) if field.former else ()
        return field._replace(source=source, path=(ELEMENT, *field.path), former=former)

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
        types = {column.name: column.type for column in self.record_columns if not column.is_nested}
        return {c.name: computed_sql(c.sql, c.type, types) for c in self.columns if c.sql is not None}

    @property
    def delete_rule(self) -> DeleteRule | None:
        """The rule by which records delete the row of their key; ``None`` if no record deletes a row.

        If records only truncate the table, the rule accepts no value of the field as a delete.
        """
        if self.has_changes:
            return DeleteRule((), (), tuple(self.key))
        names = (*self.key, *([self.version] if self.version else []))
        if isinstance(self.apply_as_deletes, Tombstone):
            return DeleteRule((), (), names)
        if self.apply_as_deletes:
            path = self.apply_as_deletes.path
            is_inner = self.has_elements and not isinstance(self.apply_as_deletes.source, ParentField)
            path = (ELEMENT, *path) if is_inner else path
            return DeleteRule(path, tuple(self.apply_as_deletes.values), names)
        return DeleteRule(self.apply_as_truncates.path, (), names) if self.apply_as_truncates else None

    @property
    def has_truncates(self) -> bool:
        """Whether a record may delete every older row."""
        return self.has_changes or self.apply_as_truncates is not None

    @property
    def truncate_rule(self) -> DeleteRule | None:
        """The rule by which records delete every older row; ``None`` if none does, or if the format says which do."""
        if self.apply_as_truncates is None:
            return None
        names = (self.version,) if self.version else ()
        return DeleteRule(self.apply_as_truncates.path, tuple(self.apply_as_truncates.values), names)

    def rules(self, schemas: Schemas = NO_SCHEMAS) -> Rules:
        """Return the rules by which its records are judged; ``schemas`` are those of their values and keys."""
        lateness = self.late.rule if self.late else None
        where = self.where.record_filter if self.where else None
        fields = self.fields
        taken_parts = taken_fields(fields) if any(field.part == UNMAPPED for field in fields) else None
        rules = Rules(fields, lateness, deletes=self.delete_rule, truncates=self.truncate_rule, where=where)
        rows_from = None if self.rows_path is None else steps_to_rows(self.rows_path)
        rules = rules._replace(taken_fields=taken_parts, rows_from=rows_from)
        rules = rules._replace(key_parser=key_parser(fields, schemas))
        rules = rules._replace(topic=self.topic.encode() if self.reads_topic else None)
        return rules.with_parser(self.format.parser(schemas))

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

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that the declaration uses: its tables, and its steps, checks, jobs and so on in Dagster."""
        return (*self.tables, *self._names_in_dagster)

    @property
    def tables(self) -> tuple[str, ...]:
        """The name of every table that the declaration may create, whether it exists or not."""
        own_names = (self.name, self.base_name, self.rejected_name)
        schemas = (self.schemas_name,) if self.has_schemas else ()
        files = (self.files_name,) if self.source else ()
        deletes = (self.deletes_name,) if self.delete_rule else ()
        return (
            *own_names,
            *deletes,
            *schemas,
            *files,
            *(reference.name for reference in self.references),
            *self.derived,
        )

    @property
    def derived(self) -> tuple[str, ...]:
        """The names of the tables that are derived from the merged one: its change feed, if it has one, and rollups."""
        return (*(() if self.is_log else (self.changes_name,)), *(rollup.name for rollup in self.rollups))

    @property
    def _names_in_dagster(self) -> Iterator[str]:
        """Further names in Dagster, which accepts no name twice, even for different kinds of objects."""
        for suffix in (
            "folder" if self.source else "topic",
            "sensor",
            "alerts",
            "warnings",
            "promises",
            "batch_can_be_planned",
        ):
            yield f"{self.name}_{suffix}"
        for job in ("maintenance", "checks"):
            yield from (f"{self.name}_{job}", f"{self.name}_{job}_daily")
        if self.replay_from:
            yield self.replayed_name
        if not self.is_log:
            yield f"{self.changes_name}_every_change_kept"
        yield from (f"{rollup.name}_rollup_equals_recomputation" for rollup in self.rollups)
        yield from (f"{step}_{self.name}" for step in ("merge", "maintain", "verify"))

    @property
    def fingerprint(self) -> str:
        """A hash of what decides how a record is decoded and merged."""
        late = (self.late,) if self.late else ()
        options: list[object] = [*self.format.fingerprint_parts, *column_options(self.columns)]
        options += [("deletes", self.delete_rule)] if self.delete_rule else []
        options += [("truncates", self.truncate_rule)] if self.truncate_rule else []
        options += [("where", self.where.record_filter)] if self.where else []
        options += [("rows_from", self.rows_path)] if self.has_elements else []
        topics = self.topics if isinstance(self.topics, TopicPattern) else tuple(self.topics)
        options += [("topics", topics)] if topics else []
        options += [self.source.fingerprint_parts] if self.source else []
        topic, columns = "" if topics else self.topic, columns_by_type(self.columns)
        return fingerprint_of(topic, self.format, columns, tuple(self.key), self.version, self.order, *late, *options)
