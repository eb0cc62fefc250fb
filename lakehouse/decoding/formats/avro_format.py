"""Avro: each value is a record, written with the schema whose id precedes it.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
What a worker does not need, such as fastavro, is imported by the methods that use it.
"""

# ruff: noqa: PLC0415 - fastavro is slow to import, and a worker may not have it

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats.avro_nodes import KIND, NamedNodes
from lakehouse.decoding.formats.avro_reader import reader_of
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
from lakehouse.decoding.formats.schema_parser import MemoryCounter, Reader, SchemaParser


@dataclass(frozen=True)
class Avro(Format):
    """Records are Avro, each with the id of its writer's schema in front, as clients of a schema registry write it.

    Columns read fields by name from any schema, so records of several schema versions decode in one batch. Dates, times
    and decimals are read by their logical types: a column of such a type needs neither ``pattern`` nor ``epoch``. Enums
    are texts. A number of 32 bits becomes the shortest decimal number that rounds to it.
    """

    framed = True
    schema_kind = KIND
    needs_schemas = True
    typed = True
    reasons = ("invalid_avro",)

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:
        """Return a parser of records whose ids refer to these schemas."""
        return AvroParser(schemas)

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:
        """Return a writer of lines by a schema."""
        from lakehouse.decoding.formats.avro_writing import line_writer

        if schema is None:
            raise ValueError("writing Avro needs a schema")
        return line_writer(schema_id, schema)

    def declared_schema(self, name: str, fields: Iterable[Field]) -> str:
        """Derive a schema from a declaration: one field for each field that a column reads."""
        from lakehouse.decoding.formats.avro_declared import schema_of_fields

        return schema_of_fields(name, fields)

    def writer_schema(self, registered: RegisteredSchema) -> WriterSchema:
        """Return a schema with all names in full; raises ``UnusableSchemaError`` if no record can be read with it."""
        from lakehouse.decoding.formats.avro_schemas import writer_schema

        if registered.kind != KIND:
            raise UnusableSchemaError(f"it is a schema of {registered.kind}, not of {self.name}")
        return writer_schema(registered.text, registered.references)

    def fingerprint(self, schema: WriterSchema) -> str:
        """A hash of what a schema means; spacing, documentation and defaults do not change it."""
        from lakehouse.decoding.formats.avro_schemas import fingerprint

        return fingerprint(schema)

    def schema_name(self, schema: WriterSchema) -> str:
        """The full name of the record."""
        return str(json.loads(schema.text)["name"])

    def schema_fields(self, schemas: Iterable[WriterSchema], limit: int) -> Mapping[Path, SchemaField]:
        """The fields of records; of several number types, the one that represents the values of all."""
        from lakehouse.decoding.formats.avro_fields import schema_fields

        return schema_fields(schemas, limit)

    def as_json(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """A parsed value with its numbers as decimals, as JSON is parsed."""
        from lakehouse.decoding.formats.schema_types import as_json

        return {name: as_json(value) for name, value in parsed.items()}


class AvroParser(SchemaParser):
    """Parses Avro records by their schemas."""

    def reader_of(self, schema: WriterSchema) -> tuple[Reader, MemoryCounter]:
        """Return the reader of a schema."""
        nodes = NamedNodes()
        return reader_of(schema, nodes), nodes
