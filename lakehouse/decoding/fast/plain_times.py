"""Convert many times from text to microseconds since 1970, if the text matches the pattern exactly.

Texts of one length form a matrix of characters, and each layout that they may have is tried.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.decoding.fast.plain_layouts import FRACTION, Layout, layouts_of
from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fast.plain_zones import offsets_in
from lakehouse.decoding.fields import Field
from lakehouse.decoding.time_texts import MAX_OFFSET_HOURS, MAX_OFFSET_MINUTES, UTC_OFFSET
from lakehouse.decoding.zones import Zone

_LIMITS = {"%H": 24, "%M": 60, "%S": 60}
_SECONDS = {"%H": 3600, "%M": 60, "%S": 1}
_FIRST_SECOND, _LAST_SECOND = -719_162 * 86_400, 2_932_897 * 86_400 - 1  # of the years 1 to 9999
_SECOND, _NANO_PLACES = 1_000_000, 9


def parse_times(texts: pa.Array, field: Field) -> tuple[Any, Mask]:
    """Return microseconds since 1970, UTC, and a mask of the rows that are parsed; other rows are 0.

    The strict rules decide about the others: they do not match the pattern, are not dates, are near a change of clocks,
    or are null.
    """
    _, starts, data = texts.buffers()
    offsets = np.frombuffer(starts, np.int64, len(texts) + 1, texts.offset * 8)
    times, is_parsed = np.zeros(len(texts), np.int64), np.zeros(len(texts), bool)
    if data is None:
        return times, is_parsed
    characters, lengths = np.frombuffer(data, np.uint8), np.diff(offsets)
    for length in np.unique(lengths).tolist():
        layouts = layouts_of(field, length)
        if not layouts:
            continue
        rows = np.flatnonzero(lengths == length)
        if len(rows) == len(texts):
            matrix = characters[offsets[0] : offsets[-1]].reshape(-1, length).T.copy()
            return _parse_matrix(matrix, layouts, field.zone)
        row_starts = offsets[:-1][rows]
        indices = row_starts + np.arange(length)[:, np.newaxis]
        times[rows], is_parsed[rows] = _parse_matrix(characters[indices], layouts, field.zone)
    return times, is_parsed


def _parse_matrix(characters: Any, layouts: list[Layout], zone: Zone | None) -> tuple[Any, Mask]:
    """Parse texts of one length; row i of the matrix has the i-th character of every text."""
    count = characters.shape[1]
    digits = characters - np.uint8(48)  # a character below "0" wraps around to a large number
    are_digits = digits < 10
    times, is_parsed = np.zeros(count, np.int64), np.zeros(count, bool)
    for layout in layouts:
        has_layout = _has_layout(characters, are_digits, layout)
        if has_layout.all():
            return _parse_layout(characters, digits, layout, zone)
        rows = np.flatnonzero(has_layout)
        if len(rows):
            times[rows], is_parsed[rows] = _parse_layout(characters[:, rows], digits[:, rows], layout, zone)
    return times, is_parsed


def _has_layout(characters: Any, are_digits: Any, layout: Layout) -> Mask:
    """Which texts have digits and other characters at the places of a layout."""
    has_layout = np.ones(characters.shape[1], bool)
    start = 0
    for part, width in layout:
        span = slice(start, start + width)
        if isinstance(part, bytes):
            has_layout &= _is_one_of(characters[start], part)
        elif part == UTC_OFFSET:
            has_layout &= _is_offset(characters[span], are_digits[span])
        else:
            has_layout &= are_digits[span].all(axis=0)
        start += width
    return has_layout


def _is_one_of(characters: Any, allowed: bytes) -> Mask:
    is_allowed: Mask = characters == allowed[0]
    for byte in allowed[1:]:
        is_allowed = is_allowed | (characters == byte)
    return is_allowed


def _is_offset(characters: Any, are_digits: Any) -> Mask:
    """Which texts have an offset: of one character Z, of three +02, of five +0200, of six +02:00."""
    if len(characters) == 1:
        return _is_one_of(characters[0], b"Zz")
    has_colon = len(characters) == len("+02:00")
    are_valid: Mask = _is_one_of(characters[0], b"+-") & are_digits[1:3].all(axis=0)
    are_valid &= are_digits[3 + has_colon :].all(axis=0)
    return are_valid & _is_one_of(characters[3], b":") if has_colon else are_valid


def _parse_layout(characters: Any, digits: Any, layout: Layout, zone: Zone | None) -> tuple[Any, Mask]:
    """Parse texts that have this layout; a part may still have a number that is too large."""
    numbers: dict[str, Any] = {}
    fraction: Any = 0
    utc_offsets: Any = None
    is_valid: Any = True
    start = 0
    for part, width in layout:
        span = slice(start, start + width)
        start += width
        if part == UTC_OFFSET:
            utc_offsets, is_valid = _offset_seconds(characters[span], digits[span])
        elif part == FRACTION:
            fraction = _microseconds(_number(digits[span]), width)
        elif isinstance(part, str):
            numbers[part] = _number(digits[span])
    seconds, exists = _local_seconds(numbers)
    is_valid = is_valid & exists
    if utc_offsets is None and zone:
        utc_offsets, is_certain = offsets_in(np.clip(seconds, _FIRST_SECOND, _LAST_SECOND), zone)
        is_valid &= is_certain
    times = (seconds if utc_offsets is None else seconds - utc_offsets) * _SECOND + fraction
    is_valid &= (times >= _FIRST_SECOND * _SECOND) & (times < (_LAST_SECOND + 1) * _SECOND)
    return np.where(is_valid, times, 0), is_valid


def _number(digits: Any) -> Any:
    number = digits[0].astype(np.int32)
    for digit in digits[1:]:
        number = number * 10 + digit
    return number


def _microseconds(number: Any, places: int) -> Any:
    """A fraction of a second with these decimal places, rounded; ties are rounded up."""
    return (number * 10 ** (_NANO_PLACES - places) + 500) // 1000


def _offset_seconds(characters: Any, digits: Any) -> tuple[Any, Any]:
    """Offsets from UTC in seconds, and which of them exist."""
    if len(characters) == 1:
        return 0, True
    hours, minutes = _number(digits[1:3]), _number(digits[-2:]) if len(characters) > 3 else 0
    utc_offsets = (hours * 60 + minutes) * 60
    exists = (hours <= MAX_OFFSET_HOURS) & (minutes <= MAX_OFFSET_MINUTES)
    return np.where(characters[0] == ord("-"), -utc_offsets, utc_offsets), exists


def _local_seconds(numbers: dict[str, Any]) -> tuple[Any, Any]:
    """Seconds since 1970, and a mask of the rows whose date and time of day exist."""
    year, month, day = np.minimum(numbers["%Y"], 9999), numbers.get("%m", 1), numbers.get("%d", 1)
    first_days, day_counts = _calendar((year - 1970) * 12 + np.clip(month, 1, 12) - 1)
    exists = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= day_counts)
    seconds = (first_days + day - 1) * 86400
    for part, limit in _LIMITS.items():
        if part in numbers:
            exists &= numbers[part] < limit
            seconds = seconds + numbers[part] * _SECONDS[part]
    return seconds, exists


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
