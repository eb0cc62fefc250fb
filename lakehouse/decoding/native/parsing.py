"""Parse the JSON of many records with a native parser, and say of which values it is not certain.

It keeps one of two equal names, makes doubles of numbers with a fraction, and accepts a nesting that the strict parser
may not. If what it made, written again, is byte for byte what was read, it lost nothing.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.decoding.conversion.numbers import MAX_LENGTH, Mask
from lakehouse.decoding.fields import Field
from lakehouse.decoding.json_parsing import JsonOptions, Native
from lakehouse.decoding.record_parts import VALUE

_STRING_OR_NOT_FINITE = re.compile(rb'("(?:[^"\\]++|\\.)*+"?)|-?Infinity|NaN', re.DOTALL)
_QUOTE, _BRACE = b'"{'
_BRACKET_BIT = _BRACE ^ ord("[")
_MAX_LEVELS = 50  # of nesting that the strict parser certainly accepts
_BLANK = r"[ \t\r\n]*"
_HUGE_EXPONENT = rf"[:,\[]{_BLANK}-?[0-9.]+[eE][+-]?[0-9]{{9}}"
_LONG_NUMBER = f"[0-9.]{{{MAX_LENGTH + 1}}}"
_SIMPLE_NAME = re.compile(r"[A-Za-z0-9_. -]+", re.ASCII)
_ESCAPED_NAME = r"\\u00[2-7]"  # a name may be escaped, too


def parse_contents(values: Sequence[bytes | None], options: JsonOptions, native: Native) -> list[Any]:
    """What the values are; ``None`` for those that are not valid JSON."""
    if None in values:
        values = [b"null" if value is None else value for value in values]
    try:
        return list(map(native.loads, values))
    except native.JSONDecodeError:
        parse_one = _parse_with_nulls if options.not_finite == "null" else parse_or_none
        return [parse_one(value, native) for value in values]


def parse_or_none(value: bytes | str | None, native: Native) -> Any:
    """The parsed value; ``None`` if it is not valid JSON."""
    try:
        return native.loads(value)
    except native.JSONDecodeError:
        return None


def _parse_with_nulls(value: bytes | None, native: Native) -> Any:
    """Parse JSON in which NaN and infinities are null; those within strings are not matched as such."""
    parsed = parse_or_none(value, native)
    if parsed is not None or value is None:
        return parsed
    return parse_or_none(_STRING_OR_NOT_FINITE.sub(lambda match: match[1] or b"null", value), native)


def inexact_values(values: Sequence[bytes | None], contents: list[Any], fields: Iterable[Field], native: Any) -> Mask:
    """A mask of the values of which the native parser may have lost something; not of those that it cannot parse.

    ``contents`` are what it made of them, ``None`` if a value is not valid. ``fields`` are those that are read.
    """
    try:
        parsed = bytes(native.dumps(contents))
    except native.JSONEncodeError:  # nested too deeply
        parsed = b""
    is_inexact = np.zeros(len(values), bool)
    if not parsed or _count_containers(parsed) - len(values) > _MAX_LEVELS:
        is_inexact = np.fromiter(map(_is_deep, values, contents), bool, len(values))
    present_values = [value or b"" for value in values]
    if parsed == b"[%b]" % b",".join(present_values):
        return is_inexact
    # no value has fewer strings written than parsed: if the sums are equal, those of each are equal
    if not parsed or _count_quotes(b"\n".join(present_values)) != _count_quotes(parsed):
        pairs = zip(present_values, contents, is_inexact.tolist(), strict=True)
        has_all_names = (
            content is None or is_deep or _has_every_string(value, content, native) for value, content, is_deep in pairs
        )
        is_inexact |= ~np.fromiter(has_all_names, bool, len(values))
    array = pa.array(present_values, pa.large_binary())
    return is_inexact | _matches(array, _HUGE_EXPONENT) | _may_hide_digits(array, fields)


def _may_hide_digits(values: pa.Array, fields: Iterable[Field]) -> Mask:
    """The values in which a decimal may have more digits than its double shows.

    Two numbers with at most 15 digits have different doubles. The strict rules read every digit of longer ones.
    """
    decimals = [field for field in fields if field.type.startswith("DECIMAL") and field.place.part == VALUE]
    if not decimals:
        return np.zeros(len(values), bool)
    pattern = f"{_LONG_NUMBER}|[0-9.]+[eE]" if _has_long_number(values) else "[0-9.]+[eE]"
    names = {field.place.names[-1] for field in decimals}
    if all(map(_SIMPLE_NAME.fullmatch, names)) and not any(field.place.whole_depth for field in decimals):
        any_name = "|".join(map(re.escape, sorted(names)))
        pattern = rf'"(?:{any_name})"{_BLANK}:{_BLANK}-?(?:{pattern})|{_ESCAPED_NAME}'
    return _matches(values, pattern)


def _matches(values: pa.Array, pattern: str) -> Mask:
    return np.asarray(pc.match_substring_regex(values, pattern).to_numpy(zero_copy_only=False))


def _has_long_number(values: pa.Array) -> bool:
    """Whether so many digits and points follow each other that a double may not show them, anywhere."""
    characters = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    is_run = (characters - ord(".")) <= ord("9") - ord(".")
    for length in (1, 2, 4, 8, 1):  # the runs of so many more: of 17 at last
        is_run = is_run[length:] & is_run[:-length]
    return bool(is_run.any())


def _has_every_string(value: bytes, content: Any, native: Any) -> bool:
    """Whether as many strings are written as parsed, names included: an object with equal names has fewer."""
    return _count_quotes(value) == _count_quotes(native.dumps(content))


def _count_quotes(text: bytes) -> int:
    """Count the quotes that begin or end a string in JSON, in time linear to the length for any input."""
    if b"\\" in text:
        text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _QUOTE))


def _count_containers(text: bytes) -> int:
    """Count the objects and arrays in JSON; at least these, since a string may contain their signs."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) | _BRACKET_BIT == _BRACE))


def _is_deep(value: bytes | None, content: Any) -> bool:
    """Whether a record is nested so deeply that the strict parser may reject it."""
    if value is None or value.count(b"{") + value.count(b"[") <= _MAX_LEVELS:
        return False
    level = [content] if type(content) in (dict, list) else []
    for _ in range(_MAX_LEVELS):
        level = [
            inner
            for container in level
            for inner in (container.values() if type(container) is dict else container)
            if type(inner) in (dict, list)
        ]
        if not level:
            return False
    return True
