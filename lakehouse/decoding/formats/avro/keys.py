"""Avro in the keys of records, which may have any type: they often are one text or one number.

Pure and self-contained (the standard library only), like ``format``.
"""

# ruff: noqa: PLC0415 - as in ``format``

import json
from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse.decoding.formats.avro.format import Avro, AvroParser
from lakehouse.decoding.formats.avro.nodes import NamedNodes
from lakehouse.decoding.formats.avro.reader import reader_of
from lakehouse.decoding.formats.format import NO_SCHEMAS, Path, SchemaField, Schemas, WriterSchema
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.formats.schema_format import SchemaTools
from lakehouse.decoding.formats.schema_parser import MemoryCounter, Reader


@dataclass(frozen=True, repr=False)
class AvroKey(Avro):
    """Avro of any type except bytes, each value with the id of its writer's schema in front."""

    @property
    def name(self) -> str:
        """The name of the format in messages."""
        return Avro.__name__

    @property
    def tools(self) -> SchemaTools:
        """The functions that only the driver needs."""
        from lakehouse.decoding.formats.avro.schemas import writer_schema

        return super().tools._replace(
            writer_schema=lambda registered: writer_schema(registered.text, registered.references, any_type=True)
        )

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:
        """Return a parser of values whose ids refer to these schemas."""
        return AvroKeyParser(schemas)

    def schema_fields(self, schemas: Iterable[WriterSchema], limit: int) -> dict[Path, SchemaField]:
        """The fields of records; of schemas of another type, the value at the empty path."""
        fields = super().schema_fields(map(_around, schemas), limit)
        return {path[1:]: field for path, field in fields.items()}


class AvroKeyParser(AvroParser):
    """Parses Avro of any type."""

    def reader_of(self, schema: WriterSchema) -> tuple[Reader, MemoryCounter]:
        """Return the reader of a schema."""
        nodes = NamedNodes()
        return reader_of(schema, nodes, any_type=True), nodes


def _around(schema: WriterSchema) -> WriterSchema:
    """The schema of a record with a field of this schema."""
    key_field = {"name": "key", "type": json.loads(schema.text)}
    return schema._replace(text=json.dumps({"type": "record", "name": "key", "fields": [key_field]}))
