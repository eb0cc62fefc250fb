"""Avro: each value is a record by the schema whose id precedes it.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
What a worker does not need, fastavro among it, is imported by the methods that ask for it.
"""

# ruff: noqa: PLC0415 - fastavro is slow to import, and a worker may lack it

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats.avro_nodes import KIND, Named
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
from lakehouse.decoding.formats.framing import FRAME_SIZE, unframed


@dataclass(frozen=True)
class Avro(Format):
    """Records are Avro; before each stands the id of its writer's schema in a registry, as its clients write it.

    Columns take fields by their names, whichever schema a record was written with: several versions decode right in
    one batch. Days, moments and decimals are what their logical types say, so a column of such a type needs neither
    ``pattern`` nor ``epoch``; enums are texts, and a number of 32 bits is the shortest that means it.
    """

    framed = True
    schema_kind = KIND
    needs_schemas = True
    typed = True
    reasons = ("invalid_avro",)

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:
        """Return what parses records by the schemas that their ids name."""
        return AvroParser(schemas)

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:
        """Return what writes a line by a schema."""
        from lakehouse.decoding.formats.avro_writing import line_writer

        if schema is None:
            raise ValueError("Avro is written by a schema")
        return line_writer(schema_id, schema)

    def declared_schema(self, name: str, fields: Iterable[Field]) -> str:
        """A schema that follows from a declaration: a field for each column that takes one, optional where that is."""
        from lakehouse.decoding.formats.avro_declared import schema_of_fields

        return schema_of_fields(name, fields)

    def writer_schema(self, registered: RegisteredSchema) -> WriterSchema:
        """Return a schema with every name in full; ``UnusableSchemaError`` if no record can be read by it."""
        from lakehouse.decoding.formats.avro_schemas import writer_schema

        if registered.kind != KIND:
            raise UnusableSchemaError(f"it is a schema of {registered.kind}, not of {self.name}")
        return writer_schema(registered.text, registered.references)

    def fingerprint(self, schema: WriterSchema) -> str:
        """A hash of what a schema means: the same for texts that differ in spacing, or in what they say to people."""
        from lakehouse.decoding.formats.avro_schemas import fingerprint

        return fingerprint(schema)

    def schema_name(self, schema: WriterSchema) -> str:
        """The name of the record, in full."""
        return str(json.loads(schema.text)["name"])

    def schema_fields(self, schemas: Iterable[WriterSchema], most: int) -> Mapping[Path, SchemaField]:
        """The fields of records; of numbers of several types, the type that holds those of all."""
        from lakehouse.decoding.formats.avro_fields import schema_fields

        return schema_fields(schemas, most)

    def as_json(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """What was parsed, with its numbers as they are written."""
        from lakehouse.decoding.formats.avro_fields import as_json

        return {name: as_json(value) for name, value in parsed.items()}


class AvroParser(Parser):
    """Parses by schemas; a reader is made of one when the first record names it: most of many are never met.

    ``made`` are the bytes of memory that the newest record became; of one that is rejected, none.
    """

    memory_by_byte = 100  # mostly: where it is more, fewer records are decoded together
    smallest_item = 1
    made = 0

    def __init__(self, schemas: Schemas) -> None:
        self._readers: dict[int, tuple[Reader, Named]] = {}
        self._known, self._unusable = schemas.known, dict(schemas.unusable)

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse the value of a record, the id of its schema before it."""
        self.made = 0
        schema_id, written = unframed(value)
        read, named = self._readers.get(schema_id) or self._reader(schema_id)
        parsed = read(written, FRAME_SIZE)
        self.made = named.made
        return parsed

    def memory_of(self, value: bytes | None) -> int:  # noqa: ARG002 - it is counted as a value is parsed
        """Bytes of memory that the newest record became; of one that is rejected, none."""
        return self.made

    def _reader(self, schema_id: int) -> tuple[Reader, Named]:
        if schema_id in self._known and schema_id not in self._unusable:
            named = Named()
            try:
                return self._readers.setdefault(schema_id, (reader_of(self._known[schema_id], named), named))
            except Rejection as rejection:
                self._unusable[schema_id] = rejection.detail
        if schema_id in self._unusable:
            raise Rejection("unusable_schema", f"schema {schema_id}: {self._unusable[schema_id]}")
        raise Rejection("unknown_schema", f"schema {schema_id} is not known")
