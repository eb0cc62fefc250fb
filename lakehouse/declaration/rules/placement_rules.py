"""The rules for where rows are stored: partitions, and columns by which files are grouped."""

from collections import Counter
from collections.abc import Iterator

from lakehouse.declaration.misspelt import spelling_hint
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem

_MAX_CLUSTERED = 4


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
        elif column.keep:
            message = f"partition_by {column.name} is a kept column"
            yield message, "A row is stored in the partition of its newest record. Remove keep."


def clustering_problems(table: TableParts) -> Iterator[Problem]:
    """Columns that cannot order files: Delta's log must contain the smallest and largest value of each file."""
    if table.cluster_by and table.partition_by:
        message = "partition_by and cluster_by cannot be combined"
        yield message, "Partitions already decide where rows are stored. Remove one of the two."
    if len(table.cluster_by) > _MAX_CLUSTERED:
        message = f"cluster_by has {len(table.cluster_by)} columns, but the maximum is {_MAX_CLUSTERED}"
        yield message, "Further columns have no effect. Remove them."
    for name, count in Counter(table.cluster_by).items():
        column = table.by_name.get(name)
        if column is None:
            hint = spelling_hint(name, table.by_name)
            yield f"unknown column in cluster_by: {name}", f"{hint}Declare the column, or correct the name."
        elif column.type in ("BOOLEAN", "DOUBLE"):
            yield f"cluster_by {name} is {column.type}", "Name a column of exact numbers, times or strings."
        if count > 1:
            yield f"{name} is listed twice in cluster_by", "List it once."
