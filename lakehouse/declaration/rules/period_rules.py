"""The rules of periods and promises: retention, days to replay, and how long or how many records wait."""

from collections.abc import Iterator
from datetime import date, timedelta

from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem

_MIN_RETENTION = timedelta(hours=1)  # longer than any batch runs: VACUUM cannot distinguish its files from unused ones
_MAX_RETENTION = timedelta(days=36_525)
_MIN_FRESH = timedelta(seconds=30)  # six ticks of the sensor: one slow tick breaks no promise
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_MIN_MAINTENANCE = timedelta(minutes=5)
_FIRST_DAY, _LAST_DAY = date(1970, 1, 1), date(9999, 12, 30)  # Dagster adds a day, and the last one of all is the 31st


def period_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the periods of a table; one rule for each."""
    if table.retention < _MIN_RETENTION:
        message = f"retention is {table.retention}, but the minimum is one hour"
        yield message, "VACUUM would remove files of a running batch. Declare at least one hour."
    if table.retention > _MAX_RETENTION:
        yield "retention is more than 100 years", "Delta subtracts it from the current time. Declare less."
    if table.replay_from and not _FIRST_DAY <= table.replay_from <= _LAST_DAY:
        message = f"replay_from is {table.replay_from}, but must be between {_FIRST_DAY} and {_LAST_DAY}"
        yield message, "Declare the first day of which the topic has records."
    if table.fresh is not None and table.fresh < _MIN_FRESH:
        message = f"fresh is {table.fresh}, but the minimum is 30 seconds"
        yield message, "The sensor looks every five seconds. Declare more."
    if table.max_lag is not None and table.max_lag < 0:
        yield f"max_lag is {table.max_lag}, but the minimum is 0", "Declare the number of offsets that may wait."
    yield from _maintenance_problems(table.maintain_every)


def _maintenance_problems(every: timedelta) -> Iterator[Problem]:
    """What is wrong with how often a table is maintained: a schedule cannot say every period."""
    if not _MIN_MAINTENANCE <= every <= _DAY:
        message = f"maintain_every is {every}, but must be between 5 minutes and one day"
        yield message, "Declare, for example: maintain_every=timedelta(hours=1)"
    elif (every < _HOUR and _HOUR % every) or (every >= _HOUR and (_DAY % every or every % _HOUR)):
        message = f"maintain_every is {every}, which divides neither an hour nor a day into equal parts"
        yield message, "Declare minutes that divide an hour, or hours that divide a day."
    elif every % timedelta(minutes=1):
        yield f"maintain_every is {every}, but must be whole minutes", "Declare whole minutes."
