"""The parser of formats whose values are decoded by schemas.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import struct
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import Schemas, WriterSchema
from lakehouse.decoding.formats.framing import REGISTRY_FRAMING, Framing
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.memory import MemoryCounter

Reader = Callable[[bytes, int], dict[str, Any]]
"""Read the record that begins at a position and ends with the bytes."""


class SchemaParser(Parser):
    """Parses records by their schemas; the reader of a schema is made when the first record refers to it.

    ``parsed_memory`` is the memory in bytes of the record that was parsed last; 0 if it was rejected.
    """

    memory_by_byte = 100  # typical: if values take more, fewer records are decoded together
    smallest_item = 1
    parsed_memory = 0

    def __init__(self, schemas: Schemas, framing: Framing = REGISTRY_FRAMING) -> None:
        self._framing, self._split, self._start = framing, framing.split, framing.size
        self._readers: dict[int, tuple[Reader, MemoryCounter]] = {}
        self._schemas, self._unusable = schemas.by_id, dict(schemas.unusable_reasons)

    @abstractmethod
    def reader_of(self, schema: WriterSchema) -> tuple[Reader, MemoryCounter]:
        """Return the reader of a schema; raises ``Rejection`` if no record can be read with it."""

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse the value of a record, with what says which schema wrote it in front."""
        self.parsed_memory = 0
        schema_id, data = self._split(value)
        read, counter = self._readers.get(schema_id) or self._add_reader(schema_id)
        parsed = read(data, self._start)
        self.parsed_memory = counter.memory
        return parsed

    @abstractmethod
    def name_in(self, schema: WriterSchema, data: bytes, start: int) -> str:
        """The full name of the record that begins at a position."""

    def schema_name(self, value: bytes) -> str:
        """The full name of the record of a value, by the schema that its beginning names."""
        schema_id, data = self._split(value)
        if schema_id not in self._readers:
            self._add_reader(schema_id)
        try:
            return self.name_in(self._schemas[schema_id], data, self._start)
        except (IndexError, struct.error):
            raise Rejection("truncated", f"the record ends after {len(data)} bytes, within a value") from None

    def memory_of(self, value: bytes | None) -> int:  # noqa: ARG002 - it is counted while a value is parsed
        """Memory in bytes of the record that was parsed last; 0 if it was rejected."""
        return self.parsed_memory

    def _add_reader(self, schema_id: int) -> tuple[Reader, MemoryCounter]:
        if schema_id in self._schemas and schema_id not in self._unusable:
            try:
                return self._readers.setdefault(schema_id, self.reader_of(self._schemas[schema_id]))
            except Rejection as rejection:
                self._unusable[schema_id] = rejection.detail
        if schema_id in self._unusable:
            raise Rejection("unusable_schema", f"schema {schema_id}: {self._unusable[schema_id]}")
        raise Rejection("unknown_schema", self._framing.describe_unknown(schema_id))
