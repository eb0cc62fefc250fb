"""Whole numbers as bytes: each value is one number of 8 or 4 bytes, as serializers of Kafka write longs and integers.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import NO_SCHEMAS, Format, Schemas, UnwritableError, WriterSchema, show_options
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.records import parse, require_value

_FIELD = "value"
_MEMORY = 400  # bytes of a number and of its entry in a dict
_SIGNS = (b"\x00" * 5, b"\xff" * 5)  # the first bytes of numbers near zero; no schema has the id 0


@dataclass(frozen=True)
class BigEndian(Format):
    """Each value is one signed whole number of ``size`` bytes, the greatest byte first. Its only field is ``value``."""

    size: int = 8
    has_whole_numbers = True
    __repr__ = show_options

    @property
    def field_names(self) -> Sequence[str]:
        """The number."""
        return (_FIELD,)

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with the size."""
        if self.size not in (4, 8) or isinstance(self.size, bool):
            yield f"size of BigEndian is {self.size!r}", "Declare 8 for a long, or 4 for an integer."

    def may_read(self, value: bytes) -> bool:
        """Whether a value is a number near zero."""
        return len(value) == self.size and value[:5] in _SIGNS

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:  # noqa: ARG002 - numbers have no schemas
        """Return a parser of numbers of this size."""
        return BigEndianParser(self.size)

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:  # noqa: ARG002 - as above
        """Return a function that writes the number in a line."""
        return self._write

    def _write(self, line: bytes) -> bytes:
        try:
            fields = parse(line)
        except Rejection as rejection:
            raise UnwritableError(rejection.detail) from None
        number = fields.get(_FIELD)
        try:
            if fields.keys() != {_FIELD} or not isinstance(number, Decimal) or number != int(number):
                raise OverflowError
            return int(number).to_bytes(self.size, "big", signed=True)
        except OverflowError:
            raise UnwritableError(f"it is not {{'value': N}} with a whole number N of {self.size} bytes") from None

    def notes(self, values: Sequence[bytes]) -> Iterator[str]:  # noqa: ARG002 - the same for all values
        """Yield why it was recognised."""
        yield f"Each value has {self.size} bytes, and some are a number near zero: format BigEndian, field value."


class BigEndianParser(Parser):
    """Parses values that are one whole number."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one value."""
        value = require_value(value)
        if len(value) != self._size:
            raise Rejection("wrong_type", f"the value has {len(value):,} bytes, expected {self._size}")
        return {_FIELD: Decimal(int.from_bytes(value, "big", signed=True))}

    def memory_of(self, value: bytes | None) -> int:  # noqa: ARG002 - the same for all values
        """Memory in bytes of a parsed value."""
        return _MEMORY
