r"""Logfmt: each value is one line of pairs, for example ``level=info msg="request done" cached``.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from lakehouse.decoding.cut import without_line_end
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import UnwritableError, show_options
from lakehouse.decoding.formats.texts.text import (
    FIELD_MEMORY,
    TextFormat,
    TextParser,
    scalar_text,
)
from lakehouse.decoding.formats.unpacking.parser import INVALID_ENCODING

_INVALID = "invalid_logfmt"
_PLAIN = r'[^\x00-\x20"\x7f]'
_KEY = r'[^\x00-\x20"=\x7f]++'
_INSIDE = r'(?:[^"\\]++|\\.)*+'
_PAIR = re.compile(rf'({_KEY})(?:=(?:("{_INSIDE}")|({_PLAIN}*+)))?(?:[ \t]++|\Z)', re.DOTALL)
_BEGIN = re.compile(rf'(?:{_KEY}(?:=(?:"{_INSIDE}"|{_PLAIN}*+))?)?', re.DOTALL)
_OPEN_QUOTE = re.compile(rf'{_KEY}="{_INSIDE}\\?\Z', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-7][\da-fA-F])|u([\da-fA-F]{4})|U([\da-fA-F]{8})|(.))", re.DOTALL | re.ASCII)
_ESCAPE_MEMORY = 16  # bytes while it is replaced
_LETTERS = dict(zip('"\\/abfnrtv', '"\\/\a\b\f\n\r\t\v', strict=True))
_WRITABLE_KEY, _WRITABLE_TEXT = re.compile(_KEY), re.compile(rf"{_PLAIN}++")


@dataclass(frozen=True)
class Logfmt(TextFormat):
    """Each value is one line of pairs ``key=value``, separated by spaces or tabs.

    A value in quotes has the escapes of JSON. ``key=`` is an empty text, and a key alone is ``true``.
    """

    reasons = (INVALID_ENCODING, _INVALID)
    __repr__ = show_options

    def text_parser(self) -> TextParser:
        """Return a parser of lines."""
        return LogfmtParser()

    def text_of(self, fields: Mapping[str, Any]) -> str:
        """Return the fields as pairs; null is left out."""
        texts = {name: scalar_text(name, raw) for name, raw in fields.items()}
        pairs = [_pair(name, text) for name, text in texts.items() if text is not None]
        if not pairs:
            raise UnwritableError("it has no value that is not null")
        return " ".join(pairs)

    def notes(self, values: Sequence[bytes]) -> Iterator[str]:  # noqa: ARG002 - the same for all values
        """Yield why it was recognised."""
        yield "The values are pairs of key=value, so the format is Logfmt."


class LogfmtParser(TextParser):
    """Parses lines of pairs."""

    def parse_text(self, text: str) -> dict[str, Any]:
        """Parse one line; raises ``Rejection`` if it is not one, or if a key occurs twice."""
        line = without_line_end(text)
        position = len(line) - len(line.lstrip(" \t"))
        if position == len(line):
            raise Rejection("empty_value", "the value contains no pair")
        fields: dict[str, Any] = {}
        while position < len(line):
            match = _PAIR.match(line, position)
            if match is None:
                _reject_pair(line, position)
            key, quoted, plain = match.groups()
            if key in fields:
                raise Rejection("duplicate_name", f"{key!r} occurs more than once")
            fields[key] = _unquote(quoted, position) if quoted else "true" if plain is None else plain
            position = match.end()
        return fields

    def fields_memory(self, value: bytes) -> int:
        """Memory in bytes of the fields of a value at most, without their letters."""
        field_count = value.count(b" ") + value.count(b"\t") + 1
        return field_count * FIELD_MEMORY + value.count(b"\\") * _ESCAPE_MEMORY


def _unquote(quoted: str, position: int) -> str:
    """The text in quotes, with the escapes of JSON and of Go."""
    if "\\" not in quoted:
        return quoted[1:-1]
    try:
        text = _ESCAPE.sub(_unescape, quoted[1:-1])
    except (ValueError, OverflowError):
        raise Rejection(_INVALID, f"the pair at character {position} has an escape that is not known") from None
    # two halves of a surrogate pair become one character
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") if "\\u" in quoted else text


def _unescape(match: re.Match[str]) -> str:
    *digits, letter = match.groups()
    return _LETTERS[letter] if letter in _LETTERS else chr(int("".join(filter(None, digits)), 16))


def _reject_pair(line: str, position: int) -> NoReturn:
    """Reject a line whose pair at this position is not valid."""
    if _OPEN_QUOTE.match(line, position):
        raise Rejection("truncated", f"the quote in the pair at character {position} is not closed")
    end = match.end() if (match := _BEGIN.match(line, position)) else position
    if line[end] in "\r\n":
        raise Rejection("trailing_bytes", f"a second line begins at character {end + 1}")
    raise Rejection(_INVALID, f"character {end} is {line[end]!a}, which is not part of a pair key=value")


def _pair(name: str, text: str) -> str:
    if not _WRITABLE_KEY.fullmatch(name):
        raise UnwritableError(f"{name!r} cannot be a key of logfmt")
    is_plain = "\\" not in text and (not text or _WRITABLE_TEXT.fullmatch(text))
    return f"{name}={text}" if is_plain else f"{name}={json.dumps(text, ensure_ascii=False)}"
