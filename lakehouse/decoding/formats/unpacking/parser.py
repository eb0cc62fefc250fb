"""Unpack values before they are parsed: decompress them, or convert them to UTF-8.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats.framing import FRAME_SIZE, split_frame
from lakehouse.decoding.formats.parser import Change, Parser

Unpack = Callable[[bytes], bytes]
"""A function that unpacks a value; it raises ``Rejection`` if it cannot."""


class UnpackingParser(Parser):
    """Unpacks values, then parses them with ``inner``. The id of a schema in front of a framed value is not packed."""

    is_packed = True

    def __init__(self, inner: Parser, unpack: Unpack, *, framed: bool) -> None:
        self._inner = inner.inner
        self._steps: tuple[Unpack, ...] = (unpack, *(inner._steps if isinstance(inner, UnpackingParser) else ()))
        self._framed = framed
        self.memory_by_byte, self.smallest_item = inner.memory_by_byte, inner.smallest_item
        self.has_changes = inner.has_changes

    def with_inner(self, inner: Parser) -> "UnpackingParser":
        """Return a parser that unpacks values in the same way, then parses them with another parser."""
        parser = copy(self)
        parser._inner = inner
        return parser

    def of_arrays(self) -> Parser:
        """Return the parser for records that are arrays once they are unpacked."""
        return self.with_inner(self.inner.of_arrays())

    @property
    def inner(self) -> Parser:
        """The parser of unpacked values."""
        return self._inner

    def unpack(self, value: bytes | None) -> bytes | None:
        """Return a value as ``inner`` parses it."""
        if not value:
            return value
        frame_size = FRAME_SIZE if self._framed else 0
        if self._framed:
            split_frame(value)  # rejects a value without a frame
        frame, content = value[:frame_size], value[frame_size:]
        for step in self._steps:
            content = step(content) if content else content
        return frame + content if frame else content

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Unpack and parse one value."""
        return self.inner(self.unpack(value))

    def read_change(self, value: bytes | None, fields: tuple[Field, ...]) -> Change:
        """Unpack and parse one record into what it says about a row."""
        return self.inner.read_change(self.unpack(value), fields)

    def schema_name(self, value: bytes) -> str | None:
        """The name that the schema of a value gives its record."""
        return self.inner.schema_name(self.unpack(value) or b"")
