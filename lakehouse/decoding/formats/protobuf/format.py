"""Protobuf: each value is a message, written with the schema whose id precedes it, or with that of the declaration.

It runs on the driver and, shipped by value, on Spark's executors. What a worker does not need, such as the compiler of
schemas, is imported by the methods that use it.
"""

# ruff: noqa: PLC0415 - a worker does not need these modules

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import NO_SCHEMAS, RegisteredSchema, Schemas, WriterSchema
from lakehouse.decoding.formats.framing import FRAME_SIZE, NO_FRAMING, REGISTRY_FRAMING
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.formats.protobuf.compiled import (
    KIND,
    OwnSchema,
    load_schema,
    read_indexes,
    root_name,
    split_text,
)
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

    With ``schema``, a file or the text of one, records have nothing in front: each is one ``message`` of it, by its
    full name; by default the first one. The files that it imports are in the folder ``imports``, by default that of the
    file. No registry is used then.
    """

    schema: str | Path | None = None
    message: str | None = None
    imports: str | Path | None = None
    own_schema: OwnSchema | None = field(init=False, repr=False, compare=False)
    framed: bool = field(init=False, repr=False, compare=False)
    needs_schemas: bool = field(init=False, repr=False, compare=False)
    schema_kind = KIND
    reasons = ("invalid_protobuf",)

    def __post_init__(self) -> None:
        """Compile the declared schema; without one, the schemas come from a registry."""
        own_schema = None
        if self.schema is not None:
            from lakehouse.decoding.formats.protobuf.schemas import read_own_schema

            own_schema = read_own_schema(self.schema, self.message, self.imports)
        is_registered = own_schema is None
        for name, value in {"own_schema": own_schema, "framed": is_registered, "needs_schemas": is_registered}.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Return the format, with a hash of what its schema means in place of the schema."""
        own = self.own_schema
        return "Protobuf()" if own is None else f"Protobuf(schema={own.meaning[:16]}, message={self.message!r})"

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with the declared schema."""
        if self.own_schema and self.own_schema.error:
            action = "Name a file, or write its text; message= is the full name of a message in it, such as a.B."
            yield f"the schema of Protobuf cannot be used: {self.own_schema.error}", action
        if self.schema is None and (self.message or self.imports):
            yield "Protobuf has message or imports without schema", "Add schema=, or remove them."

    @property
    def tools(self) -> SchemaTools:
        """The functions that only the driver needs."""
        from lakehouse.decoding.formats.protobuf.columns import schema_fields, schema_of_fields
        from lakehouse.decoding.formats.protobuf.schemas import writer_schema
        from lakehouse.decoding.formats.protobuf.writing import line_writer

        return SchemaTools(line_writer, schema_of_fields, writer_schema, schema_fields)

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:
        """Return a parser of records whose ids refer to these schemas, or of the declared one."""
        if self.own_schema is None:
            return ProtobufParser(schemas)
        own_schemas = {0: self.own_schema.schema} if self.own_schema.schema else {}
        return ProtobufParser(Schemas(own_schemas, {}), is_own=True)

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:
        """Return a writer of lines by a schema; by the declared one if there is one."""
        if self.own_schema is None or self.own_schema.schema is None:
            return super().writer(schema_id, schema)
        from lakehouse.decoding.formats.protobuf.schemas import write_message

        return partial(write_message, self.own_schema.schema)

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

    def __init__(self, schemas: Schemas, *, is_own: bool = False) -> None:
        super().__init__(schemas, NO_FRAMING if is_own else REGISTRY_FRAMING)
        self._roots: dict[str, Sequence[Any]] = {}
        self._is_own = is_own

    def name_in(self, schema: WriterSchema, data: bytes, start: int) -> str:
        """The full name of the message that begins at a position, by its place in the file."""
        if self._is_own:
            return split_text(schema)[0]
        if schema.text not in self._roots:
            self._roots[schema.text] = load_schema(schema).roots
        indexes, _ = read_indexes(data, start)
        return root_name(self._roots[schema.text], indexes)

    def reader_of(self, schema: WriterSchema) -> tuple[Reader, MemoryCounter]:
        """Return the reader of a schema."""
        state = MemoryCounter()
        return reader_of(schema, state, is_own=self._is_own), state
