"""CSV: each value is one row of fields, separated by a comma, a tab or another character.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.cut import without_line_end
from lakehouse.decoding.fields import Rejection, is_text, short_text
from lakehouse.decoding.formats.format import UnwritableError, show_options
from lakehouse.decoding.formats.texts.text import (
    FIELD_MEMORY,
    TextFormat,
    TextParser,
    reject_unknown_fields,
    scalar_text,
)
from lakehouse.decoding.formats.unpacking.parser import INVALID_ENCODING
from lakehouse.decoding.json_parsing import BYTE_ORDER_MARK, utf8_text

_INVALID = "invalid_csv"
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_ITEM = 64  # bytes of memory of a short text in a list
_NAME = re.compile(r"[^\W\d][\w .()/%-]*")
_RESERVED = '"\r\n'
_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}


@dataclass(frozen=True)
class Csv(TextFormat):
    r"""Each value is one row of CSV, with the fields of ``columns`` in their order.

    Quotes are those of RFC 4180. A field without quotes that is empty is null, ``""`` is an empty text. ``delimiter``
    is one character, for example ``"\t"`` for TSV. With ``quotes=False``, a quote is a letter like any other.
    """

    columns: Sequence[str]
    delimiter: str = ","
    quotes: bool = True
    reasons = (INVALID_ENCODING, _INVALID, "wrong_field_count", "header_line")
    __repr__ = show_options

    def __post_init__(self) -> None:
        """Make a list of columns a tuple, so that both are the same declaration."""
        if isinstance(self.columns, list):
            object.__setattr__(self, "columns", tuple(self.columns))

    @property
    def field_names(self) -> Sequence[str]:
        """The columns."""
        return self.columns

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with the columns, the delimiter and the encoding."""
        yield from super().problems()
        if not self.columns or not all(self.columns):
            yield "Csv needs the names of its columns", 'Name each field of a row, for example columns=["id", "price"].'
        for name, count in Counter(self.columns).items():
            if count > 1:
                yield f"column {name!r} of Csv is listed twice", "Give each field of a row its own name."
        if len(self.delimiter) != 1 or self.delimiter in _RESERVED or not is_text(self.delimiter):
            message = f"delimiter {self.delimiter!r} of Csv is not one character other than a quote or a line break"
            yield message, 'Write one character, for example "," or "\\t".'
        elif not self._can_write_delimiter:
            yield f"no text in {self.encoding} contains the delimiter {self.delimiter!r}", "Correct one of the two."

    @property
    def _can_write_delimiter(self) -> bool:
        """Whether a text in the encoding may contain the delimiter; unknown encodings have a problem of their own."""
        try:
            return self.delimiter != BYTE_ORDER_MARK and bool(self.delimiter.encode(self.encoding))
        except UnicodeError:
            return False
        except LookupError:
            return True

    def text_parser(self) -> "CsvParser":
        """Return a parser of rows."""
        return CsvParser(tuple(self.columns), self.delimiter, has_quotes=self.quotes)

    def text_of(self, fields: Mapping[str, Any]) -> str:
        """Return the fields as a row; a missing field is null."""
        reject_unknown_fields(fields, self.columns)
        texts = {name: scalar_text(name, fields.get(name)) for name in self.columns}
        return self.delimiter.join(map(self._quote if self.quotes else self._check, texts.values()))

    def _check(self, text: str | None) -> str:
        """Return a text that needs no quotes; raise ``UnwritableError`` for any other."""
        if text == "" or any(letter in (text or "") for letter in (self.delimiter, "\r", "\n")):
            raise UnwritableError(f"a field is {short_text(text)}, which a row without quotes cannot have")
        return text or ""

    def _quote(self, text: str | None) -> str:
        if text is None:
            return ""
        is_plain = text and not any(letter in text for letter in (self.delimiter, *_RESERVED, "\ufeff"))
        return text if is_plain else '"' + text.replace('"', '""') + '"'

    def with_header(self, rows: Sequence[bytes]) -> "Csv | None":
        """The format with the names in the first row, if that has only names, and further rows a column without any."""
        parser, read_rows = self.text_parser(), list[list[str | None]]()
        for row in rows:
            with suppress(Rejection):
                fields = parser.split_row(utf8_text(row))
                read_rows += [fields] if len(fields) == len(self.columns) else []
            if not read_rows:
                return None
        names, *further_rows = read_rows or [[]]
        columns = ([*filter(None, column)] for column in zip(*further_rows, strict=True))
        has_other_values = any(column and not any(map(_is_name, column)) for column in columns)
        is_header = all(map(_is_name, names)) and len({*names}) == len(names) and has_other_values
        return replace(self, columns=tuple(map(str, names))) if is_header else None

    def notes(self, values: Sequence[bytes]) -> Iterator[str]:  # noqa: ARG002 - the same for all values
        """Yield why it was recognised, and that its columns have no names yet."""
        separators = _SEPARATORS.get(self.delimiter, repr(self.delimiter))
        if not self.quotes:
            yield "The values have quotes within fields, so quotes are letters like any other: quotes=False."
        yield f"Each value has {len(self.columns)} fields, separated by {separators}, so the format is Csv."
        if tuple(self.columns) == placeholder_names(len(self.columns)):
            names = f"{self.columns[0]} to {self.columns[-1]}"
            yield f"The names {names} are placeholders: replace them in columns= of Csv and in each Column."


def _is_name(text: str | None) -> bool:
    return _NAME.fullmatch(text or "") is not None


def placeholder_names(count: int) -> tuple[str, ...]:
    """Names of so many columns, to be replaced by a person."""
    return tuple(f"column_{number}" for number in range(1, count + 1))


class CsvParser(TextParser):
    """Parses rows with a fixed number of fields."""

    def __init__(self, columns: tuple[str, ...], delimiter: str, *, has_quotes: bool = True) -> None:
        self._quote = '"' if has_quotes else None
        self._columns, self._delimiter = columns, delimiter
        self._separator, escaped = delimiter.encode(), re.escape(delimiter)
        self._field = re.compile(rf'(?:"((?:[^"]++|"")*+)"|([^"\r\n{escaped}]*+))({escaped}|\r?\n|)')
        self._header = list(columns)

    def parse_text(self, text: str) -> dict[str, Any]:
        """Parse one row; raises ``Rejection`` if it is not one, or does not have these fields."""
        fields = self.split_row(text)
        if len(fields) != len(self._columns):
            counts = f"{len(fields):,} {'field' if len(fields) == 1 else 'fields'}, expected {len(self._columns):,}"
            raise Rejection("wrong_field_count", f"the row has {counts}")
        if fields == self._header:
            raise Rejection("header_line", "the row is the header: it has the names of the columns")
        return dict(zip(self._columns, fields, strict=True))

    def split_row(self, text: str) -> list[str | None]:
        """The fields of one row, however many; raises ``Rejection`` if the text is not one row."""
        if self._quote and self._quote in text:
            return self._quoted_fields(text)
        if "\n" in text or "\r" in text:
            text = without_line_end(text)
            if _LINE_BREAK.search(text):
                _reject_line_break(text, 0)
        fields = text.split(self._delimiter)
        return [field or None for field in fields] if "" in fields else list(fields)

    def _quoted_fields(self, text: str) -> list[str | None]:
        """The fields of a row in which some are quoted."""
        fields: list[str | None] = []
        for match in self._field.finditer(text):
            quoted, plain, separator = match.groups()
            if not separator and match.end() < len(text):
                _reject_quote(text, match.start(), match.end())
            fields.append((plain or None) if quoted is None else quoted.replace('""', '"'))
            if separator != self._delimiter:
                if match.end() < len(text):
                    raise Rejection("trailing_bytes", f"a second line begins at character {match.end()}")
                break
        return fields

    def fields_memory(self, value: bytes) -> int:
        """Memory in bytes of the fields of a value at most, without their letters."""
        return len(self._columns) * FIELD_MEMORY + value.count(self._separator) * _ITEM


def _reject_line_break(text: str, begin: int) -> NoReturn:
    """Reject a row with a line break after ``begin`` that is neither quoted nor at the end of the row."""
    match = _LINE_BREAK.search(text, begin)
    end = match.end() if match else len(text)
    if match and match[0] == "\r":
        raise Rejection(_INVALID, f"the carriage return at character {end - 1} has no line feed")
    raise Rejection("trailing_bytes", f"a second line begins at character {end}")


def _reject_quote(text: str, begin: int, end: int) -> NoReturn:
    """Reject a row with a character at ``end`` that cannot follow the field that begins at ``begin``."""
    if text[end] == "\r":
        _reject_line_break(text, end)
    if text[begin] == '"' and begin == end:
        raise Rejection("truncated", f"the quote at character {begin} is not closed")
    quote, place = ("closing", "before") if text[begin] == '"' else ("stray", "at")
    raise Rejection(_INVALID, f"a {quote} quote {place} character {end}; quotes enclose whole fields and are doubled")
