"""The rules for ``start``: where a new table begins in its topic."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from lakehouse.declaration.start import FIRST_TIME, start_time
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem

_TIME_EXAMPLE = 'Write, for example: start="2026-11-01T00:00:00Z"'
_OFFSETS_EXAMPLE = "Write, for example: start={0: 1200, 1: 900}"


def start_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the start of a table."""
    if isinstance(table.start, Mapping):
        yield from _position_problems(table.start)
        return
    try:
        time = start_time(table.start)
    except ValueError:
        yield f'start is {table.start!r}, which is neither "latest" nor a time in ISO 8601', _TIME_EXAMPLE
        return
    if time is not None:
        yield from _time_problems(time)


def _time_problems(time: datetime) -> Iterator[Problem]:
    if time.utcoffset() is None:
        yield f"start {time} has no time zone", f"It may mean several times. {_TIME_EXAMPLE}"
    elif time < FIRST_TIME:
        yield f"start {time} is before 1970", "Remove start: a new table begins at the first record of the topic."


def _position_problems(positions: Mapping[int, int]) -> Iterator[Problem]:
    if not positions:
        yield "start names no partition", _OFFSETS_EXAMPLE
    for partition, position in positions.items():
        if partition < 0:
            yield f"start names partition {partition}, but the first one is 0", _OFFSETS_EXAMPLE
        if position < 0:
            message = f"start: offset {position} of partition {partition} is negative"
            yield message, 'Name the first offset to merge. To begin at the end of the topic, write start="latest".'
