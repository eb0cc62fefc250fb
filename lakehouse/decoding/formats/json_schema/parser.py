"""Parse JSON objects, and check each by the schema whose id precedes it.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from copy import copy
from typing import Any

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import Schemas, UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.json_schema.schemas import record_check
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.formats.schema_parser import MemoryCounter, Reader, SchemaParser
from lakehouse.decoding.json_parsing import JsonOptions
from lakehouse.decoding.memory import JSON_MEMORY_PER_BYTE, json_memory
from lakehouse.decoding.record_parts import ELEMENT
from lakehouse.decoding.records import parse, parse_array


class CheckedJsonParser(SchemaParser):
    """Parses JSON objects that meet the schemas that their ids name."""

    memory_by_byte = JSON_MEMORY_PER_BYTE
    smallest_item = 2
    memory = 0  # ``memory_of`` estimates it
    _parse = staticmethod(parse)

    def __init__(self, schemas: Schemas, json_options: JsonOptions) -> None:
        super().__init__(schemas)
        self.json_options = json_options

    def reader_of(self, schema: WriterSchema) -> tuple[Reader, MemoryCounter]:
        """Return a function that parses and checks values."""
        try:
            check = record_check(schema).check
        except UnusableSchemaError as error:
            raise Rejection("unusable_schema", str(error)) from None
        parse_value, options, is_array = self._parse, self.json_options, self._parse is parse_array

        def read(data: bytes, start: int) -> dict[str, Any]:
            parsed = parse_value(data[start:], options)
            check(parsed[ELEMENT] if is_array else parsed, len(data))
            return parsed

        return read, self

    def of_arrays(self) -> Parser:
        """Return the parser for records that are arrays."""
        parser = copy(self)
        parser._parse = parse_array
        parser._readers = {}
        return parser

    def name_in(self, schema: WriterSchema, data: bytes, start: int) -> str:  # noqa: ARG002 - records have no names
        """The kind of the schema: it gives its records no name."""
        return schema.kind

    def memory_of(self, value: bytes | None) -> int:
        """Memory in bytes of a parsed value at most; the parts of a long value are counted."""
        return json_memory(value or b"")
