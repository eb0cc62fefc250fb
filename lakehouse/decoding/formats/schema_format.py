"""What the formats have in common whose schemas give types: Avro and Protobuf.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats.format import (
    Format,
    Path,
    RegisteredSchema,
    SchemaField,
    UnusableSchemaError,
    WriterSchema,
)


class SchemaTools(NamedTuple):
    """The functions of a format that only the driver needs; each is described by the method that calls it."""

    line_writer: Callable[[int, WriterSchema], Callable[[bytes], bytes]]
    schema_of_fields: Callable[[str, Iterable[Field]], str]
    writer_schema: Callable[[RegisteredSchema], WriterSchema]
    schema_fields: Callable[[Iterable[WriterSchema], int], Mapping[Path, SchemaField]]


class SchemaFormat(Format):
    """A format whose values are decoded by schemas, which give the fields and their types."""

    typed = True
    names_records = True

    @property
    @abstractmethod
    def tools(self) -> SchemaTools:
        """The functions that only the driver needs; their modules are imported when they are asked for."""

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:
        """Return a writer of lines by a schema; of several types in it, the first one."""
        if schema is None:
            raise ValueError(f"writing {self.name} needs a schema")
        return self.tools.line_writer(schema_id, schema)

    def declared_schema(self, name: str, fields: Iterable[Field]) -> str:
        """Derive a schema from a declaration: one field for each field that a column reads."""
        return self.tools.schema_of_fields(name, fields)

    def writer_schema(self, registered: RegisteredSchema) -> WriterSchema:
        """Return a schema in the form that decodes values; raises ``UnusableSchemaError`` if none can be read."""
        if registered.kind != self.schema_kind:
            raise UnusableSchemaError(f"it is a schema of {registered.kind}, not of {self.name}")
        return self.tools.writer_schema(registered)

    def schema_fields(self, schemas: Iterable[WriterSchema], limit: int) -> Mapping[Path, SchemaField]:
        """The fields of records; of several number types, the one that represents the values of all."""
        return self.tools.schema_fields(schemas, limit)

    def as_json(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """A parsed value with its numbers as decimals, as JSON is parsed."""
        from lakehouse.decoding.formats.schema_types import as_json  # noqa: PLC0415 - a worker does not need it

        return {name: as_json(value) for name, value in parsed.items()}
