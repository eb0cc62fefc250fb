"""The rules for periods, promises and where rows are stored. Each rule yields what is wrong, and what to do."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from lakehouse.declaration.names import spelling_hint
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem

_MIN_RETENTION = timedelta(hours=1)  # longer than any batch runs: VACUUM cannot distinguish its files from unused ones
_MAX_RETENTION = timedelta(days=36_525)
_MIN_FRESH = timedelta(seconds=30)  # six ticks of the sensor: one slow tick breaks no promise
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_MIN_MAINTENANCE = timedelta(minutes=5)
_MAX_CLUSTERED = 4


def period_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the periods of a table; one rule for each."""
    retention, promise = table.upkeep.retention, table.promise
    if retention < _MIN_RETENTION:
        message = f"retention is {retention}, but the minimum is one hour"
        yield message, "VACUUM would remove files of a running batch. Declare at least one hour."
    if retention > _MAX_RETENTION:
        yield "retention is more than 100 years", "Delta subtracts it from the current time. Declare less."
    if promise.fresh is not None and promise.fresh < _MIN_FRESH:
        message = f"fresh is {promise.fresh}, but the minimum is 30 seconds"
        yield message, "The sensor looks every five seconds. Declare more."
    if promise.max_lag is not None and promise.max_lag < 0:
        yield f"max_lag is {promise.max_lag}, but the minimum is 0", "Declare the number of offsets that may wait."
    yield from _maintenance_problems(table.upkeep.every)


def _maintenance_problems(every: timedelta) -> Iterator[Problem]:
    """What is wrong with how often a table is maintained: a schedule cannot say every period."""
    if not _MIN_MAINTENANCE <= every <= _DAY:
        message = f"every of upkeep is {every}, but must be between 5 minutes and one day"
        yield message, "Declare, for example: Upkeep(every=timedelta(hours=1))"
    elif (every < _HOUR and _HOUR % every) or (every >= _HOUR and (_DAY % every or every % _HOUR)):
        message = f"every of upkeep is {every}, which divides neither an hour nor a day into equal parts"
        yield message, "Declare minutes that divide an hour, or hours that divide a day."
    elif every % timedelta(minutes=1):
        yield f"every of upkeep is {every}, but must be whole minutes", "Declare whole minutes."


def partition_problems(table: TableParts) -> Iterator[Problem]:
    """A partition column that is missing, has no fitting type, or is the entire key or a kept column."""
    if table.partition_by:
        column = table.by_name.get(table.partition_by.column)
        types = table.partition_by.types
        if column is None or column.type not in types:
            requirement = f"{type(table.partition_by).__name__} requires a column of type {' or '.join(types)}"
            name = table.partition_by.column
            is_date = column is not None and column.type == "DATE"
            by_value = f"Write Value({name!r}): a DATE is already a day."
            hint = spelling_hint(name, [usable.name for usable in table.columns if usable.type in types])
            yield f"partition_by: {requirement}", by_value if is_date else f"{hint}Replace {name} with such a column."
        elif [table.partition_by.name] == list(table.key):
            message = f"partition_by {column.name} is the entire key"
            yield message, "Each row would be in a folder of its own. Partition by a period, or remove partition_by."
        elif column.name in table.keep:
            message = f"partition_by {column.name} is a kept column"
            yield message, "A row is stored in the partition of its newest record. Remove keep."


def clustering_problems(table: TableParts) -> Iterator[Problem]:
    """Columns that cannot order files: Delta's log must contain the smallest and largest value of each file."""
    cluster_by = table.upkeep.cluster_by
    if cluster_by and table.partition_by:
        message = "partition_by and cluster_by cannot be combined"
        yield message, "Partitions already decide where rows are stored. Remove one of the two."
    if len(cluster_by) > _MAX_CLUSTERED:
        message = f"cluster_by has {len(cluster_by)} columns, but the maximum is {_MAX_CLUSTERED}"
        yield message, "Further columns have no effect. Remove them."
    for name, count in Counter(cluster_by).items():
        column = table.by_name.get(name)
        if column is None:
            hint = spelling_hint(name, table.by_name)
            yield f"unknown column in cluster_by: {name}", f"{hint}Declare the column, or correct the name."
        elif column.type in ("BOOLEAN", "DOUBLE"):
            yield f"cluster_by {name} is {column.type}", "Name a column of exact numbers, times or strings."
        if count > 1:
            yield f"{name} is listed twice in cluster_by", "List it once."
