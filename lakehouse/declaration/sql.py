"""What a piece of SQL in a declaration may not be, told by its text: before any Spark is there to ask.

Whether its types fit is for Spark to say.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from lakehouse.declaration.field_types import Problem

if TYPE_CHECKING:
    from sqlglot import exp

# another figure each time, by chance, or by who computes it and from which file
_BY_CHANCE = {"input_file_name", "monotonically_increasing_id", "rand", "randn", "random", "randstr", "shuffle"}
_BY_CHANCE |= {"java_method", "reflect", "spark_partition_id", "try_reflect", "uniform", "uuid"}
_BY_THE_CLOCK = {"curdate", "current_date", "current_time", "current_timestamp", "localtimestamp", "now"}
# another figure where the rows meet in another order; collect_list, collect_set and listagg by the parser's names
_BY_ORDER = {"any_value", "array_agg", "array_unique_agg", "first", "first_value", "group_concat", "last", "last_value"}


def condition_problems(sql: str, columns: Collection[str]) -> Iterator[Problem]:
    """What is wrong with a condition of a row of these columns; it may ask the clock."""
    yield from _problems(sql, columns, dict.fromkeys(_BY_CHANCE, "by chance, or by who computes it"))


def measure_problems(sql: str, columns: Collection[str]) -> Iterator[Problem]:
    """What is wrong with an aggregate over rows of these columns: a recomputation gives the same figure."""
    varying = dict.fromkeys(_BY_CHANCE, "by chance, or by who computes it") | dict.fromkeys(
        _BY_THE_CLOCK, "by the clock"
    )
    yield from _problems(sql, columns, varying | dict.fromkeys(_BY_ORDER, "by the order in which rows meet"))


def _problems(sql: str, columns: Collection[str], varying: dict[str, str]) -> Iterator[Problem]:
    import sqlglot  # noqa: PLC0415 - slow to import, and declarations without SQL need none of it
    from sqlglot import exp  # noqa: PLC0415

    try:
        root = sqlglot.parse_one(sql, read="spark", into=exp.Condition)
    except sqlglot.errors.SqlglotError:
        root = None
    if root is None or isinstance(root, exp.Command | exp.Block | exp.Star):
        action = "Write one expression of Spark's SQL; a name that is a word of SQL stands in backticks."
        yield f"{sql!r} is no SQL expression", action
        return
    if root.find(exp.Query, exp.Window):
        yield f"{sql!r} looks at other rows", "Write it over the columns of the table alone, without SELECT or OVER."
    known = {name.lower() for name in columns}
    for column in root.find_all(exp.Column):
        name = column.parts[0].name
        if name.lower() not in known:
            yield f"{sql!r} names an unknown column: {name}", f"The table has {', '.join(sorted(columns))}."
    for function in root.find_all(exp.Func):
        for name in sorted({each.lower() for each in _names(function)} & varying.keys()):
            yield f"{sql!r} differs {varying[name]}: {name}()", "Leave it out: it has to give the same each time."


def _names(function: "exp.Func") -> list[str]:
    from sqlglot import exp  # noqa: PLC0415

    return [function.name] if isinstance(function, exp.Anonymous) else function.sql_names()
