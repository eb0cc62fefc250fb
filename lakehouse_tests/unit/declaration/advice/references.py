"""References: options that their columns cannot have."""

from lakehouse.declaration import RecordKey
from lakehouse_tests.unit.declaration.advice.example import Example
from lakehouse_tests.unit.declaration.ratings import SPOT, column, with_reference

EXAMPLES = [
    Example(
        "reference movies: key is empty",
        "Name the columns that identify a row.",
        with_reference(key=[]),
        with_reference(key=["id"]),
    ),
    Example(
        "reference movies: column n: source must be a field",
        "A line of a file has only fields. Name one of them.",
        with_reference(column(source=RecordKey())),
        with_reference(column(source="m")),
    ),
    Example(
        "reference movies: column spot cannot have type STRUCT<x: DOUBLE>",
        "Remove the column. A field within an object can be a column of its own, with its path as source.",
        with_reference(SPOT),
        with_reference(column("x", "DOUBLE", source=("spot", "x"))),
    ),
    Example(
        "reference movies: column n: keep is not allowed",
        "A reference is loaded as a whole. Remove keep.",
        with_reference(column(keep=True)),
        with_reference(column()),
    ),
    Example(
        "reference movies: column n: invalid is not allowed",
        "A reference is loaded as a whole. Remove invalid.",
        with_reference(column(invalid="null")),
        with_reference(column()),
    ),
]
