"""The rules of what a declaration promises about waiting records."""

from collections.abc import Iterator
from datetime import timedelta

from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem

_MIN_FRESH = timedelta(seconds=30)  # six ticks of the sensor: one slow tick breaks no promise


def promise_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with ``fresh`` and ``max_lag``."""
    if table.fresh is not None and table.fresh < _MIN_FRESH:
        yield (
            f"fresh is {table.fresh}, but the minimum is 30 seconds",
            "The sensor looks every five seconds. Declare more.",
        )
    if table.max_lag is not None and table.max_lag < 0:
        yield f"max_lag is {table.max_lag}, but the minimum is 0", "Declare the number of offsets that may wait."
