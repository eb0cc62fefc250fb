"""Avro: each value is a record, written with the schema whose id precedes it.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
What a worker does not need, such as fastavro, is imported by the methods that use it.
"""

# ruff: noqa: PLC0415 - fastavro is slow to import, and a worker may not have it

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats.avro_nodes import KIND, NamedNodes
from lakehouse.decoding.formats.avro_reader import Reader, reader_of
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
from lakehouse.decoding.formats.framing import FRAME_SIZE, split_frame


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
        from lakehouse.decoding.formats.avro_fields import as_json

        return {name: as_json(value) for name, value in parsed.items()}


class AvroParser(Parser):
    """Parses records by their schemas; the reader of a schema is made when the first record refers to it.

    ``parsed_memory`` is the memory in bytes of the record that was parsed last; 0 if it was rejected.
    """

    memory_by_byte = 100  # typical: if values take more, fewer records are decoded together
    smallest_item = 1
    parsed_memory = 0

    def __init__(self, schemas: Schemas) -> None:
        self._readers: dict[int, tuple[Reader, NamedNodes]] = {}
        self._schemas, self._unusable = schemas.by_id, dict(schemas.unusable_reasons)

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse the value of a record, with the id of its schema in front."""
        self.parsed_memory = 0
        schema_id, data = split_frame(value)
        read, nodes = self._readers.get(schema_id) or self._make_reader(schema_id)
        parsed = read(data, FRAME_SIZE)
        self.parsed_memory = nodes.memory
        return parsed

    def memory_of(self, value: bytes | None) -> int:  # noqa: ARG002 - it is counted while a value is parsed
        """Memory in bytes of the record that was parsed last; 0 if it was rejected."""
        return self.parsed_memory

    def _make_reader(self, schema_id: int) -> tuple[Reader, NamedNodes]:
        if schema_id in self._schemas and schema_id not in self._unusable:
            nodes = NamedNodes()
            try:
                return self._readers.setdefault(schema_id, (reader_of(self._schemas[schema_id], nodes), nodes))
            except Rejection as rejection:
                self._unusable[schema_id] = rejection.detail
        if schema_id in self._unusable:
            raise Rejection("unusable_schema", f"schema {schema_id}: {self._unusable[schema_id]}")
        raise Rejection("unknown_schema", f"schema {schema_id} is not known")
