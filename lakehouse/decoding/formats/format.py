"""What every format answers, and the schemas by which some of them decode.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Field
from lakehouse.decoding.memory import JSON_BYTE

DEFAULT_KIND = "AVRO"
"""The kind of a schema of which a registry names none."""
Path = tuple[str, ...]
"""The names that lead to a field, each within the one before it."""


class UnusableSchemaError(ValueError):
    """No value can be read or written by a schema; the text says why."""


class RegisteredSchema(NamedTuple):
    """A schema as a registry holds it.

    ``kind`` is its language, as registries call it: ``AVRO``, ``JSON``, ``PROTOBUF``. ``references`` are the texts of
    the schemas that it refers to, each after those that it refers to itself.
    """

    text: str
    references: tuple[str, ...]
    kind: str


class WriterSchema(NamedTuple):
    """A schema in the form by which values are decoded, which its format made of the one that is registered.

    It is all that the table of schemas keeps of it, and all that a worker gets. ``references`` are as those of
    ``RegisteredSchema``.
    """

    text: str
    references: tuple[str, ...] = ()
    kind: str = DEFAULT_KIND


class Schemas(NamedTuple):
    """Writers' schemas by their ids: those that are known, and why others cannot be used."""

    known: Mapping[int, WriterSchema]
    unusable: Mapping[int, str]


NO_SCHEMAS = Schemas({}, {})


class SchemaField(NamedTuple):
    """What schemas say of a field: the type of a column that takes it, ``None`` if none does, and if it may be null."""

    type: str | None
    optional: bool


class Parser(ABC):
    """Parses the values of records, and knows how much memory that takes.

    What is parsed holds what JSON does, numbers as ``Decimal`` or as Python's, if they are finite; of a typed format
    also bytes, days and moments.

    ``memory_by_byte`` are bytes of memory that one byte of a value becomes, for all but rare values. ``smallest_item``
    are the bytes of a value that one item of an array or a map takes at least. ``is_json`` says that each value is an
    object of JSON and nothing else: a faster parser may read it first.
    """

    memory_by_byte: int = JSON_BYTE
    smallest_item: int = 1
    is_json: bool = False

    @abstractmethod
    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one value into its fields; ``Rejection`` if it is no value of the format."""

    def memory_of(self, value: bytes | None) -> int:
        """Bytes of memory that a value takes at most, once parsed; it is asked right after the value was."""
        return len(value or b"") * self.memory_by_byte


class UnwritableError(ValueError):
    """Why a line has no value in a format."""


class Format(ABC):
    """How the values of a table's records are written: what the rest of the program asks of a format.

    ``framed``: the id of a schema precedes each value, as clients of a schema registry write it. ``schema_kind``: what
    registries call the schemas of the format. ``needs_schemas``: values are decoded by the schemas of a registry, so
    the format is framed and has a kind. ``typed``: values have types of their own, so that a time needs no pattern.
    ``reasons``: why its parser rejects values, beyond the reasons that all formats share.

    A subclass is a frozen dataclass. It has to say how its values are parsed and written; of a format without schemas
    all else follows. A worker of Spark gets the class by value, with its module: what else that imports a worker has to
    have, so what only the driver needs, its methods import themselves.
    """

    framed: bool = False
    schema_kind: str | None = None
    needs_schemas: bool = False
    typed: bool = False
    reasons: tuple[str, ...] = ()

    @abstractmethod
    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:
        """Return what parses values, by the ``schemas`` that their ids name if the format needs them."""

    @abstractmethod
    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:
        """Return what turns a line, which is an object of JSON, into a value.

        A framed format puts ``schema_id`` before it; one that needs schemas writes by ``schema``. What is returned
        raises ``UnwritableError`` if a line cannot be written.
        """

    @property
    def name(self) -> str:
        """What the format is called in a message."""
        return type(self).__name__

    @property
    def declared_as(self) -> str:
        """How a declaration file writes the format; empty if it is what a table has that names none."""
        return repr(self)

    @property
    def fingerprint_parts(self) -> tuple[str, ...]:
        """What of the format its ``repr`` leaves out, and decides how records are decoded."""
        return ()

    def may_read(self, value: bytes) -> bool:
        """Whether a value, framed as the format is, may be one of the format: bytes alone do not always tell."""
        return bool(value)

    def declared_schema(self, name: str, fields: Iterable[Field]) -> str:  # noqa: ARG002 - for formats that have one
        """The text of a schema for records of these fields, to be registered for a topic that has none.

        Raises ``UnusableSchemaError`` if no schema has such fields.
        """
        raise UnusableSchemaError(f"{name} has no schema: its records name none")

    def writer_schema(self, registered: RegisteredSchema) -> WriterSchema:
        """Return a schema in the form by which values are decoded; ``UnusableSchemaError`` if it is of no use."""
        raise UnusableSchemaError(f"it is a schema of {registered.kind}, and {self.name} needs none")

    def fingerprint(self, schema: WriterSchema) -> str:
        """A hash of what a schema means: two of the same hash decode every value alike."""
        return hashlib.sha256(repr((schema.kind, *schema.references, schema.text)).encode()).hexdigest()

    def schema_name(self, schema: WriterSchema) -> str:
        """What a schema calls its records."""
        return schema.kind

    def schema_fields(
        self,
        schemas: Iterable[WriterSchema],  # noqa: ARG002 - for formats whose schemas give types
        most: int,  # noqa: ARG002
    ) -> Mapping[Path, SchemaField] | None:
        """The fields that schemas describe, at most so many of each; ``None`` if the format's schemas give no types.

        If they differ, the first counts.
        """
        return None

    def as_json(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """What was parsed, with its numbers as JSON is parsed: decimals, exactly as written."""
        return parsed
