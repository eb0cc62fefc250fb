"""Of which records a native parser of JSON is not certain, although it read them: the strict parser reads these.

It keeps one of two equal names, makes doubles of numbers with a fraction, and accepts a nesting that the strict parser
may not. If what it made, written again, is byte for byte what was read, it lost nothing.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.decoding.batch import RecordBatch
from lakehouse.decoding.fast.plain_numbers import MAX_LENGTH, Mask
from lakehouse.decoding.record_parts import VALUE

_QUOTE, _BRACE = b'"{'
_BRACKET_BIT = _BRACE ^ ord("[")
_MAX_LEVELS = 50  # of nesting that the strict parser certainly accepts
_HUGE_EXPONENT = re.compile(rb"[eE][+-]?\d{9}")
_EXPONENT = "[0-9.]+[eE]"
_LONG_NUMBER = f"[0-9.]{{{MAX_LENGTH + 1}}}|{_EXPONENT}"
_SIMPLE_NAME = re.compile(r"[A-Za-z0-9_. -]+", re.ASCII)
_ESCAPED_NAME = r"\\u00[2-7]"  # a name may be escaped, too


def doubt_inexact(batch: RecordBatch, is_parsed: Mask) -> None:
    """Leave records to the strict parser that may have equal names, more digits than a double, or a huge exponent."""
    if not batch.native:
        return
    parsed = _written_again(batch)
    may_be_deep = _count_containers(parsed) - len(batch) > _MAX_LEVELS
    is_same = parsed == b"[%b]" % b",".join([value or b"" for value in batch.values])
    if not is_same:
        is_odd = _may_hide_digits(batch) | _has_huge_exponent(batch)
        is_odd &= ~batch.is_filtered
        is_odd |= ~_has_unique_names(batch, parsed)
        batch.is_uncertain |= is_odd & is_parsed[: len(batch)]
    if may_be_deep or not parsed:
        is_deep = map(_is_deep, batch.values, batch.contents)
        batch.is_uncertain |= np.fromiter(is_deep, bool, len(batch)) & is_parsed[: len(batch)]


def _written_again(batch: RecordBatch) -> bytes:
    """What the parser made, as JSON; empty if it is nested too deeply to be written."""
    native: Any = batch.native
    try:
        return bytes(native.dumps(batch.contents))
    except native.JSONEncodeError:
        return b""


def _has_huge_exponent(batch: RecordBatch) -> Mask:
    """The records with a zero in a column that may be a number with a huge exponent."""
    is_huge = np.zeros(len(batch), bool)
    for record in (record for record in batch.zero_records if record < len(batch)):
        is_huge[record] = bool(_HUGE_EXPONENT.search(batch.values[record] or b""))
    return is_huge


def _may_hide_digits(batch: RecordBatch) -> Mask:
    """The records in which a decimal may have more digits than its double shows.

    Two numbers with at most 15 digits have different doubles. The strict rules read every digit of longer ones.
    """
    decimals = [f for f in batch.rules.fields if f.type.startswith("DECIMAL") and f.part == VALUE]
    if not decimals:
        return np.zeros(len(batch), bool)
    pattern = _LONG_NUMBER if _has_long_number(batch.values) else _EXPONENT
    names = {field.names[-1] for field in decimals}
    if all(map(_SIMPLE_NAME.fullmatch, names)) and not any(field.whole_depth for field in decimals):
        any_name = "|".join(map(re.escape, sorted(names)))
        pattern = rf'"(?:{any_name})"[ \t\r\n]*:[ \t\r\n]*-?(?:{pattern})|{_ESCAPED_NAME}'
    matches = pc.match_substring_regex(batch.array[: len(batch)].cast(pa.large_binary()), pattern)
    return np.asarray(matches.fill_null(False).to_numpy(zero_copy_only=False))


def _has_long_number(values: list[bytes | None]) -> bool:
    """Whether so many digits and points follow each other that a double may not show them, anywhere."""
    characters = np.frombuffer(b" ".join([value or b"" for value in values]), np.uint8)
    is_run = (characters - ord(".")) <= ord("9") - ord(".")
    for length in (1, 2, 4, 8, 1):  # the runs of so many more: of 17 at last
        is_run = is_run[length:] & is_run[:-length]
    return bool(is_run.any())


def _has_unique_names(batch: RecordBatch, parsed: bytes) -> Mask:
    """The records with as many strings written as parsed, names included: an object with equal names has fewer."""
    native: Any = batch.native
    # no record has fewer strings written than parsed: if the sums are equal, those of each record are equal
    if parsed and _count_quotes(b"\n".join([value or b"" for value in batch.values])) == _count_quotes(parsed):
        return np.ones(len(batch), bool)

    def is_unique(value: bytes | None, content: Any) -> bool:
        if value is None or content is None or _is_deep(value, content):
            return True  # there is no object, or it is decided otherwise
        return _count_quotes(value) == _count_quotes(native.dumps(content))

    return np.fromiter(map(is_unique, batch.values, batch.contents), bool, len(batch))


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
    if value is None or _count_containers(value) <= _MAX_LEVELS:
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
