"""What a piece of SQL in a declaration may not be, told by its text: before any Spark is there to ask.

Whether its types fit is for Spark to say.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from lakehouse.declaration.sql.parsed import EXPRESSION, names_of, parsed
from lakehouse.declaration.sql.sums import casts_of_texts, inexact_sums
from lakehouse.decoding.column_types import Problem

if TYPE_CHECKING:
    from sqlglot import exp

    OfRows = Callable[[str, exp.Expr], Iterator[Problem]]

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
# some as the parser calls them; of equals they take any, and of numbers they add up doubles
_BY_ORDER = dict.fromkeys(
    (
        *("any_value", "array_agg", "array_unique_agg", "first", "first_value", "group_concat", "last", "last_value"),
        *("approx_quantile", "arg_max", "arg_min", "histogram_numeric", "mode"),
        *("corr", "covar_pop", "covar_samp", "kurtosis", "skewness", "std", "stddev", "stddev_pop", "stddev_samp"),
        *("regr_avgx", "regr_avgy", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy"),
        *("variance", "variance_pop"),
    ),
    "by the order in which rows meet",
)
_WRITTEN = {"array_agg": "collect_list", "array_unique_agg": "collect_set", "group_concat": "listagg"}
_WRITTEN |= {"arg_max": "max_by", "arg_min": "min_by", "approx_quantile": "percentile_approx"}
_INSTEAD = {
    "arg_max": "Of equals it takes any: write max(struct(by, value)).value.",
    "arg_min": "Of equals it takes any: write min(struct(by, value)).value.",
}
_COLLECT = {"array_agg", "array_unique_agg", "group_concat"}
# unless it is made the same again
_SETTLE = {"array_contains", "array_max", "array_min", "array_size", "array_sort", "cardinality", "size", "sort_array"}


def condition_problems(sql: str, columns: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with a condition of a row of these columns, by type; it may ask the clock."""
    types = {name.lower(): type_ for name, type_ in columns.items()}
    yield from _problems(sql, columns, _BY_CHANCE, lambda sql, root: _of_one(sql, root, types))


def measure_problems(sql: str, columns: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with an aggregate over rows of these columns, by type: a recomputation gives the same figure."""
    varying = _BY_CHANCE | _BY_THE_CLOCK | _BY_ORDER
    types = {name.lower(): type_ for name, type_ in columns.items()}
    yield from _problems(sql, columns, varying, lambda sql, root: _of_many(sql, root, types))


def _problems(
    sql: str,
    columns: Collection[str],
    varying: Mapping[str, str],
    of_rows: "Callable[[str, exp.Expr], Iterator[Problem]]",
) -> Iterator[Problem]:
    try:
        root = parsed(sql)
        if root is not None:
            yield from _wrong(sql, root, {name.lower() for name in columns}, varying)
            yield from of_rows(sql, root)
            return
    except RecursionError:  # nested deeper than this process can look into: Spark says whether it can
        return
    yield f"{sql!r} is no SQL expression", EXPRESSION


def _wrong(sql: str, root: "exp.Expr", known: Collection[str], varying: Mapping[str, str]) -> Iterator[Problem]:
    from sqlglot import exp  # noqa: PLC0415

    if root.find(exp.Query, exp.Values, exp.Window):
        yield f"{sql!r} looks at other rows", "Write it over the columns of the table alone, without SELECT or OVER."
    if root.find(exp.Placeholder, exp.Parameter):
        yield f"{sql!r} has a parameter, which nobody fills in", "Write the value."
    for column in root.find_all(exp.Column):
        name = column.parts[0].name
        if name.lower() not in {*known, *_of_lambdas(column)} and not column.find_ancestor(exp.DataType):
            yield f"{sql!r} names an unknown column: {name}", f"The table has {', '.join(sorted(known))}."
    for function in root.find_all(exp.Func):
        for name in [each.lower() for each in names_of(function) if each.lower() in varying][:1]:
            if name not in _COLLECT or not _is_settled(function):
                fact = f"{sql!r} differs {varying[name]}: {_WRITTEN.get(name, name)}()"
                yield fact, _INSTEAD.get(name, "Leave it out: it has to give the same each time.")


def _of_lambdas(column: "exp.Expr") -> Iterator[str]:
    """The names that functions around it give to what they hand on; SQL tells none apart by their case."""
    from sqlglot import exp  # noqa: PLC0415

    around = column.find_ancestor(exp.Lambda)
    while around is not None:
        yield from (each.name.lower() for each in around.expressions)
        around = around.find_ancestor(exp.Lambda)


def _of_one(sql: str, root: "exp.Expr", types: Mapping[str, str]) -> Iterator[Problem]:
    """A condition is of one row, and of no other."""
    from sqlglot import exp  # noqa: PLC0415

    if root.find(exp.AggFunc, exp.UDTF):
        yield f"{sql!r} is no condition of one row", "Write it over the columns of a row, without aggregates."
    yield from casts_of_texts(root, types)


def _of_many(sql: str, root: "exp.Expr", types: Mapping[str, str]) -> Iterator[Problem]:
    """A measure is a figure of many rows, and exact."""
    from sqlglot import exp  # noqa: PLC0415

    if root.find(exp.UDTF) or not root.find(exp.AggFunc, exp.Anonymous):
        yield f"{sql!r} is no aggregate", "Write one, as count(*) or max(price)."
    yield from inexact_sums(root, types)
    yield from casts_of_texts(root, types)


def _is_settled(function: "exp.Func") -> bool:
    """Whether the order in which a function has met rows is gone again in what is made of its result."""
    from sqlglot import exp  # noqa: PLC0415

    if function.find(exp.Order):
        return True
    around: exp.Expr | None = function.parent
    while around is not None:
        names = {each.lower() for each in names_of(around)} if isinstance(around, exp.Func) else set[str]()
        if names & _SETTLE:
            return True
        around = around.parent
    return False
