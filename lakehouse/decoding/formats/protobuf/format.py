"""Protobuf: each value is a message, written with the schema whose id precedes it.

It runs on the driver and, shipped by value, on Spark's executors. What a worker does not need, such as the compiler of
schemas, is imported by the methods that use it.
"""

# ruff: noqa: PLC0415 - a worker does not need these modules

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import NO_SCHEMAS, RegisteredSchema, Schemas, WriterSchema
from lakehouse.decoding.formats.framing import FRAME_SIZE
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.formats.protobuf.compiled import KIND, load_schema, read_indexes, root_name, split_text
from lakehouse.decoding.formats.protobuf.reader import reader_of
from lakehouse.decoding.formats.schema_parser import Reader, SchemaParser
from lakehouse.decoding.formats.schema_types import SchemaFormat, SchemaTools
from lakehouse.decoding.memory import MemoryCounter


@dataclass(frozen=True)
class Protobuf(SchemaFormat):
    """Records are Protobuf, each with the id of its writer's schema and the place of its message in front.

    That is how clients of a schema registry write it. Columns read fields by name from any schema, so records of
    several schema versions decode in one batch. Timestamps need neither ``pattern`` nor ``epoch``. Enums are texts. A
    field without presence that a record does not have is its default, such as 0. Any other absent field is missing.
    """

    framed = True
    schema_kind = KIND
    needs_schemas = True
    reasons = ("invalid_protobuf",)

    @property
    def tools(self) -> SchemaTools:
        """The functions that only the driver needs."""
        from lakehouse.decoding.formats.protobuf.columns import schema_fields, schema_of_fields
        from lakehouse.decoding.formats.protobuf.schemas import writer_schema
        from lakehouse.decoding.formats.protobuf.writing import line_writer

        return SchemaTools(line_writer, schema_of_fields, writer_schema, schema_fields)

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:
        """Return a parser of records whose ids refer to these schemas."""
        return ProtobufParser(schemas)

    def may_read(self, value: bytes) -> bool:
        """Whether a value has the place of a message after its frame; its schema shows the rest."""
        try:
            read_indexes(value, FRAME_SIZE)
        except (IndexError, Rejection):
            return False
        return True

    def can_use(self, schema: WriterSchema) -> bool:
        """Whether records can be read with a compiled schema."""
        try:
            reader_of(schema)
        except Rejection:
            return False
        return True

    def schema_name(self, schema: WriterSchema) -> str:
        """The full name of the first message."""
        return split_text(schema)[0]

    def fingerprint(self, schema: WriterSchema) -> str:
        """A hash of what a schema means; formatting, options and the order of fields do not change it."""
        from lakehouse.decoding.formats.protobuf.schemas import fingerprint

        return fingerprint(schema)

    def is_made_from(self, schema: WriterSchema, registered: RegisteredSchema) -> bool:
        """Whether a schema was compiled from this text, with the same references."""
        from lakehouse.decoding.formats.protobuf.schemas import is_made_from

        return is_made_from(schema, registered)

    def used_schemas(self, values: Iterable[bytes | None], schemas: Schemas) -> Sequence[WriterSchema]:
        """For each schema and each message that records have: the schema with that message as its only one."""
        from lakehouse.decoding.formats.protobuf.columns import used_schemas

        return used_schemas(values, schemas)


class ProtobufParser(SchemaParser):
    """Parses Protobuf records by their schemas."""

    def __init__(self, schemas: Schemas) -> None:
        super().__init__(schemas)
        self._roots: dict[str, Sequence[Any]] = {}

    def name_in(self, schema: WriterSchema, data: bytes, start: int) -> str:
        """The full name of the message that begins at a position, by its place in the file."""
        if schema.text not in self._roots:
            self._roots[schema.text] = load_schema(schema).roots
        indexes, _ = read_indexes(data, start)
        return root_name(self._roots[schema.text], indexes)

    def reader_of(self, schema: WriterSchema) -> tuple[Reader, MemoryCounter]:
        """Return the reader of a schema."""
        state = MemoryCounter()
        return reader_of(schema, state), state
