"""Lines of which each field is cut out: by a regular expression, or by the places of its characters.

Runs on the driver and, shipped by value, on Spark's executors.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.cut import GROUP, NO_MATCH, Groups, match_texts, without_line_end
from lakehouse.decoding.fields import Rejection, is_text, short_text
from lakehouse.decoding.formats.format import UnwritableError, show_options
from lakehouse.decoding.formats.texts.text import FIELD_MEMORY, TextFormat, TextParser
from lakehouse.decoding.formats.unpacking.parser import INVALID_ENCODING
from lakehouse.decoding.json_parsing import utf8_text

_AHEAD, _AHEAD_BYTES = 2_000, 1_000_000  # values, and bytes of them, that are matched at once
_ACTION = (
    "Write a regular expression as RE2 knows it, in which each group is (?P<name>...) or (?:...). RE2 has no"
    " look-ahead, no look-behind and no back-reference."
)
_PLACES = 'Name each as in Python: [("id", 0, 8), ("name", 8, 30)] are line[0:8] and line[8:30].'


class _ReadOnly(TextFormat):
    """A format that reads the lines of another program, and writes none."""

    def text_of(self, fields: Mapping[str, Any]) -> str:  # noqa: ARG002 - it writes none
        """Refuse the fields: what is around them is not known."""
        raise UnwritableError(f"format {self.name} reads lines as they are: send such lines with publish --raw")


def pattern_problems(subject: str, pattern: str, names: Sequence[str]) -> Iterator[Problem]:
    """Yield that a pattern cannot be used, that it has none, or not all, of some groups, or one of them twice."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow.compute import extract_regex  # noqa: PLC0415 - as above

    if "\\C" in pattern.replace("\\\\", "") or not is_text(pattern):
        yield f"the pattern of {subject} may match a part of a character", "Remove \\C, and half of a surrogate pair."
        return
    try:
        groups = tuple(extract_regex(pa.array([""]), f"^(?:{pattern})$").type.names)
    except pa.ArrowInvalid as error:
        yield f"the pattern of {subject} cannot be used: {error}", _ACTION
        return
    for name, count in Counter(groups).items():
        if count > 1:
            yield f"the group {name!r} of {subject} is there twice", "Give each group its own name."
    if groups != tuple(GROUP.findall(pattern)) or not {*names} <= {*groups} or not groups:
        yield f"the pattern of {subject} has no group (?P<{', '.join(names) or 'name'}>...) for a field", _ACTION


@dataclass(frozen=True)
class Regex(_ReadOnly):
    r"""Each value is one line that the regular expression ``pattern`` matches from its first character to its last.

    A group with a name, such as ``(?P<status>\d+)``, is a field; an empty one is null. The expressions are those of
    RE2, which are slow for no text: without back-references and look-around. A line that does not match is rejected.
    """

    pattern: str
    reasons = (INVALID_ENCODING, NO_MATCH)
    __repr__ = show_options

    @property
    def field_names(self) -> Sequence[str]:
        """The names of the groups."""
        return tuple(GROUP.findall(self.pattern))

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with the expression and the encoding."""
        yield from super().problems()
        yield from pattern_problems("Regex", self.pattern, self.field_names)

    def text_parser(self) -> "RegexParser":
        """Return a parser of lines."""
        return RegexParser(self.pattern, len(self.field_names))


class RegexParser(TextParser):
    """Parses lines by a regular expression; of values that come in order, many at once."""

    def __init__(self, pattern: str, group_count: int) -> None:
        self._pattern, self._group_count = pattern, group_count
        self._waiting: Iterator[bytes | None] = iter(())
        self._ahead: dict[str, Groups | None] = {}

    def read_ahead(self, values: Sequence[bytes | None]) -> None:
        """Note the values that come next."""
        self._waiting, self._ahead = iter(values), {}

    def parse_text(self, text: str) -> dict[str, Any]:
        """Return the groups of one line; raises ``Rejection`` if it does not match."""
        if text not in self._ahead:
            texts = [text, *self._next_texts()]
            self._ahead = dict(zip(texts, match_texts(texts, self._pattern), strict=True))
        groups = self._ahead[text]
        if groups is None:
            raise Rejection(NO_MATCH, f"the pattern does not match {short_text(text)}")
        return dict(groups)

    def fields_memory(self, value: bytes) -> int:  # noqa: ARG002 - every line has the same fields
        """Memory in bytes of the fields of a value, without their letters."""
        return self._group_count * FIELD_MEMORY

    def _next_texts(self) -> Iterator[str]:
        size = 0
        for value in islice(self._waiting, _AHEAD):
            with suppress(Rejection):
                yield utf8_text(value or b"")
            size += len(value or b"")
            if size > _AHEAD_BYTES:
                return


@dataclass(frozen=True)
class FixedWidth(_ReadOnly):
    """Each value is one line with fields at fixed places: ``("id", 0, 6)`` are the characters ``line[0:6]``.

    White space around a field is not part of it; an empty field, and one after the end of a line, is null.
    """

    places: Sequence[tuple[str, int, int]]
    reasons = (INVALID_ENCODING,)
    __repr__ = show_options

    def __post_init__(self) -> None:
        """Make lists tuples, so that both are the same declaration; ``problems`` refuses everything else."""
        if isinstance(self.places, list):
            places = tuple(tuple(place) if isinstance(place, list) else place for place in self.places)
            object.__setattr__(self, "places", places)

    @property
    def field_names(self) -> Sequence[str]:
        """The names of the fields."""
        return tuple(name for name, *_ in self.places)

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with the places and the encoding."""
        yield from super().problems()
        if not self.places or not isinstance(self.places, tuple):
            yield "FixedWidth needs a list with the places of its fields", _PLACES
            return
        for place in self.places:
            if not _is_place(place):
                yield f"FixedWidth has the place {place!r}", _PLACES
                return
        for name, count in Counter(self.field_names).items():
            if count > 1:
                yield f"field {name!r} of FixedWidth is listed twice", "Give each field its own name."

    def text_parser(self) -> "FixedWidthParser":
        """Return a parser of lines."""
        return FixedWidthParser(tuple(self.places))


def _is_place(place: Any) -> bool:
    if not (isinstance(place, tuple) and len(place) == 3):
        return False
    name, start, end = place
    return isinstance(name, str) and bool(name) and type(start) is type(end) is int and 0 <= start < end


class FixedWidthParser(TextParser):
    """Parses lines by the places of their characters."""

    def __init__(self, places: Sequence[tuple[str, int, int]]) -> None:
        self._places = places

    def parse_text(self, text: str) -> dict[str, Any]:
        """Return the fields of one line."""
        line = without_line_end(text)
        return {name: line[start:end].strip() or None for name, start, end in self._places}

    def fields_memory(self, value: bytes) -> int:  # noqa: ARG002 - every line has the same fields
        """Memory in bytes of the fields of a value, without their letters."""
        return len(self._places) * FIELD_MEMORY
