"""Unpack values before they are parsed: decompress them, or convert them from another encoding."""

import codecs
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from importlib import import_module
from typing import Any

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats.format import UnwritableError
from lakehouse.decoding.formats.framing import FRAME_SIZE, split_frame
from lakehouse.decoding.formats.parser import Change, Parser
from lakehouse.decoding.json_parsing import BYTE_ORDER_MARK

Unpack = Callable[[bytes], bytes]
"""A function that unpacks a value; it raises ``Rejection`` if it cannot."""
UTF_8 = "utf-8"
INVALID_ENCODING = "invalid_encoding"
"""The reason to reject a value with a byte that its encoding does not define."""
_WITHOUT_TABLE = ("ascii", "iso8859-1")  # the other encodings with one byte for each character have a table
_EXAMPLES = "latin-1, cp1252 or iso8859-15"


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

    def of_arrays(self, *, or_objects: bool = False) -> Parser:
        """Return the parser for records that are arrays once they are unpacked."""
        return self.with_inner(self.inner.of_arrays(or_objects=or_objects))

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


def encoding_problems(encoding: str) -> Iterator[Problem]:
    """Yield what is wrong with a declared encoding."""
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        yield f"unknown encoding {encoding!r}", f"Write utf-8, or a name that Python has, such as {_EXAMPLES}."
        return
    if name != UTF_8 and not _has_one_byte(name):
        message = f"encoding {encoding!r} does not have one byte for each character"
        yield message, f"Declare utf-8 or an 8-bit encoding such as {_EXAMPLES}. Have other records sent in UTF-8."


def _has_one_byte(name: str) -> bool:
    """Whether an encoding has one byte for each character."""
    if name in _WITHOUT_TABLE:
        return True
    try:
        return hasattr(import_module(f"encodings.{name.replace('-', '_')}"), "decoding_table")
    except ImportError:
        return False


def is_utf8(encoding: str) -> bool:
    """Whether an encoding is UTF-8, by any of its names."""
    return codecs.lookup(encoding).name == UTF_8


def encoded_parser(parser: Parser, encoding: str, *, framed: bool = False) -> Parser:
    """Return a parser of values in an encoding, from one of values in UTF-8."""
    return parser if is_utf8(encoding) else UnpackingParser(parser, partial(_as_utf8, encoding=encoding), framed=framed)


def encode_text(text: str, encoding: str) -> bytes:
    """Return the bytes of a text; raises ``UnwritableError`` if the encoding cannot write it."""
    try:
        data = text.encode(encoding)
    except UnicodeEncodeError as error:
        raise UnwritableError(f"{encoding} cannot write {text[error.start]!a}") from None
    return BYTE_ORDER_MARK.encode() + data if text.startswith(BYTE_ORDER_MARK) else data  # reading drops the first one


def _as_utf8(value: bytes, encoding: str) -> bytes:
    try:
        return value.decode(encoding).encode()
    except UnicodeDecodeError as error:
        detail = f"byte {error.start} is 0x{value[error.start]:02x}, which {encoding} does not define"
        raise Rejection(INVALID_ENCODING, detail) from None
