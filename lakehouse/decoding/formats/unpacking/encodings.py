"""Encodings of text other than UTF-8: those with one byte for each character.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import codecs
from collections.abc import Iterator
from functools import partial
from importlib import import_module

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import UnwritableError
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.formats.unpacking.parser import UnpackingParser
from lakehouse.decoding.json_parsing import BYTE_ORDER_MARK

UTF_8 = "utf-8"
INVALID_ENCODING = "invalid_encoding"
"""The reason to reject a value with a byte that its encoding does not define."""
_WITHOUT_TABLE = ("ascii", "iso8859-1")  # the other encodings with one byte for each character have a table
_EXAMPLES = "latin-1, cp1252 or iso8859-15"


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
