"""Times in the values of some records: the unit of a number, and what texts do not show."""

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.fields import Epoch
from lakehouse.decoding.time_texts import ISO8601
from lakehouse.decoding.times import EPOCHS
from lakehouse.decoding.values import convert_value

_SINCE_1970 = re.compile(r"(.*_)?(time|timestamp|ts|at|date|ms|millis|epoch|created|updated|modified|expires)")
_NANOSECONDS = re.compile(r"(.*_)?(ns|nanos?)")
_PRESENT_DAYS = 10**9, 4 * 10**9  # seconds since 1970: from 2001 to 2096
_WITH_OFFSET = re.compile(r"[Tt ].*(Z|z|[+-]\d\d(:?\d\d)?)$", re.ASCII)
_LONG_FRACTION = re.compile(r"[.,]\d{7}", re.ASCII)


def epoch_unit(values: Sequence[Decimal]) -> Epoch | None:
    """The unit in which numbers are present-day times; ``None`` if there is none, or if numbers have a finer part.

    Nanoseconds are an exception: they are whole numbers, and rounded to microseconds.
    """
    for unit, places in EPOCHS.items():
        first, last = (day * Decimal(10) ** (6 - places) for day in _PRESENT_DAYS)
        if first <= min(values) and max(values) <= last:
            is_exact = all(value.scaleb(max(places, 0)) % 1 == 0 for value in values)  # two times may become equal
            return unit if is_exact else None
    return None


def named_epoch_unit(name: str, values: Sequence[Decimal]) -> Epoch | None:
    """Like ``epoch_unit``, but only if the name of the column is that of a time."""
    unit = epoch_unit(values)
    is_time = _SINCE_1970.fullmatch(name) or (unit == "nanoseconds" and _NANOSECONDS.fullmatch(name))
    return unit if is_time else None


def epoch_warning(name: str, unit: Epoch) -> str:
    """What to check of a number that is taken for a time."""
    is_rounded_text = ", and is rounded to microseconds" if unit == "nanoseconds" else ""
    return f"{name} looks like a time, in {unit} since 1970{is_rounded_text}. Declare BIGINT if it is a number."


def is_rounded(column: Column, values: Iterable[Any]) -> bool:
    """Whether the values of a column are times with more digits than a TIMESTAMP stores."""
    if column.epoch == "nanoseconds":
        return True
    return column.pattern == ISO8601 and any(map(_LONG_FRACTION.search, values))


def stored_time(value: Any, column: Column) -> Any:
    """The time that is stored for a value, if different values may mean the same time; otherwise the value."""
    return convert_value(value, column.field) if column.pattern == ISO8601 or column.epoch == "nanoseconds" else value


def text_warnings(columns: Sequence[tuple[Column, Sequence[Any]]]) -> Iterator[str]:
    """What to check of columns of texts that are times, each with its values."""
    times = [(column, values) for column, values in columns if column.pattern and column.type == "TIMESTAMP"]
    rounded_names = [column.name for column, values in times if is_rounded(column, values)]
    if rounded_names:
        yield (
            f"{', '.join(rounded_names)}: fractions of more than 6 digits are rounded to microseconds."
            " Declare STRING to keep them."
        )
    local_names = [column.name for column, values in times if not all(map(_WITH_OFFSET.search, values))]
    if local_names:
        yield (
            f"{', '.join(local_names)}: times without an offset are read as UTC. If they are local times, declare"
            ' zone=, for example zone="Europe/Berlin".'
        )
