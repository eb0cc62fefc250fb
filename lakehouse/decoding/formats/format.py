"""The base class of formats, and the schemas that some formats decode by.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.json_parsing import DuplicateNames, JsonOptions, NotFinite
from lakehouse.decoding.record_parts import steps_in

DEFAULT_KIND = "AVRO"
"""The kind of a schema for which a registry gives no kind."""
Path = tuple[str, ...]
"""The names that lead to a field, from the outermost to its own."""


Options = ParamSpec("Options")
Answer = TypeVar("Answer")


class UnusableSchemaError(ValueError):
    """A schema cannot be used to read or write values; the message says why."""


class RegisteredSchema(NamedTuple):
    """A schema as it is stored in a registry.

    ``kind`` is its language, as registries name it: ``AVRO``, ``JSON``, ``PROTOBUF``. ``references`` are the texts of
    the schemas that it refers to. Each reference follows those that it refers to itself. ``named_references`` are the
    same texts, each after a name by which a schema refers to it.
    """

    text: str
    references: tuple[str, ...]
    kind: str
    named_references: tuple[tuple[str, str], ...] = ()


class WriterSchema(NamedTuple):
    """A schema in the form that decodes values, made by its format from the registered schema.

    The table of schemas stores only this form, and workers get only this form. ``references`` are like those of
    ``RegisteredSchema``.
    """

    text: str
    references: tuple[str, ...] = ()
    kind: str = DEFAULT_KIND


class Schemas(NamedTuple):
    """Writers' schemas by id, and for other ids why their schemas cannot be used."""

    by_id: Mapping[int, WriterSchema]
    unusable_reasons: Mapping[int, str]


NO_SCHEMAS = Schemas({}, {})


class SchemaField(NamedTuple):
    """A field as schemas describe it: the type of a column for it, ``None`` if there is none, and if it may be null."""

    type: str | None
    optional: bool


class UnwritableError(ValueError):
    """A line cannot be written in a format; the message says why."""


def of_inner(method: Callable[Options, Answer]) -> Callable[Options, Answer]:
    """Let a format around another one answer as the format inside, unless it has an answer of its own."""

    @wraps(method)
    def answer(*args: Options.args, **options: Options.kwargs) -> Answer:
        form, *values = args
        inner = getattr(form, "written", None)
        if inner is None:
            return method(*args, **options)
        attribute = getattr(inner, method.__name__)
        inner_answer: Answer = attribute(*values, **options) if callable(attribute) else attribute
        return inner_answer

    return answer


class Format(ABC):
    """How the values of a table's records are written.

    ``framed``: the id of a schema precedes each value, as clients of a schema registry write it. ``schema_kind``: how
    registries name the schemas of the format. ``needs_schemas``: values are decoded by the schemas of a registry, so
    the format is framed and has a kind. ``typed``: values have types of their own, so a time needs no pattern.
    ``may_be_arrays``: records may be arrays, of which each element is a row. ``is_text``: every value in a record is a
    text, from which columns of other types read it. ``has_whole_numbers``: every value is one. ``written``: the format
    inside of a format around it. ``narrows_json``: its values are those of JSON that have a certain form.
    ``describes_decimals``: each record says how its decimals are written.
    ``names_records``: the schemas of values have names, by which ``where`` may choose records. ``has_changes``: records
    are changes of a source, which also delete rows and have an order of their own. ``documents``: a delete has no
    row, only the key of its record. ``accepted_snapshot``: the position of a snapshot that may be smaller than those of
    changes before it. ``not_finite``: whether NaN and infinities in
    JSON reject a record or are null. ``duplicate_names``: whether equal names in one object of JSON reject a record, or
    which of their values counts. ``in_base64``: the path to texts that hold JSON in base64. ``encoding``: that of the
    text of a value. ``reasons``: the reasons of its parser to reject values, in addition to those that all formats
    share.

    A subclass is a frozen dataclass. It must define how values are parsed and written; the rest is optional for a
    format without schemas. Spark's workers get the class by value, with its module. Modules that it imports must exist
    on the workers, so methods themselves import what only the driver needs.
    """

    framed: bool = False
    schema_kind: str | None = None
    needs_schemas: bool = False
    typed: bool = False
    is_text: bool = False
    has_whole_numbers: bool = False
    narrows_json: bool = False
    describes_decimals: bool = False
    names_records: bool = False
    may_be_arrays: bool = False
    written: "Format | None" = None
    has_changes: bool = False
    documents: bool = False
    accepted_snapshot: int | None = None
    not_finite: NotFinite = "reject"
    duplicate_names: DuplicateNames = "reject"
    in_base64: str | Sequence[str] = ()
    encoding: str = "utf-8"
    reasons: tuple[str, ...] = ()

    @abstractmethod
    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:
        """Return a parser of values; ``schemas`` are those that their ids refer to, if the format needs schemas."""

    @abstractmethod
    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:
        """Return a function that converts a line, which is a JSON object, to a value.

        A framed format adds ``schema_id`` in front; one that needs schemas writes by ``schema``. The function raises
        ``UnwritableError`` if a line cannot be written.
        """

    @property
    def name(self) -> str:
        """The name of the format in messages."""
        return type(self).__name__

    @property
    def json_options(self) -> JsonOptions:
        """What is read although JSON does not have it, or does not say what it means."""
        path = (self.in_base64,) if isinstance(self.in_base64, str) else tuple(self.in_base64)
        return JsonOptions(self.not_finite, self.duplicate_names, steps_in(path) or None)

    @property
    def declared_as(self) -> str:
        """The expression for the format in a declaration file; empty for the default format."""
        return repr(self)

    @property
    @of_inner
    def has_bytes(self) -> bool:
        """Whether values may be bytes, which a BINARY column reads as they are."""
        return self.typed

    @property
    @of_inner
    def field_names(self) -> Sequence[str] | None:
        """The names of the fields that records have; ``None`` if the format does not say which."""
        return None

    @property
    @of_inner
    def fingerprint_parts(self) -> tuple[str, ...]:
        """What determines how records are decoded, but is not in the ``repr`` of the format."""
        return ()

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with the options of the format, and what to do."""
        return iter(())

    def notes(self, values: Sequence[bytes]) -> Iterator[str]:  # noqa: ARG002 - most formats show in every value
        """Yield why the format was recognised in some values, and what is left to a person."""
        return iter(())

    def may_read(self, value: bytes) -> bool:
        """Whether a value may be one of the format, with the same framing; bytes alone do not always show it."""
        return bool(value)

    @of_inner
    def declared_schema(self, name: str, fields: Iterable[Field]) -> str:  # noqa: ARG002 - for formats that have one
        """The text of a schema for records with these fields, to register for a topic that has no schema.

        Raises ``UnusableSchemaError`` if no schema can describe the fields.
        """
        raise UnusableSchemaError(f"{name} has no schema: the format of its records uses no schemas")

    @of_inner
    def writer_schema(self, registered: RegisteredSchema) -> WriterSchema:
        """Return a schema in the form that decodes values; raises ``UnusableSchemaError`` if it cannot be used."""
        raise UnusableSchemaError(f"it is a schema of {registered.kind}, but {self.name} uses no schemas")

    @of_inner
    def can_use(self, schema: WriterSchema) -> bool:
        """Whether a schema in the form that decodes values would be accepted today."""
        try:
            self.writer_schema(RegisteredSchema(schema.text, schema.references, schema.kind))
        except UnusableSchemaError:
            return False
        return True

    def is_made_from(self, schema: WriterSchema, registered: RegisteredSchema) -> bool:  # noqa: ARG002
        """Whether a schema certainly means what a registered one does, without making its form again."""
        return False

    def with_header(self, rows: Sequence[bytes]) -> "Format | None":  # noqa: ARG002 - of formats whose files have one
        """The format with the names in the first row of a file; ``None`` if that row may be data."""
        return None

    def with_text_numbers(self) -> "Format":
        """The format for records that write numbers as texts; itself if it has no such option."""
        return self

    def with_null_numbers(self) -> "Format":
        """The format for records with NaN or infinities, which are null; itself if it has no such option."""
        return self

    def with_encoding(self, encoding: str) -> "Format":  # noqa: ARG002 - of formats with this option
        """The format for records in another encoding; itself if it has no such option."""
        return self

    def with_checks(self) -> "Format":
        """The format that also checks records by their schemas; itself if it has no such option."""
        return self

    def for_schemas(self, schemas: Schemas) -> "Format":  # noqa: ARG002 - for formats whose schemas give types
        """The format with the options that records of these schemas need; itself if it has no such options."""
        return self

    @of_inner
    def connector_settings(self, fields: Iterable[Field]) -> dict[str, str]:  # noqa: ARG002 - for change streams
        """The settings that the program which writes the records needs for these fields; empty if there are none."""
        return {}

    def byte_names(self, value: bytes | None) -> frozenset[str]:  # noqa: ARG002 - for records that carry their schema
        """The names of the fields of a row that hold bytes in Base64, as far as a record shows it."""
        return frozenset()

    @of_inner
    def may_use(self, schema: WriterSchema) -> bool:  # noqa: ARG002 - for formats that are written in another one
        """Whether a schema may be one of the format, with the same kind; its text does not always show it."""
        return True

    @of_inner
    def fingerprint(self, schema: WriterSchema) -> str:
        """A hash of what a schema means: schemas with the same hash decode every value to the same result."""
        return hashlib.sha256(repr((schema.kind, *schema.references, schema.text)).encode()).hexdigest()

    @of_inner
    def schema_name(self, schema: WriterSchema) -> str:
        """The name that a schema gives its records."""
        return schema.kind

    def used_schemas(self, values: Iterable[bytes | None], schemas: Schemas) -> Sequence[WriterSchema]:  # noqa: ARG002
        """The schemas of the types of records that values have, the newest first; by default all ``schemas``."""
        return [schemas.by_id[schema_id] for schema_id in sorted(schemas.by_id, reverse=True)]

    def schema_fields(
        self,
        schemas: Iterable[WriterSchema],  # noqa: ARG002 - for formats whose schemas give types
        limit: int,  # noqa: ARG002
    ) -> Mapping[Path, SchemaField] | None:
        """The fields that schemas describe, at most ``limit`` of each; ``None`` if the format's schemas have no types.

        If schemas differ, the first one counts.
        """
        return None

    @of_inner
    def as_json(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """A parsed value with its numbers as decimals, exactly as written, as JSON is parsed."""
        return parsed


def show_options(form: Any) -> str:
    """The call that creates a format, with the options that differ from their defaults."""
    options = {option.name: (getattr(form, option.name), option.default) for option in fields(form) if option.init}
    texts = [f"{name}={_show(value)}" for name, (value, default) in options.items() if value != default]
    return f"{type(form).__name__}({', '.join(texts)})"


def quote(text: str) -> str:
    """A Python string literal, in double quotes if that needs no escapes."""
    literal = repr(text)
    can_double = literal[0] == "'" and '"' not in literal and "\\'" not in literal
    return f'"{literal[1:-1]}"' if can_double else literal


def _show(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    return f"[{', '.join(map(_show, value))}]" if isinstance(value, tuple) else repr(value)
