"""Times as text → microseconds since 1970, many at once, where each is plainly written by the pattern.

Every part but the fraction of a second has a fixed width, so texts of one length are a matrix of characters.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa

_WIDTHS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2}
_PARTS = re.compile(rb"%[YmdHMSf]|.", re.DOTALL)
_LIMITS = {"%H": 24, "%M": 60, "%S": 60}
_SECONDS = {"%H": 3600, "%M": 60, "%S": 1}
# where digits follow a fraction, its width does not follow from the length alone
_UNCLEAR = re.compile(r"%f(%|\d)")


def parse_times(texts: pa.Array, pattern: str) -> tuple[Any, Any]:
    """Return microseconds since 1970, UTC, and where they are right: elsewhere they are 0.

    What is not is to be judged by the strict rules: written otherwise, a date that does not exist, or none at all.
    """
    _, starts, data = texts.buffers()
    offsets = np.frombuffer(starts, np.int64, len(texts) + 1, texts.offset * 8)
    times, read = np.zeros(len(texts), np.int64), np.zeros(len(texts), bool)
    if data is None or _UNCLEAR.search(pattern):
        return times, read
    characters, lengths = np.frombuffer(data, np.uint8), np.diff(offsets)
    for length in np.unique(lengths).tolist():
        parts = _laid_out(pattern, length)
        if parts is None:
            continue
        rows = np.flatnonzero(lengths == length)
        if len(rows) == len(texts):
            return _parse(characters[offsets[0] : offsets[-1]].reshape(-1, length).T.copy(), parts)
        begins = offsets[:-1][rows]
        places = begins + np.arange(length)[:, np.newaxis]
        times[rows], read[rows] = _parse(characters[places], parts)
    return times, read


def _laid_out(pattern: str, length: int) -> list[tuple[str | int, int]] | None:
    """The parts of a text of so many bytes: a directive and its width, or a byte; ``None`` where none has so many."""
    parts = [each.decode() if len(each) > 1 else each[0] for each in _PARTS.findall(pattern.encode())]
    fixed = sum(_WIDTHS.get(part, 0) if isinstance(part, str) else 1 for part in parts)
    fraction = length - fixed
    if not 1 <= fraction <= 6 if "%f" in parts else fraction:
        return None
    return [(part, 1 if isinstance(part, int) else _WIDTHS.get(part, fraction)) for part in parts]


def _parse(characters: Any, parts: list[tuple[str | int, int]]) -> tuple[Any, Any]:
    """Read texts of one length, given as a matrix: a row for each place."""
    fine = np.ones(characters.shape[1], bool)
    digits = characters - np.uint8(48)  # anything below wraps around to far above
    are_digits = digits < 10
    found: dict[str, Any] = {}
    place = 0
    for part, width in parts:
        inside = slice(place, place + width)
        place += width
        if isinstance(part, int):
            fine &= characters[inside][0] == part
            continue
        fine &= are_digits[inside].all(axis=0)
        number = np.zeros(len(fine), np.int32)
        for digit in digits[inside]:
            number = number * 10 + digit
        found[part] = number * 10 ** (6 - width) if part == "%f" else number
    times, exists = _microseconds(found)
    fine &= exists
    return np.where(fine, times, 0), fine


def _microseconds(found: dict[str, Any]) -> tuple[Any, Any]:
    """Microseconds since 1970, and where there is such a date and time of day."""
    year, month, day = np.minimum(found["%Y"], 9999), found.get("%m", 1), found.get("%d", 1)
    starts, days = _calendar((year - 1970) * 12 + np.clip(month, 1, 12) - 1)
    exists = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= days)
    seconds = (starts + day - 1) * 86400
    for part, limit in _LIMITS.items():
        if part in found:
            exists &= found[part] < limit
            seconds = seconds + found[part] * _SECONDS[part]
    return seconds * 1_000_000 + found.get("%f", 0), exists


def _calendar(months: Any) -> tuple[Any, Any]:
    """The day on which each month begins, and how many it has; months and days are counted from 1970."""
    first = months.min()
    all_months = np.arange(first, months.max() + 2)
    if len(all_months) > len(months):
        return _first_days(months), _first_days(months + 1) - _first_days(months)
    starts = _first_days(all_months)
    return starts[months - first], np.diff(starts)[months - first]


def _first_days(months: Any) -> Any:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
