"""What a piece of SQL in a declaration may not be, told by its text: before any Spark is there to ask.

Whether its types fit is for Spark to say.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from lakehouse.declaration.field_types import Problem

if TYPE_CHECKING:
    from sqlglot import exp

# another figure each time
_BY_CHANCE = dict.fromkeys(
    (
        *("current_user", "input_file_name", "java_method", "monotonically_increasing_id", "rand", "randn", "random"),
        *("randstr", "reflect", "session_user", "shuffle", "spark_partition_id", "try_reflect", "uniform", "user"),
        "uuid",
    ),
    "by chance, or by who computes it",
)
_BY_THE_CLOCK = dict.fromkeys(
    ("curdate", "current_date", "current_time", "current_timestamp", "localtimestamp", "now"), "by the clock"
)
# collect_set and listagg as the parser calls them
_BY_ORDER = dict.fromkeys(
    (
        *("any_value", "array_agg", "array_unique_agg", "first", "first_value", "group_concat", "last"),
        "last_value",
    ),
    "by the order in which rows meet",
)
_WRITTEN = {"array_agg": "collect_list", "array_unique_agg": "collect_set", "group_concat": "listagg"}
# unless it is made the same again
_SETTLE = {"array_contains", "array_max", "array_min", "array_size", "array_sort", "cardinality", "size", "sort_array"}


def condition_problems(sql: str, columns: Collection[str]) -> Iterator[Problem]:
    """What is wrong with a condition of a row of these columns; it may ask the clock."""
    yield from _problems(sql, columns, _BY_CHANCE)


def measure_problems(sql: str, columns: Collection[str]) -> Iterator[Problem]:
    """What is wrong with an aggregate over rows of these columns: a recomputation gives the same figure."""
    yield from _problems(sql, columns, _BY_CHANCE | _BY_THE_CLOCK | _BY_ORDER)


def _problems(sql: str, columns: Collection[str], varying: Mapping[str, str]) -> Iterator[Problem]:
    try:
        root = _parsed(sql)
        if root is not None:
            yield from _wrong(sql, root, {name.lower() for name in columns}, varying)
            return
    except RecursionError:  # nested deeper than this process can look into: Spark says whether it can
        return
    action = "Write one expression of Spark's SQL; a name that is a word of SQL stands in backticks."
    yield f"{sql!r} is no SQL expression", action


def _parsed(sql: str) -> "exp.Expr | None":
    """One expression, ``None`` where it is none."""
    import sqlglot  # noqa: PLC0415 - slow to import, and declarations without SQL need none of it
    from sqlglot import exp  # noqa: PLC0415

    try:
        root = sqlglot.parse_one(sql, read="spark", into=exp.Condition)
    except sqlglot.errors.SqlglotError:
        return None
    more = isinstance(root, exp.Command | exp.Block | exp.Star) or sql.rstrip().endswith(";")
    return None if more else root


def _wrong(sql: str, root: "exp.Expr", known: Collection[str], varying: Mapping[str, str]) -> Iterator[Problem]:
    from sqlglot import exp  # noqa: PLC0415

    if root.find(exp.Query, exp.Values, exp.Window):
        yield f"{sql!r} looks at other rows", "Write it over the columns of the table alone, without SELECT or OVER."
    if root.find(exp.Placeholder, exp.Parameter):
        yield f"{sql!r} has a parameter, which nobody fills in", "Write the value."
    for column in root.find_all(exp.Column):
        name = column.parts[0].name
        if name.lower() not in known and not column.find_ancestor(exp.DataType):
            yield f"{sql!r} names an unknown column: {name}", f"The table has {', '.join(sorted(known))}."
    for function in root.find_all(exp.Func):
        for name in [each.lower() for each in _names(function) if each.lower() in varying][:1]:
            if name not in _BY_ORDER or not _is_settled(function):
                fact = f"{sql!r} differs {varying[name]}: {_WRITTEN.get(name, name)}()"
                yield fact, "Leave it out: it has to give the same each time."


def _is_settled(function: "exp.Func") -> bool:
    """Whether the order in which a function has met rows is gone again in what is made of its result."""
    from sqlglot import exp  # noqa: PLC0415

    if function.find(exp.Order):
        return True
    around: exp.Expr | None = function.parent
    while around is not None:
        names = {each.lower() for each in _names(around)} if isinstance(around, exp.Func) else set[str]()
        if names & _SETTLE:
            return True
        around = around.parent
    return False


def _names(function: "exp.Func") -> list[str]:
    from sqlglot import exp  # noqa: PLC0415

    return [function.name] if isinstance(function, exp.Anonymous) else function.sql_names()
