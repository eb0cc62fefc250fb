"""The rules of SQL in checks and rollups, which its text alone can break; Spark checks types later."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from lakehouse.declaration.sql.functions import NO_BYTES
from lakehouse.declaration.sql.parsed import EXPRESSION, names_of, parse_expression
from lakehouse.declaration.sql.sums import casts_of_strings, inexact_sums
from lakehouse.decoding.column_types import Problem

if TYPE_CHECKING:
    from sqlglot import exp

# another result each time
_RANDOM = dict.fromkeys(
    (
        *("current_user", "input_file_name", "java_method", "monotonically_increasing_id", "rand", "randn", "random"),
        *("randstr", "reflect", "session_user", "shuffle", "spark_partition_id", "try_reflect", "uniform", "user"),
        "uuid",
    ),
    "chance, or on who computes it",
)
_CLOCK = dict.fromkeys(
    ("curdate", "current_date", "current_time", "current_timestamp", "localtimestamp", "now"), "the clock"
)
# some by the parser's name; they pick any of equal rows, or add up doubles
_ORDER_FUNCTIONS = dict.fromkeys(
    (
        *("any_value", "array_agg", "array_unique_agg", "first", "first_value", "group_concat", "last", "last_value"),
        *("approx_quantile", "arg_max", "arg_min", "histogram_numeric", "mode"),
        *("corr", "covar_pop", "covar_samp", "kurtosis", "skewness", "std", "stddev", "stddev_pop", "stddev_samp"),
        *("regr_avgx", "regr_avgy", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy"),
        *("variance", "variance_pop"),
    ),
    "the order of rows",
)
UNREPEATABLE = _RANDOM | _CLOCK | _ORDER_FUNCTIONS
"""The functions whose result may differ if it is computed again, with what it depends on."""
SAME_EACH_TIME = "Remove it. The result must be the same each time."
_SPARK_NAMES = {"array_agg": "collect_list", "array_unique_agg": "collect_set", "group_concat": "listagg"}
_SPARK_NAMES |= {"arg_max": "max_by", "arg_min": "min_by", "approx_quantile": "percentile_approx"}
_ALTERNATIVES = {
    "arg_max": "It picks any of equal rows. Write max(struct(by, value)).value.",
    "arg_min": "It picks any of equal rows. Write min(struct(by, value)).value.",
}
_COLLECTING = {"array_agg", "array_unique_agg", "group_concat"}
# functions whose result does not depend on the order of an array
_ORDER_FREE = {
    "array_contains",
    "array_max",
    "array_min",
    "array_size",
    "array_sort",
    "cardinality",
    "size",
    "sort_array",
}


def condition_problems(sql: str, columns: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with a condition on a row; ``columns`` are names and types. It may depend on the clock."""
    types = {name.lower(): type_ for name, type_ in columns.items()}
    yield from _problems(sql, columns, _RANDOM, lambda sql, root: _condition_shape(sql, root, types))


def measure_problems(sql: str, columns: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with an aggregate; ``columns`` are names and types. It must return the same if it is recomputed."""
    types = {name.lower(): type_ for name, type_ in columns.items()}
    yield from _problems(sql, columns, UNREPEATABLE, lambda sql, root: _measure_shape(sql, root, types))


def _problems(
    sql: str,
    columns: Mapping[str, str],
    refused_functions: Mapping[str, str],
    check_shape: "Callable[[str, exp.Expr], Iterator[Problem]]",
) -> Iterator[Problem]:
    try:
        root = parse_expression(sql)
        if root is not None:
            yield from _content_problems(sql, root, {name.lower() for name in columns}, refused_functions)
            yield from _binary_problems(sql, root, columns)
            yield from check_shape(sql, root)
            return
    except RecursionError:  # nested too deeply for this process: Spark reports whether it can read it
        return
    yield f"{sql!r} is not a SQL expression", EXPRESSION


def _content_problems(
    sql: str, root: "exp.Expr", columns: Collection[str], refused_functions: Mapping[str, str]
) -> Iterator[Problem]:
    from sqlglot import exp  # noqa: PLC0415

    if root.find(exp.Query, exp.Values, exp.Window):
        yield f"{sql!r} reads other rows", "Use only columns of the table, without SELECT or OVER."
    if root.find(exp.Placeholder, exp.Parameter):
        yield f"{sql!r} has a parameter without a value", "Write the value."
    for column in root.find_all(exp.Column):
        name = column.parts[0].name
        if name.lower() not in {*columns, *_lambda_names(column)} and not column.find_ancestor(exp.DataType):
            yield (
                f"{sql!r} uses an unknown column: {name}",
                f"The columns of the table are {', '.join(sorted(columns))}.",
            )
    for name in refused_calls(root, refused_functions):
        message = f"{sql!r} depends on {refused_functions[name]}: {_SPARK_NAMES.get(name, name)}()"
        yield message, _ALTERNATIVES.get(name, SAME_EACH_TIME)


def refused_calls(root: "exp.Expr", refused_functions: Mapping[str, str]) -> Iterator[str]:
    """The names of refused functions that an expression calls, unless the order in which they collect has no effect."""
    from sqlglot import exp  # noqa: PLC0415

    for function in root.find_all(exp.Func):
        for name in [alias.lower() for alias in names_of(function) if alias.lower() in refused_functions][:1]:
            if name not in _COLLECTING or not _is_order_free(function):
                yield name


def _binary_problems(sql: str, root: "exp.Expr", columns: Mapping[str, str]) -> Iterator[Problem]:
    from sqlglot import exp  # noqa: PLC0415

    binary_names = {name.lower() for name, type_ in columns.items() if type_ == "BINARY"}
    for name in dict.fromkeys(column.parts[0].name for column in root.find_all(exp.Column)):
        if name.lower() in binary_names:
            yield f"{sql!r} uses the BINARY column {name}", NO_BYTES


def _lambda_names(column: "exp.Expr") -> Iterator[str]:
    """The parameters of the lambda functions around a column, in lower case, as SQL ignores case."""
    from sqlglot import exp  # noqa: PLC0415

    ancestor = column.find_ancestor(exp.Lambda)
    while ancestor is not None:
        yield from (parameter.name.lower() for parameter in ancestor.expressions)
        ancestor = ancestor.find_ancestor(exp.Lambda)


def _condition_shape(sql: str, root: "exp.Expr", types: Mapping[str, str]) -> Iterator[Problem]:
    """A condition is about one row, and no other."""
    from sqlglot import exp  # noqa: PLC0415

    if root.find(exp.AggFunc, exp.UDTF):
        yield f"{sql!r} is not a condition on one row", "Use the columns of one row, without aggregates."
    yield from casts_of_strings(root, types)


def _measure_shape(sql: str, root: "exp.Expr", types: Mapping[str, str]) -> Iterator[Problem]:
    """A measure aggregates many rows exactly."""
    from sqlglot import exp  # noqa: PLC0415

    if root.find(exp.UDTF) or not root.find(exp.AggFunc, exp.Anonymous):
        yield f"{sql!r} is not an aggregate", "Write one, for example count(*) or max(price)."
    yield from inexact_sums(root, types)
    yield from casts_of_strings(root, types)


def _is_order_free(function: "exp.Func") -> bool:
    """Whether the expression around a function removes the effect of the order in which it has read rows."""
    from sqlglot import exp  # noqa: PLC0415

    if function.find(exp.Order):
        return True
    ancestor: exp.Expr | None = function.parent
    while ancestor is not None:
        names = {name.lower() for name in names_of(ancestor)} if isinstance(ancestor, exp.Func) else set[str]()
        if names & _ORDER_FREE:
            return True
        ancestor = ancestor.parent
    return False
