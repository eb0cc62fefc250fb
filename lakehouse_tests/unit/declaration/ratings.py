"""A table of ratings, and variants of its declaration: most tests of the rules change one option of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakehouse.declaration import Check, Column, Computed, Measure, Month, Reference, Rollup, StreamTable, Time, Version

TableFactory = Callable[[], StreamTable]
"""Creates a table when it is called, so that a test can catch the error."""

ID = Column("id", "BIGINT", required=True, doc="Number of the movie.")
RATED_AT = Column(
    "rated_at",
    "TIMESTAMP",
    required=True,
    source="time",
    written=Time("%Y-%m-%d %H:%M:%S"),
    doc="When it was rated.",
)
STARS = Column("stars", "INT", between=(1, 5), doc="One to five.")
TAGS = Column("tags", "ARRAY<STRING>", "Words.")
SPOT = Column("spot", "STRUCT<x: DOUBLE>", "Where.")
LABELS = Column("labels", "MAP<STRING, STRING>", "Names.")
DOUBLES = Column("doubles", "ARRAY<DOUBLE>", "Numbers.")
MEASURES = {"ratings": Measure("count(*)", "BIGINT", "How many.")}


def declare(*columns: Column | Computed, **changes: Any) -> StreamTable:
    """The table with further columns and other options."""
    parts: dict[str, Any] = {"columns": [ID, RATED_AT, STARS, *columns], "key": ["id"]}
    parts |= {} if "source" in changes else {"topic": "ratings"}
    return StreamTable(**{"name": "ratings", "doc": "Ratings."} | parts | changes)


def column(name: str = "n", type_: str = "INT", **rules: Any) -> Column:
    """A column of any kind."""
    return Column(name, type_, "A column.", **rules)


def computed(sql: str, name: str = "n", type_: str = "INT") -> Computed:
    """A computed column of any kind."""
    return Computed(name, type_, sql, "A column.")


def oldest(name: str) -> Version:
    """A version in which a record without a value is the oldest."""
    return Version(name, nulls="oldest")


def declare_rollup(**changes: Any) -> StreamTable:
    """The table, partitioned by month, with a rollup."""
    parts: dict[str, Any] = {"name": "by_movie", "by": ["id"], "measures": MEASURES, "doc": "By movie."}
    return declare(partition_by=Month("rated_at"), rollups=[Rollup(**parts | changes)])


def declare_reference(*columns: Column, **changes: Any) -> StreamTable:
    """The table with a reference of these columns."""
    parts: dict[str, Any] = {"name": "movies", "file": Path("movies.jsonl"), "key": ["id"], "doc": "The movies."}
    return declare(references=[Reference(**parts | {"columns": [ID, *columns]} | changes)])


def declare_measure(sql: str, *columns: Column | Computed) -> StreamTable:
    """The table with a rollup of this measure."""
    return declare(*columns, rollups=[Rollup("r", ["id"], {"m": Measure(sql, "DOUBLE", "")}, "")])


def declare_sum(sql: str, type_: str = "DOUBLE") -> StreamTable:
    """The table with a measure over a column n, a DOUBLE by default."""
    return declare_measure(sql, column("n", type_))


def measures(*names: str, type_: str = "BIGINT") -> dict[str, Measure]:
    """Measures of these names."""
    return {name: Measure("count(*)", type_, "") for name in names}


def with_column(**changes: Any) -> TableFactory:
    """The table with one further column."""
    return lambda: declare(column(**changes))


def with_columns(*columns: Column | Computed, **changes: Any) -> TableFactory:
    """The table with further columns and other options."""
    return lambda: declare(*columns, **changes)


def log_table(*columns: Column | Computed, **changes: Any) -> TableFactory:
    """The table without a key, as a log table."""
    return with_columns(*columns, **{"key": []} | changes)


def with_rollup(**changes: Any) -> TableFactory:
    """The table with a rollup that has these options."""
    return lambda: declare_rollup(**changes)


def with_reference(*columns: Column, **changes: Any) -> TableFactory:
    """The table with a reference that has these columns and options."""
    return lambda: declare_reference(*columns, **changes)


def with_measure(sql: str, *columns: Column | Computed) -> TableFactory:
    """The table with a rollup of this measure."""
    return lambda: declare_measure(sql, *columns)


def with_check(sql: str, *columns: Column | Computed, name: str = "c") -> TableFactory:
    """The table with this check."""
    return with_columns(*columns, checks=[Check(name, sql, "A check.")])


def with_computed(sql: str, type_: str = "INT") -> TableFactory:
    """The table with this computed column, over columns of every kind."""
    kinds = {"name": "STRING", "paid": "BOOLEAN", "price": "DECIMAL(12,2)", "weight": "DOUBLE"}
    columns = [column(name, kind) for name, kind in kinds.items()]
    day = column("day", "DATE", written=Time("%Y-%m-%d"))
    return with_columns(*columns, day, computed(sql, type_=type_))
