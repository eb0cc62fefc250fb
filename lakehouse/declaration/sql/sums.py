"""Sums and means of a measure that add up doubles: their last digit depends on the order of the rows."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lakehouse.declaration.sql.parsed import names_of, parse_expression
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.nested_types import plain_types

if TYPE_CHECKING:
    from sqlglot import exp

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


def inexact_sums(root: "exp.Expr", types: Mapping[str, str]) -> Iterator[Problem]:
    """The sums and means of an expression, over columns of these types, that depend on the order of the rows."""
    from sqlglot import exp  # noqa: PLC0415

    for function in root.find_all(exp.Func):
        for addend in _double_addends(function, types) if _SUM_FUNCTIONS & _names(function) else ():
            action = _USE_COMPUTED_COLUMN if addend.startswith("STRING") else EXACT
            yield f"a sum or mean of {addend} depends on the order of its rows", action


def casts_of_strings(root: "exp.Expr", types: Mapping[str, str]) -> Iterator[Problem]:
    """Casts of a column of strings to a decimal: for a large exponent, Spark computes every digit."""
    from sqlglot import exp  # noqa: PLC0415

    for cast in root.find_all(exp.Cast, exp.Anonymous):
        to_decimal = cast.to.is_type("decimal") if isinstance(cast, exp.Cast) else _names(cast) == {"decimal"}
        operands = (cast.expressions or [cast.this]) if to_decimal else ()
        if any(_is_column_string(operand, types) for operand in operands):
            yield f"{cast.sql('spark')} fails, or does not end, for a string such as 1e-999999999", _USE_COMPUTED_COLUMN


def _is_column_string(node: "exp.Expr", types: Mapping[str, str]) -> bool:
    """Whether a value is a string from a column, or may contain one."""
    from sqlglot import exp  # noqa: PLC0415

    if isinstance(node, exp.Column):
        return plain_types(types.get(node.parts[0].name.lower(), "")) == {"STRING"}
    if isinstance(node, exp.Case | exp.If):
        branches = (*node.args.get("ifs", ()), *(node.args.get(name) for name in ("true", "false", "default")))
        return any(_is_column_string(branch, types) for branch in branches if branch is not None)
    returns_string = type(node).__name__ in _STRING_NODES or bool(_STRING_FUNCTIONS & _names(node))
    return returns_string and any(_is_column_string(operand, types) for operand in node.iter_expressions())


def _double_addends(total: "exp.Expr", types: Mapping[str, str]) -> Iterator[str]:
    """The doubles that a sum or mean adds, in words; a double that is cast to another type does no harm."""
    from sqlglot import exp  # noqa: PLC0415

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
    from sqlglot import exp  # noqa: PLC0415

    ancestor = column.parent
    while ancestor is not total:
        if not isinstance(ancestor, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod | exp.Neg | exp.Paren):
            return False
        ancestor = ancestor.parent
    return True


def _has_decimal(node: "exp.Expr", types: Mapping[str, str]) -> bool:
    """Whether the expression contains a decimal, which turns integers into decimals."""
    from sqlglot import exp  # noqa: PLC0415

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
    from sqlglot import exp  # noqa: PLC0415

    ancestor = node.parent
    while ancestor is not None and ancestor is not total:
        if isinstance(ancestor, exp.Cast) and not _is_double(ancestor):
            return True
        ancestor = ancestor.parent
    return False


def _is_double(cast: "exp.Cast") -> bool:
    from sqlglot import exp  # noqa: PLC0415

    return any(type_.is_type("double", "float") for type_ in cast.to.find_all(exp.DataType))


def _names(node: "exp.Expr") -> set[str]:
    """The names of a function in lower case; empty for any other node."""
    from sqlglot import exp  # noqa: PLC0415

    return {name.lower() for name in names_of(node)} if isinstance(node, exp.Func) else set()


def find_addends(sql: str) -> list[tuple[bool, str]]:
    """Return, for each SUM and AVG of an expression, whether it is a mean, and its operand."""
    from sqlglot import exp  # noqa: PLC0415

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
