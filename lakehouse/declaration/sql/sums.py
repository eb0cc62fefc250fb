"""Which sums and means of a measure add up doubles: their last digit depends on the order in which rows meet."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lakehouse.declaration.sql.parsed import names_of, parsed
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.nested_types import plain_types

if TYPE_CHECKING:
    from sqlglot import exp

_MEANS = {"avg", "mean", "try_avg"}
_ADDS = {"sum", "try_sum", *_MEANS}
_DIVIDES = {"div", "try_divide", "safe_divide"}
_GIVES_DOUBLES = {
    *("acos", "asin", "atan", "atan2", "cbrt", "cos", "cosh", "cot", "csc", "degrees", "exp", "expm1", "hypot", "ln"),
    *("log", "log10", "log1p", "log2", "pow", "power", "radians", "sec", "sin", "sinh", "sqrt", "tan", "tanh"),
}
# what gives a text as it is, or a part of it, or another in its place
_KEEPS_TEXT = {
    *("Bracket", "Coalesce", "Concat", "DPipe", "Left", "Lower", "Max", "Min", "Nullif", "Paren", "RegexpReplace"),
    *("Replace", "Right", "Substring", "Translate", "Trim", "Upper"),
}
_KEEPS_TEXT_BY_NAME = {"btrim", "get"}  # which the parser does not know
_COMPUTED = (
    "Declare a column that is computed from it, with sql='CAST(... AS DECIMAL(18,6))', and take that; where no column"
    " can be computed from it, write try_cast(try_cast(... AS DOUBLE) AS DECIMAL(18,6))."
)
EXACT = "Add decimals, which are exact: try_cast(... AS DECIMAL(18,6)) around what is added."


def inexact_sums(root: "exp.Expr", types: Mapping[str, str]) -> Iterator[Problem]:
    """The sums and means of an expression, over columns of these types, that depend on the order of the rows."""
    from sqlglot import exp  # noqa: PLC0415

    for adds in root.find_all(exp.Func):
        for what in _doubles_in(adds, types) if _ADDS & _named(adds) else ():
            action = _COMPUTED if what.startswith("STRING") else EXACT
            yield f"a sum or mean of {what} depends on the order of its rows", action


def casts_of_texts(root: "exp.Expr", types: Mapping[str, str]) -> Iterator[Problem]:
    """What makes a decimal of a column of texts: of a far exponent, Spark computes every digit."""
    from sqlglot import exp  # noqa: PLC0415

    for cast in root.find_all(exp.Cast, exp.Anonymous):
        to_decimal = cast.to.is_type("decimal") if isinstance(cast, exp.Cast) else _named(cast) == {"decimal"}
        texts = (_texts(each, types) for each in (cast.expressions or [cast.this])) if to_decimal else ()
        if any(texts):
            yield f"{cast.sql('spark')} fails for a text such as 1e-999999999, or does not end", _COMPUTED


def _texts(node: "exp.Expr", types: Mapping[str, str]) -> bool:
    """Whether a value is a text of a column, or is made of one and may be one still."""
    from sqlglot import exp  # noqa: PLC0415

    if isinstance(node, exp.Column):
        return plain_types(types.get(node.parts[0].name.lower(), "")) == {"STRING"}
    if isinstance(node, exp.Case | exp.If):
        others = (node.args.get(name) for name in ("true", "false", "default"))
        return any(_texts(each, types) for each in (*node.args.get("ifs", ()), *others) if each is not None)
    keeps = type(node).__name__ in _KEEPS_TEXT or bool(_KEEPS_TEXT_BY_NAME & _named(node))
    return keeps and any(_texts(each, types) for each in node.iter_expressions())


def _doubles_in(adds: "exp.Expr", types: Mapping[str, str]) -> Iterator[str]:
    """What makes a double of that which is added; what is cast to another type around it does no harm."""
    from sqlglot import exp  # noqa: PLC0415

    for node in (*adds.find_all(exp.Column), *adds.find_all(exp.Literal, exp.Func, exp.Div)):
        if node is adds or _is_made_exact(node, adds):
            continue
        if isinstance(node, exp.Column):
            yield from _of_column(node, adds, types)
        elif isinstance(node, exp.Cast) and _is_double(node):
            yield f"{node.to.sql('spark')}, by {node.sql('spark')},"
        elif isinstance(node, exp.Literal) and not node.is_string and "e" in node.this.lower():
            yield f"a double, {node.this},"
        elif isinstance(node, exp.Func) and _GIVES_DOUBLES & _named(node):
            yield f"what {names_of(node)[0].lower()}() gives, a double,"
        elif (isinstance(node, exp.Div) or _DIVIDES & _named(node)) and not _has_decimal(node, types):
            yield f"a quotient, {node.sql('spark')}, which is a double,"


def _of_column(column: "exp.Column", adds: "exp.Expr", types: Mapping[str, str]) -> Iterator[str]:
    """A column that is a double, or is added up as one."""
    name = column.parts[0].name.lower()
    type_ = types.get(name, "")
    if "DOUBLE" in plain_types(type_):
        yield f"DOUBLE {name}"
    elif _is_added_itself(column, adds):
        if type_ == "STRING":
            yield f"STRING {name}, as which doubles are added,"
        elif type_ == "BIGINT" and _MEANS & _named(adds) and not _has_decimal(adds, types):
            yield f"BIGINT {name}, of which a mean adds doubles,"


def _is_added_itself(column: "exp.Column", adds: "exp.Expr") -> bool:
    """Whether nothing but arithmetic stands between a column and that which adds it."""
    from sqlglot import exp  # noqa: PLC0415

    around = column.parent
    while around is not adds:
        if not isinstance(around, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod | exp.Neg | exp.Paren):
            return False
        around = around.parent
    return True


def _has_decimal(node: "exp.Expr", types: Mapping[str, str]) -> bool:
    """Whether a decimal is in it, beside which whole numbers become decimals."""
    from sqlglot import exp  # noqa: PLC0415

    return (
        any(types.get(each.parts[0].name.lower(), "").startswith("DECIMAL") for each in node.find_all(exp.Column))
        or any(
            not each.is_string and set(each.this) <= set("0123456789.") and "." in each.this
            for each in node.find_all(exp.Literal)
        )
        or any(each.to.find(exp.DataType) and each.to.is_type("decimal") for each in node.find_all(exp.Cast))
    )


def _is_made_exact(node: "exp.Expr", adds: "exp.Expr") -> bool:
    """Whether a cast around it, within that which adds, makes something else than a double of it."""
    from sqlglot import exp  # noqa: PLC0415

    around = node.parent
    while around is not None and around is not adds:
        if isinstance(around, exp.Cast) and not _is_double(around):
            return True
        around = around.parent
    return False


def _is_double(cast: "exp.Cast") -> bool:
    from sqlglot import exp  # noqa: PLC0415

    return any(each.is_type("double", "float") for each in cast.to.find_all(exp.DataType))


def _named(node: "exp.Expr") -> set[str]:
    """What a function is called; nothing of what is none."""
    from sqlglot import exp  # noqa: PLC0415

    return {each.lower() for each in names_of(node)} if isinstance(node, exp.Func) else set()


def added(sql: str) -> list[tuple[bool, str]]:
    """What the sums and means of an expression add, in SQL, and whether it is for a mean."""
    from sqlglot import exp  # noqa: PLC0415

    root = parsed(sql)
    found = []
    for adds in root.find_all(exp.Func) if root is not None else ():
        if _ADDS & _named(adds):
            what = adds.expressions[0] if isinstance(adds, exp.Anonymous) else adds.this
            what = what.expressions[0] if isinstance(what, exp.Distinct) else what
            found.append((bool(_MEANS & _named(adds)), what.sql("spark")))
    return found


def is_inexact(type_: str, *, mean: bool) -> bool:
    """Whether values of a type of Spark's are added as doubles."""
    return type_ in ("double", "float", "string") or (mean and type_ == "bigint")
