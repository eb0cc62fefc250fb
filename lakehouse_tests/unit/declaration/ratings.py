"""A table of ratings, and ways to declare it otherwise: most tests of what is refused change one word of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakehouse.declaration import Check, Column, Measure, Month, Reference, Rollup, StreamTable

Made = Callable[[], StreamTable]
"""A table that is made when it is called, so that what refuses it is seen there."""

ID = Column("id", "BIGINT", required=True, doc="Number of the movie.")
RATED_AT = Column(
    "rated_at", "TIMESTAMP", required=True, source="time", pattern="%Y-%m-%d %H:%M:%S", doc="When it was rated."
)
STARS = Column("stars", "INT", between=(1, 5), doc="One to five.")
TAGS = Column("tags", "ARRAY<STRING>", "Words.")
SPOT = Column("spot", "STRUCT<x: DOUBLE>", "Where.")
LABELS = Column("labels", "MAP<STRING, STRING>", "Names.")
DOUBLES = Column("doubles", "ARRAY<DOUBLE>", "Numbers.")
MEASURES = {"ratings": Measure("count(*)", "BIGINT", "How many.")}


def declare(*columns: Column, **changes: Any) -> StreamTable:
    """The table with more columns, and other words."""
    parts: dict[str, Any] = {"columns": [ID, RATED_AT, STARS, *columns], "key": ["id"]}
    return StreamTable(**{"name": "ratings", "topic": "ratings", "doc": "Ratings."} | parts | changes)


def column(name: str = "n", type_: str = "INT", **rules: Any) -> Column:
    """A column of any kind."""
    return Column(name, type_, "A column.", **rules)


def rollup(**changes: Any) -> StreamTable:
    """The table, by months, with a rollup."""
    parts: dict[str, Any] = {"name": "by_movie", "by": ["id"], "measures": MEASURES, "doc": "By movie."}
    return declare(partition_by=Month("rated_at"), rollups=[Rollup(**parts | changes)])


def reference(*columns: Column, **changes: Any) -> StreamTable:
    """The table with a reference of these columns."""
    parts: dict[str, Any] = {"name": "movies", "file": Path("movies.jsonl"), "key": ["id"], "doc": "The movies."}
    return declare(references=[Reference(**parts | {"columns": [ID, *columns]} | changes)])


def measured(sql: str, *more: Column) -> StreamTable:
    """The table with a rollup of this measure."""
    return declare(*more, rollups=[Rollup("r", ["id"], {"m": Measure(sql, "DOUBLE", "")}, "")])


def measures(*names: str, type_: str = "BIGINT") -> dict[str, Measure]:
    """Measures of these names."""
    return {name: Measure("count(*)", type_, "") for name in names}


def one(**changes: Any) -> Made:
    """The table with one more column of this kind."""
    return lambda: declare(column(**changes))


def more(*columns: Column, **changes: Any) -> Made:
    """The table with more columns, and other words."""
    return lambda: declare(*columns, **changes)


def log(*columns: Column, **changes: Any) -> Made:
    """The table without a key."""
    return more(*columns, **{"key": []} | changes)


def grouped(**changes: Any) -> Made:
    """The table with a rollup of this kind."""
    return lambda: rollup(**changes)


def described(*columns: Column, **changes: Any) -> Made:
    """The table with a reference of this kind."""
    return lambda: reference(*columns, **changes)


def measuring(sql: str, *columns: Column) -> Made:
    """The table with a rollup of this measure."""
    return lambda: measured(sql, *columns)


def checking(sql: str, *columns: Column, name: str = "c") -> Made:
    """The table with this check."""
    return more(*columns, checks=[Check(name, sql, "A check.")])


def computing(sql: str, type_: str = "INT") -> Made:
    """The table with this computed column, over columns of every kind."""
    kinds = {"name": "STRING", "paid": "BOOLEAN", "price": "DECIMAL(12,2)", "weight": "DOUBLE"}
    told = [column(name, kind) for name, kind in kinds.items()]
    day = column("day", "DATE", pattern="%Y-%m-%d")
    return more(*told, day, column("n", type_, sql=sql))
