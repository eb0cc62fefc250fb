"""Convert many times from text to microseconds since 1970, if the text matches the pattern exactly."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse.decoding.conversion.numbers import Mask
from lakehouse.decoding.fields import Field
from lakehouse.decoding.time_texts import ISO8601, MAX_OFFSET_HOURS, MAX_OFFSET_MINUTES, MONTH_NAME, MONTHS, UTC_OFFSET
from lakehouse.decoding.written_forms import REQUIRED, Zone

Part = str | bytes
"""A directive of a pattern, or the bytes of which a text has one at this place."""
Layout = tuple[tuple[Part, int], ...]
"""The parts of a text, each with its width."""

FRACTION = "%f"
_WIDTHS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2, MONTH_NAME: 3}
_OFFSET_WIDTHS = (1, 3, 5, 6)  # Z, +02, +0200, +02:00
_PARTS = re.compile(rb"%[YmbdHMSfz]|.", re.DOTALL)
# if digits follow, the length alone does not determine the width of a fraction or of an offset
_AMBIGUOUS = re.compile(r"%[fz](%[YmdHMSf]|\d)")
Seconds = npt.NDArray[np.int64]
_DAY = 86_400
_PERIODS = _DAY, 3_600, 1  # seconds: a period in which clocks change is divided into shorter ones
_UNCERTAIN = 10**9  # in place of an offset
_LIMITS = {"%H": 24, "%M": 60, "%S": 60}
_SECONDS = {"%H": 3600, "%M": 60, "%S": 1}
_SECOND, _NANO_PLACES = 1_000_000, 9
_FIRST_TIME, _LAST_TIME = -719_162 * 86_400 * _SECOND, 2_932_897 * 86_400 * _SECOND - 1  # of the years 1 to 9999


def layouts_of(field: Field, length: int) -> list[Layout]:
    """The layouts of texts of this length that the pattern of a field accepts; a text has at most one of them."""
    pattern = field.form.pattern or ""
    if pattern == ISO8601:
        templates = _ISO_DATES if field.type == "DATE" else _ISO_TIMES
        return [layout for template in templates for layout in _layouts(template, length, max_fraction=9)]
    return [] if _AMBIGUOUS.search(pattern) else [*_layouts(_split(pattern), length, max_fraction=6)]


def _layouts(template: tuple[Part, ...], length: int, max_fraction: int) -> Iterator[Layout]:
    """Yield the layouts of a template: the fraction has at least one digit, the offset one of few widths."""
    other_width = length - sum(_WIDTHS.get(part, 0) if isinstance(part, str) else 1 for part in template)
    for offset_width in _OFFSET_WIDTHS if UTC_OFFSET in template else (0,):
        fraction_width = other_width - offset_width
        if 1 <= fraction_width <= max_fraction if FRACTION in template else fraction_width == 0:
            widths = {**_WIDTHS, FRACTION: fraction_width, UTC_OFFSET: offset_width}
            yield tuple((part, widths[part] if isinstance(part, str) else 1) for part in template)


def _split(pattern: str) -> tuple[Part, ...]:
    return tuple(part.decode() if len(part) > 1 else part for part in _PARTS.findall(pattern.encode()))


def has_layout(characters: Any, are_digits: Any, layout: Layout) -> Mask:
    """Which texts have digits and other characters at the places of a layout; names of months are not looked up."""
    fits = np.ones(characters.shape[1], bool)
    start = 0
    for part, width in layout:
        span = slice(start, start + width)
        if isinstance(part, bytes):
            fits &= _is_one_of(characters[start], part)
        elif part == UTC_OFFSET:
            fits &= _is_offset(characters[span], are_digits[span])
        elif part != MONTH_NAME:  # a text without such a name has month 0, which does not exist
            fits &= are_digits[span].all(axis=0)
        start += width
    return fits


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


def months_in(characters: Any) -> Any:
    """The number of the month that three characters of each text name; 0 if they name none."""
    codes = (characters[0].astype(np.int32) << 16) | (characters[1].astype(np.int32) << 8) | characters[2]
    places = np.minimum(np.searchsorted(_MONTH_CODES, codes), len(_MONTH_CODES) - 1)
    return np.where(_MONTH_CODES[places] == codes, _MONTH_NUMBERS[places], 0)


_MONTH_CODES, _MONTH_NUMBERS = np.array(
    sorted((int.from_bytes(name.encode(), "big"), number) for name, number in MONTHS.items()), np.int32
).T
_ISO_DATES = (_split("%Y-%m-%d"),)
_MINUTES = (*_ISO_DATES[0], b"Tt ", *_split("%H:%M"))
_ISO_SECONDS = (*_MINUTES, *_split(":%S"))
_FRACTIONS = (*_ISO_SECONDS, b".,", FRACTION)
_ISO_TIMES = tuple(
    (*parts, *ending) for parts in (_ISO_SECONDS, _FRACTIONS, _MINUTES) for ending in ((), (UTC_OFFSET,))
)
_ISO_TIMES += _ISO_DATES


def offsets_in(local_times: Seconds, zone: Zone) -> tuple[Seconds, Mask]:
    """Return the offset of each local time in seconds, and a mask of the times that have one.

    A time that the zone rejects has none. Times are seconds since 1970 of the years 1 to 9999.
    """
    utc_offsets, is_certain = np.full(len(local_times), _UNCERTAIN), np.zeros(len(local_times), bool)
    if zone.name == REQUIRED:
        return utc_offsets, is_certain
    for period in _PERIODS:
        rows = np.flatnonzero(~is_certain)
        if len(rows):
            periods, indices = np.unique(local_times[rows] // period, return_inverse=True)
            utc_offsets[rows] = _offsets_of_periods(periods * period, period, zone)[indices]
            is_certain = utc_offsets != _UNCERTAIN
    return utc_offsets, is_certain


def _offsets_of_periods(starts: Seconds, period: int, zone: Zone) -> Seconds:
    """The offset of each period; no zone of the tz database changes its clocks twice within two days."""
    info = ZoneInfo(zone.name)
    before = _in_seconds(map(info.utcoffset, starts.astype("datetime64[s]").tolist()))
    after = _in_seconds(map(info.utcoffset, _second_occurrences(starts + period - 1)))
    uncertain = np.full(len(starts), _UNCERTAIN)
    choices = {"reject": uncertain, "earlier": np.maximum(before, after), "later": np.minimum(before, after)}
    chosen = np.where(before > after, choices[zone.ambiguous], choices[zone.missing]) if period == 1 else uncertain
    return np.where(before == after, before, chosen)


def _second_occurrences(local_times: Seconds) -> list[datetime]:
    """Local times that mean the second one if they occur twice; faster than ``datetime.replace`` for each."""
    seconds_of_day = (local_times % _DAY).tolist()
    clocks = {
        second: (datetime.min + timedelta(seconds=second)).time().replace(fold=1) for second in set(seconds_of_day)
    }
    days = local_times.astype("datetime64[s]").tolist()
    return [datetime.combine(day, clocks[second]) for day, second in zip(days, seconds_of_day, strict=True)]


def _in_seconds(utc_offsets: Iterable[timedelta | None]) -> Seconds:
    return np.array([value.days * _DAY + value.seconds for value in utc_offsets if value is not None], np.int64)


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
    if field.form.zone:
        rows = np.flatnonzero(is_parsed & ~has_offset)
        utc_offsets, is_certain = offsets_in(times[rows] // _SECOND, field.form.zone)
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
            return _parse_matrix(matrix, layouts, is_local=field.form.zone is not None)
        row_starts = offsets[:-1][rows]
        indices = row_starts + np.arange(length)[:, np.newaxis]
        _set_rows(parsed_times, rows, _parse_matrix(characters[indices], layouts, is_local=field.form.zone is not None))
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
