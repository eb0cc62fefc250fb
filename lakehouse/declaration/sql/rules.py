"""The rules of SQL in checks and rollups, which its text alone can break; Spark checks types later.

Sums and means of a measure that add up doubles are refused: their last digit depends on the order of the rows.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from lakehouse.declaration.sql.functions import NO_BYTES
from lakehouse.declaration.sql.parsed import EXPRESSION, names_of, parse_expression
from lakehouse.declaration.sql.parser import exp
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.nested_types import plain_types

_MEAN_FUNCTIONS = {"avg", "mean", "try_avg"}
_SUM_FUNCTIONS = {"sum", "try_sum", *_MEAN_FUNCTIONS}
_DIVISIONS = {"div", "try_divide", "safe_divide"}
_DOUBLE_FUNCTIONS = {
    *("acos", "asin", "atan", "atan2", "cbrt", "cos", "cosh", "cot", "csc", "degrees", "exp", "expm1", "hypot", "ln"),
    *("log", "log10", "log1p", "log2", "pow", "power", "radians", "sec", "sin", "sinh", "sqrt", "tan", "tanh"),
}
# nodes that return a string unchanged, a part of it, or another string in its place
_STRING_NODES = {
    *("Bracket", "Coalesce", "Concat", "DPipe", "Left", "Lower", "Max", "Min", "Nullif", "Paren", "RegexpReplace"),
    *("Replace", "Right", "Substring", "Translate", "Trim", "Upper"),
}
_STRING_FUNCTIONS = {"btrim", "get"}  # which the parser does not know
_USE_COMPUTED_COLUMN = (
    "Declare a computed column with sql='CAST(... AS DECIMAL(18,6))', and use that. If no column can be computed from"
    " it, write try_cast(try_cast(... AS DOUBLE) AS DECIMAL(18,6))."
)
EXACT = "Add decimals, which are exact: write try_cast(... AS DECIMAL(18,6)) around what is added."
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
_ALTERNATIVES = {
    "arg_max": "It picks any of equal rows. Write max(struct(by, value)).value.",
    "arg_min": "It picks any of equal rows. Write min(struct(by, value)).value.",
}
_COLLECTING = {"array_agg", "array_unique_agg", "group_concat"}
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


def inexact_sums(root: "exp.Expr", types: Mapping[str, str]) -> Iterator[Problem]:
    """The sums and means of an expression, over columns of these types, that depend on the order of the rows."""
    for function in root.find_all(exp.Func):
        for addend in _double_addends(function, types) if _SUM_FUNCTIONS & _names(function) else ():
            action = _USE_COMPUTED_COLUMN if addend.startswith("STRING") else EXACT
            yield f"a sum or mean of {addend} depends on the order of its rows", action


def casts_of_strings(root: "exp.Expr", types: Mapping[str, str]) -> Iterator[Problem]:
    """Casts of a column of strings to a decimal: for a large exponent, Spark computes every digit."""
    for cast in root.find_all(exp.Cast, exp.Anonymous):
        to_decimal = cast.to.is_type("decimal") if isinstance(cast, exp.Cast) else _names(cast) == {"decimal"}
        operands = (cast.expressions or [cast.this]) if to_decimal else ()
        if any(_is_column_string(operand, types) for operand in operands):
            yield f"{cast.sql('spark')} fails, or does not end, for a string such as 1e-999999999", _USE_COMPUTED_COLUMN


def _is_column_string(node: "exp.Expr", types: Mapping[str, str]) -> bool:
    """Whether a value is a string from a column, or may contain one."""
    if isinstance(node, exp.Column):
        return plain_types(types.get(node.parts[0].name.lower(), "")) == {"STRING"}
    if isinstance(node, exp.Case | exp.If):
        branches = (*node.args.get("ifs", ()), *(node.args.get(name) for name in ("true", "false", "default")))
        return any(_is_column_string(branch, types) for branch in branches if branch is not None)
    returns_string = type(node).__name__ in _STRING_NODES or bool(_STRING_FUNCTIONS & _names(node))
    return returns_string and any(_is_column_string(operand, types) for operand in node.iter_expressions())


def _double_addends(total: "exp.Expr", types: Mapping[str, str]) -> Iterator[str]:
    """The doubles that a sum or mean adds, in words; a double that is cast to another type does no harm."""
    for node in (*total.find_all(exp.Column), *total.find_all(exp.Literal, exp.Func, exp.Div)):
        if node is total or _is_made_exact(node, total):
            continue
        if isinstance(node, exp.Column):
            yield from _column_addends(node, total, types)
        elif isinstance(node, exp.Cast) and _is_double(node):
            yield f"the {node.to.sql('spark')} {node.sql('spark')}"
        elif isinstance(node, exp.Literal) and not node.is_string and "e" in node.this.lower():
            yield f"the double {node.this}"
        elif isinstance(node, exp.Func) and _DOUBLE_FUNCTIONS & _names(node):
            yield f"the double that {names_of(node)[0].lower()}() returns"
        elif (isinstance(node, exp.Div) or _DIVISIONS & _names(node)) and not _has_decimal(node, types):
            yield f"the quotient {node.sql('spark')}, which is a double,"


def _column_addends(column: "exp.Column", total: "exp.Expr", types: Mapping[str, str]) -> Iterator[str]:
    """A column that is a double, or is added as one, in words."""
    name = column.parts[0].name.lower()
    type_ = types.get(name, "")
    if "DOUBLE" in plain_types(type_):
        yield f"DOUBLE {name}"
    elif _is_added_directly(column, total):
        if type_ == "STRING":
            yield f"STRING {name}, which is added as a double,"
        elif type_ == "BIGINT" and _MEAN_FUNCTIONS & _names(total) and not _has_decimal(total, types):
            yield f"BIGINT {name}, which a mean adds as a double,"


def _is_added_directly(column: "exp.Column", total: "exp.Expr") -> bool:
    """Whether there is only arithmetic between a column and the function that adds it."""
    ancestor = column.parent
    while ancestor is not total:
        if not isinstance(ancestor, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod | exp.Neg | exp.Paren):
            return False
        ancestor = ancestor.parent
    return True


def _has_decimal(node: "exp.Expr", types: Mapping[str, str]) -> bool:
    """Whether the expression contains a decimal, which turns integers into decimals."""
    return (
        any(types.get(column.parts[0].name.lower(), "").startswith("DECIMAL") for column in node.find_all(exp.Column))
        or any(
            not number.is_string and set(number.this) <= set("0123456789.") and "." in number.this
            for number in node.find_all(exp.Literal)
        )
        or any(cast.to.find(exp.DataType) and cast.to.is_type("decimal") for cast in node.find_all(exp.Cast))
    )


def _is_made_exact(node: "exp.Expr", total: "exp.Expr") -> bool:
    """Whether a cast around the node, within the sum or mean, converts it to another type than a double."""
    ancestor = node.parent
    while ancestor is not None and ancestor is not total:
        if isinstance(ancestor, exp.Cast) and not _is_double(ancestor):
            return True
        ancestor = ancestor.parent
    return False


def _is_double(cast: "exp.Cast") -> bool:
    return any(type_.is_type("double", "float") for type_ in cast.to.find_all(exp.DataType))


def _names(node: "exp.Expr") -> set[str]:
    """The names of a function in lower case; empty for any other node."""
    return {name.lower() for name in names_of(node)} if isinstance(node, exp.Func) else set()


def find_addends(sql: str) -> list[tuple[bool, str]]:
    """Return, for each SUM and AVG of an expression, whether it is a mean, and its operand."""
    root = parse_expression(sql)
    addends = []
    for function in root.find_all(exp.Func) if root is not None else ():
        if _SUM_FUNCTIONS & _names(function):
            addend = function.expressions[0] if isinstance(function, exp.Anonymous) else function.this
            addend = addend.expressions[0] if isinstance(addend, exp.Distinct) else addend
            addends.append((bool(_MEAN_FUNCTIONS & _names(function)), addend.sql("spark")))
    return addends


def is_inexact(type_: str, *, mean: bool) -> bool:
    """Whether values of a Spark type are added as doubles."""
    return type_ in ("double", "float", "string") or (mean and type_ == "bigint")


# another result each time
# some by the parser's name; they pick any of equal rows, or add up doubles
_SPARK_NAMES |= {"arg_max": "max_by", "arg_min": "min_by", "approx_quantile": "percentile_approx"}
# functions whose result does not depend on the order of an array


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
    for function in root.find_all(exp.Func):
        for name in [alias.lower() for alias in names_of(function) if alias.lower() in refused_functions][:1]:
            if name not in _COLLECTING or not _is_order_free(function):
                yield name


def _binary_problems(sql: str, root: "exp.Expr", columns: Mapping[str, str]) -> Iterator[Problem]:
    binary_names = {name.lower() for name, type_ in columns.items() if type_ == "BINARY"}
    for name in dict.fromkeys(column.parts[0].name for column in root.find_all(exp.Column)):
        if name.lower() in binary_names:
            yield f"{sql!r} uses the BINARY column {name}", NO_BYTES


def _lambda_names(column: "exp.Expr") -> Iterator[str]:
    """The parameters of the lambda functions around a column, in lower case, as SQL ignores case."""
    ancestor = column.find_ancestor(exp.Lambda)
    while ancestor is not None:
        yield from (parameter.name.lower() for parameter in ancestor.expressions)
        ancestor = ancestor.find_ancestor(exp.Lambda)


def _condition_shape(sql: str, root: "exp.Expr", types: Mapping[str, str]) -> Iterator[Problem]:
    """A condition is about one row, and no other."""
    if root.find(exp.AggFunc, exp.UDTF):
        yield f"{sql!r} is not a condition on one row", "Use the columns of one row, without aggregates."
    yield from casts_of_strings(root, types)


def _measure_shape(sql: str, root: "exp.Expr", types: Mapping[str, str]) -> Iterator[Problem]:
    """A measure aggregates many rows exactly."""
    if root.find(exp.UDTF) or not root.find(exp.AggFunc, exp.Anonymous):
        yield f"{sql!r} is not an aggregate", "Write one, for example count(*) or max(price)."
    yield from inexact_sums(root, types)
    yield from casts_of_strings(root, types)


def _is_order_free(function: "exp.Func") -> bool:
    """Whether the expression around a function removes the effect of the order in which it has read rows."""
    if function.find(exp.Order):
        return True
    ancestor: exp.Expr | None = function.parent
    while ancestor is not None:
        names = {name.lower() for name in names_of(ancestor)} if isinstance(ancestor, exp.Func) else set[str]()
        if names & _ORDER_FREE:
            return True
        ancestor = ancestor.parent
    return False
