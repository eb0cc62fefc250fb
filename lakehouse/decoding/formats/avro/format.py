"""Avro: each value is a record, written with the schema whose id precedes it, or with one of the declaration.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
What a worker does not need, such as fastavro, is imported by the methods that use it.
"""

# ruff: noqa: PLC0415 - fastavro is slow to import, and a worker may not have it

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path as FilePath

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.avro.bytes import read_long
from lakehouse.decoding.formats.avro.fields import record_names
from lakehouse.decoding.formats.avro.nodes import KIND, NamedNodes
from lakehouse.decoding.formats.avro.own_schemas import OwnSchemas, own_schema_problems, read_own_schemas
from lakehouse.decoding.formats.avro.reader import reader_of
from lakehouse.decoding.formats.format import NO_SCHEMAS, Format, Path, SchemaField, Schemas, WriterSchema
from lakehouse.decoding.formats.framing import REGISTRY_FRAMING, Framing
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.formats.schema_parser import Reader, SchemaParser
from lakehouse.decoding.formats.schema_types import SchemaFormat, SchemaTools
from lakehouse.decoding.memory import MemoryCounter


@dataclass(frozen=True)
class Avro(SchemaFormat):
    """Records are Avro, each with the id of its writer's schema in front, as clients of a schema registry write it.

    Columns read fields by name from any schema, so records of several schema versions decode in one batch. Dates, times
    and decimals are read by their logical types: a column of such a type needs neither ``pattern`` nor ``epoch``. Enums
    are texts. A number of 32 bits becomes the shortest decimal number that rounds to it.

    With ``schema``, the text of a schema or its file, records have nothing in front: each is one value of it. With
    ``schemas``, they are in single-object encoding: the fingerprint in front chooses one of these texts. No registry is
    used then. ``named_branches``: a value of a union of several types is an object with one field, which is named after
    the branch that was written; without it, the value is that of the branch.
    """

    schema: str | FilePath | None = None
    schemas: Sequence[str | FilePath] | None = None
    named_branches: bool = False
    own_schemas: OwnSchemas | None = field(init=False, repr=False, compare=False)
    framed: bool = field(init=False, repr=False, compare=False)
    needs_schemas: bool = field(init=False, repr=False, compare=False)
    schema_kind = KIND
    reasons = ("invalid_avro",)

    def __post_init__(self) -> None:
        """Read the declared schemas; without any, the schemas come from a registry."""
        is_list = self.schemas is None or isinstance(self.schemas, list | tuple)
        own_schemas = read_own_schemas(self.schema, self.schemas if is_list else ())
        for name, value in {
            "schemas": tuple(self.schemas) if self.schemas is not None and is_list else self.schemas,
            "own_schemas": own_schemas,
            "framed": own_schemas is None,
            "needs_schemas": own_schemas is None,
        }.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Return the options that are set, with a hash of what each schema means in place of its text."""
        meanings = sorted(meaning[:16] for meaning in self.own_schemas.meanings) if self.own_schemas else []
        options = [f"schema={', '.join(meanings)}"] if self.schema is not None else []
        options += [f"schemas=[{', '.join(meanings)}]"] if self.schemas is not None else []
        options += ["named_branches=True"] if self.named_branches else []
        return f"Avro({', '.join(options)})"

    @property
    def tools(self) -> SchemaTools:
        """The functions that only the driver needs."""
        from lakehouse.decoding.formats.avro.declared import schema_of_fields
        from lakehouse.decoding.formats.avro.fields import schema_fields
        from lakehouse.decoding.formats.avro.schemas import writer_schema
        from lakehouse.decoding.formats.avro.writing import line_writer

        write = partial(line_writer, named_branches=self.named_branches)
        return SchemaTools(
            write,
            schema_of_fields,
            lambda registered: writer_schema(registered.text, registered.references),
            partial(schema_fields, named_branches=self.named_branches),
        )

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with the declared schemas."""
        yield from own_schema_problems(self.schema, self.schemas, self.own_schemas)

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:
        """Return a parser of records whose ids refer to these schemas, or to the declared ones."""
        if self.own_schemas:
            return AvroParser(self.own_schemas.schemas, self.own_schemas.framing, named_branches=self.named_branches)
        return AvroParser(schemas, named_branches=self.named_branches)

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:
        """Return a writer of lines by a schema; by the last of the declared ones if there are any."""
        if not self.own_schemas:
            return super().writer(schema_id, schema)
        from lakehouse.decoding.formats.avro.writing import body_writer

        own_id, own_schema = self.own_schemas.newest
        write, add = (
            body_writer(own_schema, "the schema", named_branches=self.named_branches),
            self.own_schemas.framing.add,
        )
        return lambda line: add(own_id, write(line))

    def fingerprint(self, schema: WriterSchema) -> str:
        """A hash of what a schema means; spacing, documentation and defaults do not change it."""
        from lakehouse.decoding.formats.avro.schemas import fingerprint

        return fingerprint(schema)

    def schema_name(self, schema: WriterSchema) -> str:
        """The full name of the record; of a union of records, their names."""
        return " or ".join(record_names(schema))

    def for_schemas(self, schemas: Schemas) -> Format:
        """The format with named branches, if a union in the schemas has types that no column reads all."""
        from lakehouse.decoding.formats.avro.fields import has_several_types

        return replace(self, named_branches=True) if any(map(has_several_types, schemas.by_id.values())) else self


class AvroParser(SchemaParser):
    """Parses Avro records by their schemas."""

    def __init__(self, schemas: Schemas, framing: Framing = REGISTRY_FRAMING, *, named_branches: bool = False) -> None:
        super().__init__(schemas, framing)
        self._named_branches = named_branches
        self._names: dict[str, list[str]] = {}

    def name_in(self, schema: WriterSchema, data: bytes, start: int) -> str:
        """The full name of the record that begins at a position: that of the schema, or of the branch of a union."""
        if schema.text not in self._names:
            self._names[schema.text] = record_names(schema)
        names = self._names[schema.text]
        branch = read_long(data, start)[0] if len(names) > 1 else 0
        if not 0 <= branch < len(names):
            raise Rejection("invalid_avro", f"branch {branch} of a union of {len(names)}")
        return names[branch]

    def reader_of(self, schema: WriterSchema) -> tuple[Reader, MemoryCounter]:
        """Return the reader of a schema."""
        nodes = NamedNodes(has_named_branches=self._named_branches)
        return reader_of(schema, nodes), nodes


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
