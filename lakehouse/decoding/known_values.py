"""Find the rows with values that no row of a reference has.

Pure: it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
from pyarrow.compute import and_, invert, is_in


class KnownValues(NamedTuple):
    """The values of some columns in all rows of a reference: the names of the columns, and an array for each."""

    names: tuple[str, ...]
    arrays: tuple[pa.Array, ...]


def unknown_finder(known_values: KnownValues) -> Callable[[pa.StructArray], pa.Array]:
    """Return a function that says which rows have values in all of the columns, but not those of a known row."""
    names, (first, *other_arrays) = known_values
    known_rows = (
        set(zip(first.to_pylist(), *(array.to_pylist() for array in other_arrays), strict=True))
        if other_arrays
        else set()
    )

    def find_unknown(rows: pa.StructArray) -> pa.Array:
        columns = [rows.field(name) for name in names]
        has_values = columns[0].is_valid()
        for column in columns[1:]:
            has_values = and_(has_values, column.is_valid())
        if not other_arrays:
            return and_(has_values, invert(is_in(columns[0], value_set=first)))
        keys = zip(*(column.to_pylist() for column in columns), strict=True)
        return and_(has_values, pa.array([key not in known_rows for key in keys], pa.bool_()))

    return find_unknown
