"""What follows from the options of a declaration; the rules check them before a ``StreamTable`` exists."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

from lakehouse.declaration.columns import Column, Computed
from lakehouse.declaration.conditions import Condition, Tombstone
from lakehouse.declaration.sources import Files, Generated, TableRows, TopicPattern
from lakehouse.declaration.table_options import TableOptions
from lakehouse.declaration.vocabulary import fingerprint_of
from lakehouse.decoding.deletes import DeleteRule
from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas
from lakehouse.decoding.nested_types import as_spark_says
from lakehouse.decoding.record_filter import RecordFilter
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


class _ColumnText(str):
    """A text that is its own representation."""

    __repr__ = str.__str__


def _column_text(column: Column | Computed) -> _ColumnText:
    """The options that every column has in the fingerprint; a nested type is as Spark writes it."""
    options: dict[str, object] = {
        "name": column.name,
        "type": as_spark_says(column.type) if column.is_nested else column.type,
    }
    read = column if isinstance(column, Column) else Column(column.name, column.type, column.doc)
    options |= {name: getattr(read, name) for name in ("doc", "required", "between", "source")}
    options |= {"pattern": read.time.pattern, "keep": read.keep}
    return _ColumnText(f"Column({', '.join(f'{name}={value!r}' for name, value in options.items())})")


def _column_options(columns: Sequence[Column]) -> Iterator[object]:
    """Yield the options of columns that their representation does not contain."""
    yield from ((c.name, c.field.place.former) for c in columns if c.formerly is not None)
    yield from ((c.name, "null", tuple(c.null_values)) for c in columns if c.null_values)
    yield from ((c.name, "null_erases") for c in columns if c.null_erases)
    yield from ((c.name, "invalid", c.invalid) for c in columns if c.invalid is not None)
    yield from ((c.name, "rounding", c.rounding) for c in columns if c.rounding is not None)
    yield from ((c.name, "zone", *astuple(c.field.form.zone)) for c in columns if c.field.form.zone)
    yield from ((c.name, "written", c.form) for c in columns if c.form is not None)


@dataclass(frozen=True)
class TableParts(TableOptions):
    """A declaration, checked or not: the fields and rules by which records are judged, and the names that it uses."""

    @property
    def reads_topic(self) -> bool:
        """Whether a column is the name of the topic."""
        return any(field.place.part == TOPIC for field in self.fields)

    @property
    def has_schemas(self) -> bool:
        """Whether its records, or their keys, are decoded by schemas of a registry."""
        keys = (column.source for column in self.record_columns if isinstance(column.source, RecordKey))
        return self.format.needs_schemas or any(key.written in TYPED_ENCODINGS for key in keys)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The rules for the fields of the columns that are read from records."""
        fields = (self._place_field(column) for column in self.record_columns)
        is_text = self.format.is_text
        if self.version_nulls == "reject":
            fields = (f.when_required() if f.name in self.version_columns else f for f in fields)
        return tuple(
            field.in_texts(is_text=field.place.cut is not None or (is_text and not _is_in_json(field)))
            for field in fields
        )

    def _place_field(self, column: Column) -> Field:
        """The rule for the field of a column; if elements of an array are rows, its path begins in the element."""
        field, place = column.field, column.field.place
        if self.rows_path is None or place.part != VALUE or isinstance(column.source, Element):
            return field
        if isinstance(column.source, ParentField):
            depth, level = shared_way(place.path, self.rows_path)
            path, former = place.path[depth:], place.former[depth:]
            return field._replace(place=place._replace(of_parent=True, level=level, path=path, former=former))
        source = f"{'.'.join(self.rows_path)}[].{place.source}"
        former = (ELEMENT, *place.former) if place.former else ()
        depth = place.whole_depth and place.whole_depth + 1
        place = place._replace(source=source, path=(ELEMENT, *place.path), former=former, whole_depth=depth)
        return field._replace(place=place)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions that a record must meet to belong to the table: all of them."""
        if self.where is None:
            return ()
        return tuple(self.where) if isinstance(self.where, Sequence) else (self.where,)

    @property
    def all_conditions(self) -> tuple[tuple[str, Condition | Tombstone | None], ...]:
        """Every condition on a record, after the option that has it."""
        effects = (("deletes: when", self.deletes.when), ("deletes: truncates", self.deletes.truncates))
        element_conditions = (("rows_from: where", condition) for condition in self.element_conditions)
        return (*effects, *(("where", condition) for condition in self.conditions), *element_conditions)

    @property
    def filters(self) -> tuple[RecordFilter, ...]:
        """The rules by which records, and elements of them, belong to the table."""
        filters = (condition.record_filter for condition in self.element_conditions)
        element_filters = (rule._replace(path=(ELEMENT, *rule.path)) for rule in filters)
        return (*(condition.record_filter for condition in self.conditions), *element_filters)

    @property
    def delete_rule(self) -> DeleteRule | None:
        """The rule by which records delete the row of their key; ``None`` if no record deletes a row.

        If records only truncate the table, the rule accepts no value of the field as a delete.
        """
        if self.has_changes:
            return DeleteRule((), (), tuple(self.key))
        names = (*self.key, *self.version_sources)
        when, truncates = self.deletes.when, self.deletes.truncates
        if isinstance(when, Tombstone):
            return DeleteRule((), (), names)
        if when:
            is_inner = self.has_elements and not isinstance(when.source, ParentField)
            path = (ELEMENT, *when.path) if is_inner else when.path
            return DeleteRule(path, tuple(when.values), names)
        return DeleteRule(truncates.path, (), names) if truncates else None

    @property
    def has_truncates(self) -> bool:
        """Whether a record may delete every older row."""
        return self.has_changes or self.deletes.truncates is not None

    @property
    def truncate_rule(self) -> DeleteRule | None:
        """The rule by which records delete every older row; ``None`` if none does, or if the format says which do."""
        if self.deletes.truncates is None:
            return None
        return DeleteRule(self.deletes.truncates.path, tuple(self.deletes.truncates.values), self.version_sources)

    def rules(self, schemas: Schemas = NO_SCHEMAS) -> Rules:
        """Return the rules by which its records are judged; ``schemas`` are those of their values and keys."""
        lateness = self.late.rule._replace(keeps_row=bool(self.rejects)) if self.late else None
        fields = self.fields
        taken_parts = taken_fields(fields) if any(field.place.part == UNMAPPED for field in fields) else None
        rules = Rules(fields, lateness, deletes=self.delete_rule, truncates=self.truncate_rule, where=self.filters)
        rows_from = None if self.rows_path is None else steps_to_rows(self.rows_path)
        rules = rules._replace(taken_fields=taken_parts, rows_from=rows_from, single_object=self.single_object)
        rules = rules._replace(key=tuple(self.key))
        rules = rules._replace(key_parser=key_parser(fields, schemas))
        rules = rules._replace(topic=self.topic.encode() if self.reads_topic else None)
        return rules.with_parser(self.format.parser(schemas))

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that the declaration uses: its tables, and its steps, checks, jobs and so on in Dagster."""
        return (*self.tables, *self._names_in_dagster)

    @property
    def tables(self) -> tuple[str, ...]:
        """The name of every table that the declaration may create, whether it exists or not."""
        own_names = (self.name, self.base_name, self.rejected_name, self.erased_name)
        schemas = (self.schemas_name,) if self.has_schemas else ()
        files = (self.files_name,) if self.reads_files else ()
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
    def fingerprint(self) -> str:
        """A hash of what decides how a record is decoded and merged."""
        late = (self.late,) if self.late else ()
        columns = self.record_columns
        options: list[object] = [*self.format.fingerprint_parts]
        options += [(c.name, c.time.epoch, c.default) for c in columns if (c.time.epoch, c.default) != (None, None)]
        options += [*((c.name, c.sql) for c in self.computed_columns), *_column_options(columns)]
        options += [("deletes", self.delete_rule)] if self.delete_rule else []
        options += [("truncates", self.truncate_rule)] if self.truncate_rule else []
        options += [("where", *self.filters)] if self.filters else []
        options += [("rows_from", self.rows_path)] if self.has_elements else []
        options += ["single_object"] if self.single_object else []
        options += [] if self.version_nulls == "oldest" else [("version", self.version_nulls)]
        topics = self.topics if isinstance(self.topics, TopicPattern) else tuple(self.topics)
        options += [("topics", topics)] if topics else []
        options += [self.source.fingerprint_parts] if isinstance(self.source, Files | TableRows | Generated) else []
        options += [("rejects", rule.reason, rule.when, rule.unknown, *rule.by) for rule in self.rejects]
        texts = tuple(map(_column_text, self.columns))
        topic = "" if topics else self.topic
        version = self.named_versions if len(self.named_versions) > 1 else next(iter(self.named_versions), None)
        return fingerprint_of(topic, self.format, texts, tuple(self.key), version, self.order, *late, *options)


def _is_in_json(field: Field) -> bool:
    """Whether a field of CSV or logfmt is read from embedded JSON, which has values of all kinds."""
    return field.place.part == VALUE and (len(field.place.names) > 1 or bool(field.inner))
