"""References: what their files do not say, and their columns cannot be."""

from lakehouse.declaration import RecordKey
from lakehouse_tests.unit.declaration.advice.example import Example
from lakehouse_tests.unit.declaration.ratings import SPOT, column, described

EXAMPLES = [
    Example(
        "reference movies: a table needs a key",
        "Name the columns that tell one row from another.",
        described(key=[]),
        described(key=["id"]),
    ),
    Example(
        "reference movies: column n: its source is for records",
        "A line of a file has fields and nothing beside them: name one.",
        described(column(source=RecordKey())),
        described(column(source="m")),
    ),
    Example(
        "reference movies: column n: it is computed",
        "A reference holds what its file says: leave sql out.",
        described(column(sql="id")),
        described(column()),
    ),
    Example(
        "reference movies: column spot is STRUCT<x: DOUBLE>",
        "Leave it out; a field within an object can be a column, by its path as source.",
        described(SPOT),
        described(),
        described(column("x", "DOUBLE", source=("spot", "x"))),
    ),
    Example(
        "reference movies: column n: keep is for records",
        "A reference is read whole: leave keep out.",
        described(column(keep=True)),
        described(column()),
    ),
]
