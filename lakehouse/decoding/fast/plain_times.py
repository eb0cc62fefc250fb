"""Convert many times from text to microseconds since 1970, if the text matches the pattern exactly.

Every part except the fraction of a second has a fixed width, so texts of one length form a matrix of characters.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa

_WIDTHS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2}
_PARTS = re.compile(rb"%[YmdHMSf]|.", re.DOTALL)
_LIMITS = {"%H": 24, "%M": 60, "%S": 60}
_SECONDS = {"%H": 3600, "%M": 60, "%S": 1}
# if digits follow a fraction, the length alone does not determine its width
_AMBIGUOUS = re.compile(r"%f(%|\d)")


def parse_times(texts: pa.Array, pattern: str) -> tuple[Any, Any]:
    """Return microseconds since 1970, UTC, and a mask of the rows that are parsed; other rows are 0.

    The strict rules decide about the others: they do not match the pattern, are not dates, or are null.
    """
    _, starts, data = texts.buffers()
    offsets = np.frombuffer(starts, np.int64, len(texts) + 1, texts.offset * 8)
    times, is_parsed = np.zeros(len(texts), np.int64), np.zeros(len(texts), bool)
    if data is None or _AMBIGUOUS.search(pattern):
        return times, is_parsed
    characters, lengths = np.frombuffer(data, np.uint8), np.diff(offsets)
    for length in np.unique(lengths).tolist():
        parts = _layout(pattern, length)
        if parts is None:
            continue
        rows = np.flatnonzero(lengths == length)
        if len(rows) == len(texts):
            return _parse_matrix(characters[offsets[0] : offsets[-1]].reshape(-1, length).T.copy(), parts)
        row_starts = offsets[:-1][rows]
        indices = row_starts + np.arange(length)[:, np.newaxis]
        times[rows], is_parsed[rows] = _parse_matrix(characters[indices], parts)
    return times, is_parsed


def _layout(pattern: str, length: int) -> list[tuple[str | int, int]] | None:
    """The parts of a text of this length: a directive or a byte, and its width; ``None`` if no text has this length."""
    parts = [part.decode() if len(part) > 1 else part[0] for part in _PARTS.findall(pattern.encode())]
    fixed_width = sum(_WIDTHS.get(part, 0) if isinstance(part, str) else 1 for part in parts)
    fraction_width = length - fixed_width
    if not 1 <= fraction_width <= 6 if "%f" in parts else fraction_width:
        return None
    return [(part, 1 if isinstance(part, int) else _WIDTHS.get(part, fraction_width)) for part in parts]


def _parse_matrix(characters: Any, parts: list[tuple[str | int, int]]) -> tuple[Any, Any]:
    """Parse texts of one length; row i of the matrix has the i-th character of every text."""
    is_valid = np.ones(characters.shape[1], bool)
    digits = characters - np.uint8(48)  # a character below "0" wraps around to a large number
    are_digits = digits < 10
    numbers: dict[str, Any] = {}
    start = 0
    for part, width in parts:
        span = slice(start, start + width)
        start += width
        if isinstance(part, int):
            is_valid &= characters[span][0] == part
            continue
        is_valid &= are_digits[span].all(axis=0)
        number = np.zeros(len(is_valid), np.int32)
        for digit in digits[span]:
            number = number * 10 + digit
        numbers[part] = number * 10 ** (6 - width) if part == "%f" else number
    times, exists = _microseconds(numbers)
    is_valid &= exists
    return np.where(is_valid, times, 0), is_valid


def _microseconds(numbers: dict[str, Any]) -> tuple[Any, Any]:
    """Microseconds since 1970, and a mask of the rows whose date and time of day exist."""
    year, month, day = np.minimum(numbers["%Y"], 9999), numbers.get("%m", 1), numbers.get("%d", 1)
    first_days, day_counts = _calendar((year - 1970) * 12 + np.clip(month, 1, 12) - 1)
    exists = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= day_counts)
    seconds = (first_days + day - 1) * 86400
    for part, limit in _LIMITS.items():
        if part in numbers:
            exists &= numbers[part] < limit
            seconds = seconds + numbers[part] * _SECONDS[part]
    return seconds * 1_000_000 + numbers.get("%f", 0), exists


def _calendar(months: Any) -> tuple[Any, Any]:
    """The first day of each month, and the number of its days; months and days are counted from 1970."""
    first_month = months.min()
    all_months = np.arange(first_month, months.max() + 2)
    if len(all_months) > len(months):
        return _first_days(months), _first_days(months + 1) - _first_days(months)
    first_days = _first_days(all_months)
    return first_days[months - first_month], np.diff(first_days)[months - first_month]


def _first_days(months: Any) -> Any:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
