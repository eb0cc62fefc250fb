"""Convert many times from text to microseconds since 1970, if the text matches the pattern exactly.

Texts of one length form a matrix of characters, and each layout that they may have is tried.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lakehouse.decoding.fast.plain_layouts import FRACTION, Layout, has_layout, layouts_of, months_in
from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fast.plain_zones import offsets_in
from lakehouse.decoding.fields import Field
from lakehouse.decoding.time_texts import MAX_OFFSET_HOURS, MAX_OFFSET_MINUTES, MONTH_NAME, UTC_OFFSET

_LIMITS = {"%H": 24, "%M": 60, "%S": 60}
_SECONDS = {"%H": 3600, "%M": 60, "%S": 1}
_SECOND, _NANO_PLACES = 1_000_000, 9
_FIRST_TIME, _LAST_TIME = -719_162 * 86_400 * _SECOND, 2_932_897 * 86_400 * _SECOND - 1  # of the years 1 to 9999


class _ParsedTimes(NamedTuple):
    """Microseconds since 1970, UTC or local, and masks of the rows that are parsed and of those with an offset.

    Rows that are not parsed have any time.
    """

    times: Any
    is_parsed: Mask
    has_offset: Mask


def parse_times(texts: pa.Array, field: Field) -> tuple[Any, Mask]:
    """Return microseconds since 1970, UTC, and a mask of the rows that are parsed; other rows are 0.

    The strict rules decide about the others: they do not match the pattern, are not dates, are rejected by the time
    zone, or are null.
    """
    times, is_parsed, has_offset = _parse_texts(texts, field)
    if field.zone:
        rows = np.flatnonzero(is_parsed & ~has_offset)
        utc_offsets, is_certain = offsets_in(times[rows] // _SECOND, field.zone)
        times[rows] -= utc_offsets * _SECOND
        is_parsed[rows] = is_certain
    is_parsed &= (times >= _FIRST_TIME) & (times <= _LAST_TIME)
    return np.where(is_parsed, times, 0), is_parsed


def _parse_texts(texts: pa.Array, field: Field) -> _ParsedTimes:
    _, starts, data = texts.buffers()
    offsets = np.frombuffer(starts, np.int64, len(texts) + 1, texts.offset * 8)
    parsed_times = _no_times(len(texts))
    if data is None:
        return parsed_times
    characters, lengths = np.frombuffer(data, np.uint8), np.diff(offsets)
    for length in np.unique(lengths).tolist():
        layouts = layouts_of(field, length)
        if not layouts:
            continue
        rows = np.flatnonzero(lengths == length)
        if len(rows) == len(texts):
            matrix = characters[offsets[0] : offsets[-1]].reshape(-1, length).T.copy()
            return _parse_matrix(matrix, layouts, is_local=field.zone is not None)
        row_starts = offsets[:-1][rows]
        indices = row_starts + np.arange(length)[:, np.newaxis]
        _set_rows(parsed_times, rows, _parse_matrix(characters[indices], layouts, is_local=field.zone is not None))
    return parsed_times


def _no_times(count: int) -> _ParsedTimes:
    return _ParsedTimes(np.zeros(count, np.int64), np.zeros(count, bool), np.zeros(count, bool))


def _set_rows(parsed_times: _ParsedTimes, rows: Any, row_times: _ParsedTimes) -> None:
    for array, row_values in zip(parsed_times, row_times, strict=True):
        array[rows] = row_values


def _parse_matrix(characters: Any, layouts: list[Layout], *, is_local: bool) -> _ParsedTimes:
    """Parse texts of one length; row i of the matrix has the i-th character of every text.

    If times without an offset are local, a fraction that is rounded to a second is left to the strict rules: the zone
    decides about the time before it is rounded.
    """
    digits = characters - np.uint8(48)  # a character below "0" wraps around to a large number
    are_digits = digits < 10
    parsed_times = _no_times(characters.shape[1])
    for layout in layouts:
        fits = has_layout(characters, are_digits, layout)
        if fits.all():
            return _parse_layout(characters, digits, layout, is_local=is_local)
        rows = np.flatnonzero(fits)
        if len(rows):
            row_times = _parse_layout(characters[:, rows], digits[:, rows], layout, is_local=is_local)
            _set_rows(parsed_times, rows, row_times)
    return parsed_times


def _parse_layout(characters: Any, digits: Any, layout: Layout, *, is_local: bool) -> _ParsedTimes:
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
        elif part == MONTH_NAME:
            numbers["%m"] = months_in(characters[span])
        elif isinstance(part, str):
            numbers[part] = _number(digits[span])
    seconds, exists = _local_seconds(numbers)
    is_valid = is_valid & exists
    if is_local and utc_offsets is None:
        is_valid &= fraction < _SECOND
    times = (seconds if utc_offsets is None else seconds - utc_offsets) * _SECOND + fraction
    return _ParsedTimes(times, is_valid, np.full(len(times), utc_offsets is not None))


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
