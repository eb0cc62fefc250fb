"""The base class of formats in which every value is a text, and ``Text``, in which the whole record is one.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Rejection, UnrepresentableValue, json_kind
from lakehouse.decoding.formats.format import NO_SCHEMAS, Format, Schemas, UnwritableError, WriterSchema, show_options
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.formats.unpacking.parser import (
    INVALID_ENCODING,
    UTF_8,
    encode_text,
    encoded_parser,
    encoding_problems,
)
from lakehouse.decoding.json_parsing import utf8_text
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, too_large_rejection
from lakehouse.decoding.records import parse, require_value

_BYTES_OF_TEXT = 9  # bytes of memory that a byte becomes: as text and as its parts, four bytes for each character
_LARGE = 10**6  # bytes; no smaller value takes as much memory as one record may
FIELD_MEMORY = 250  # bytes of a short text and of its entry in a dict


@dataclass(frozen=True)
class TextFormat(Format):
    """A format in which every value is a text, from which a column of another type reads it strictly.

    ``encoding`` is that of the records: UTF-8, or one with one byte for each character.
    """

    encoding: str = field(default=UTF_8, kw_only=True)
    is_text = True

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with the encoding."""
        yield from encoding_problems(self.encoding)

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:  # noqa: ARG002 - texts have no schemas
        """Return a parser of values in the encoding."""
        return encoded_parser(self.text_parser(), self.encoding)

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:  # noqa: ARG002 - as above
        """Return a function that writes the fields of a line as text."""
        return self._write

    def with_encoding(self, encoding: str) -> "TextFormat":
        """The format for records in another encoding."""
        return replace(self, encoding=encoding)

    @abstractmethod
    def text_parser(self) -> "TextParser":
        """Return a parser of values in UTF-8."""

    @abstractmethod
    def text_of(self, fields: Mapping[str, Any]) -> str:
        """Return fields as one text; raises ``UnwritableError`` if it cannot have them."""

    def _write(self, line: bytes) -> bytes:
        try:
            fields = parse(line)
        except Rejection as rejection:
            raise UnwritableError(rejection.detail) from None
        return encode_text(self.text_of(fields), self.encoding)


class TextParser(Parser):
    """Parses values in UTF-8 into fields, which are texts or null."""

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one value; a byte order mark in front is dropped."""
        value = require_value(value)
        if len(value) > _LARGE and self.memory_of(value) > MAX_RECORD_MEMORY:
            raise too_large_rejection()
        text = utf8_text(value)
        if not text:
            raise Rejection("empty_value", "the value is empty")
        return self.parse_text(text)

    @abstractmethod
    def parse_text(self, text: str) -> dict[str, Any]:
        """Parse a text that is not empty."""

    def fields_memory(self, value: bytes) -> int:  # noqa: ARG002 - for formats with several fields
        """Memory in bytes of the fields of a value at most, without their letters."""
        return FIELD_MEMORY

    def memory_of(self, value: bytes | None) -> int:
        """Memory in bytes of a parsed value at most."""
        return len(value or b"") * _BYTES_OF_TEXT + self.fields_memory(value or b"")


@dataclass(frozen=True)
class Text(TextFormat):
    """Each value is one text as a whole, such as ``on`` or ``21.5``. Its only field is named ``value``."""

    reasons = (INVALID_ENCODING,)
    __repr__ = show_options

    @property
    def field_names(self) -> Sequence[str]:
        """The whole value."""
        return ("value",)

    def text_parser(self) -> TextParser:
        """Return a parser of texts."""
        return WholeTextParser()

    def text_of(self, fields: Mapping[str, Any]) -> str:
        """Return the text or the number in ``value``."""
        reject_unknown_fields(fields, self.field_names)
        text = scalar_text("value", fields.get("value"))
        if not text:
            raise UnwritableError("'value' is missing, null or empty")
        return text

    def notes(self, values: Sequence[bytes]) -> Iterator[str]:  # noqa: ARG002 - the same for all values
        """Yield why it was recognised."""
        yield "The values are neither JSON nor another known format, so each is one text: format Text, field value."
        yield "To cut fields out of lines, such as those of access logs, write format=Regex(...) or FixedWidth(...)."


class WholeTextParser(TextParser):
    """Parses a value as one text."""

    def parse_text(self, text: str) -> dict[str, Any]:
        """Return the text as the field ``value``."""
        return {"value": text}


def scalar_text(name: str, raw: Any) -> str | None:
    """The text that writes a value of JSON, with the digits of a number; ``None`` for null.

    Raises ``UnwritableError`` for an array or an object.
    """
    if raw is None or isinstance(raw, str):
        return raw
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, Decimal | UnrepresentableValue):
        return str(raw)
    raise UnwritableError(f"{name!r} is {json_kind(raw)}, expected a text, a number or a boolean")


def reject_unknown_fields(fields: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise ``UnwritableError`` if there is a field that the format cannot write."""
    unknown_names = [name for name in fields if name not in names]
    if unknown_names:
        raise UnwritableError(f"it has the field {unknown_names[0]!r}, but the format only has {', '.join(names)}")
