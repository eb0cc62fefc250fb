"""Protobuf: each value is a message, written with the schema whose id precedes it.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
What a worker does not need, such as the parser of schemas, is imported by the methods that use it.
"""

# ruff: noqa: PLC0415 - a worker does not need these modules

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats.format import (
    NO_SCHEMAS,
    Format,
    Parser,
    Path,
    RegisteredSchema,
    SchemaField,
    Schemas,
    UnusableSchemaError,
    WriterSchema,
)
from lakehouse.decoding.formats.framing import FRAME_SIZE
from lakehouse.decoding.formats.protobuf_nodes import KIND, ReadState
from lakehouse.decoding.formats.protobuf_reader import read_indexes, reader_of
from lakehouse.decoding.formats.schema_parser import MemoryCounter, Reader, SchemaParser


@dataclass(frozen=True)
class Protobuf(Format):
    """Records are Protobuf, each with the id of its writer's schema and the place of its message in front.

    That is how clients of a schema registry write it. Columns read fields by name from any schema, so records of
    several schema versions decode in one batch. Timestamps need neither ``pattern`` nor ``epoch``. Enums are texts. A
    field without presence that a record does not have is its default, such as 0. Any other absent field is missing.
    """

    framed = True
    schema_kind = KIND
    needs_schemas = True
    typed = True
    reasons = ("invalid_protobuf",)

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:
        """Return a parser of records whose ids refer to these schemas."""
        return ProtobufParser(schemas)

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:
        """Return a writer of lines as the first message of a schema."""
        from lakehouse.decoding.formats.protobuf_writing import line_writer

        if schema is None:
            raise ValueError("writing Protobuf needs a schema")
        return line_writer(schema_id, schema)

    def may_read(self, value: bytes) -> bool:
        """Whether a value has the place of a message after its frame; its schema shows the rest."""
        try:
            read_indexes(value, FRAME_SIZE)
        except (IndexError, Rejection):
            return False
        return True

    def declared_schema(self, name: str, fields: Iterable[Field]) -> str:
        """Derive a schema from a declaration: one field for each field that a column reads."""
        from lakehouse.decoding.formats.protobuf_declared import schema_of_fields

        return schema_of_fields(name, fields)

    def writer_schema(self, registered: RegisteredSchema) -> WriterSchema:
        """Return a schema in its compiled form; raises ``UnusableSchemaError`` if no record can be read with it."""
        from lakehouse.decoding.formats.protobuf_schemas import writer_schema

        if registered.kind != KIND:
            raise UnusableSchemaError(f"it is a schema of {registered.kind}, not of {self.name}")
        return writer_schema(registered.text, registered.references)

    def can_use(self, schema: WriterSchema) -> bool:
        """Whether records can be read with a compiled schema."""
        try:
            reader_of(schema)
        except Rejection:
            return False
        return True

    def schema_name(self, schema: WriterSchema) -> str:
        """The full name of the first message."""
        return str(json.loads(schema.text)["roots"][0][0])

    def used_schemas(self, values: Iterable[bytes | None], schemas: Schemas) -> Sequence[WriterSchema]:
        """For each schema and each message that records have: the schema with that message as its only one."""
        from lakehouse.decoding.formats.protobuf_fields import used_schemas

        return used_schemas(values, schemas)

    def schema_fields(self, schemas: Iterable[WriterSchema], limit: int) -> Mapping[Path, SchemaField]:
        """The fields of the first message; of several number types, the one that represents the values of all."""
        from lakehouse.decoding.formats.protobuf_fields import schema_fields

        return schema_fields(schemas, limit)

    def as_json(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """A parsed value with its numbers as decimals, as JSON is parsed."""
        from lakehouse.decoding.formats.schema_types import as_json

        return {name: as_json(value) for name, value in parsed.items()}


class ProtobufParser(SchemaParser):
    """Parses Protobuf records by their schemas."""

    def reader_of(self, schema: WriterSchema) -> tuple[Reader, MemoryCounter]:
        """Return the reader of a schema."""
        state = ReadState()
        return reader_of(schema, state), state
