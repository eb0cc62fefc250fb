"""The flows of a pipeline in Python. The file is parsed, and never run."""

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from sqlglot import exp

from lakehouse.declaration.inference.auto_cdc.conditions import (
    OF_SEQUENCES,
    parse_expression,
    read_condition,
    read_sequence,
)
from lakehouse.declaration.inference.auto_cdc.flow import (
    OF_NAMES,
    AutoCdcFlow,
    FlowPlace,
    flow_from,
    scd_type,
    untranslated,
)
from lakehouse.errors import LakehouseError

_FUNCTIONS = ("create_auto_cdc_flow", "apply_changes")
_POSITIONAL = ("target", "source", "keys", "sequence_by")  # the only ones with the same place in all versions
_WITHOUT_EFFECT = ("target", "name", "flow_name")
_OF_VALUES = "Write the value itself in a copy of the file: the file is read, but not run."
_OF_EXPRESSIONS = "Write it as SQL, for example expr(\"operation = 'DELETE'\")."
_OF_SOME_COLUMNS = ("ignore_null_updates_column_list", "ignore_null_updates_except_column_list")
_SOME_COLUMNS_ADVICE = "Remove it from a copy of the file, then write keep=True for these columns in the declaration."
_OF_OPTIONS = "Remove it from a copy of the file if the rows do not depend on it."


def find_flows(text: str, file: str) -> list[FlowPlace]:
    """The calls that create a flow; raises ``LakehouseError`` if the text is not Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        place = f"{file}, line {error.lineno}" if isinstance(error, SyntaxError) else file
        what = f"The file cannot be read as Python: {getattr(error, 'msg', error)}"
        raise LakehouseError(what, where=place, action="Correct it, or export it as a Python file.") from None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name_of(node.func) in _FUNCTIONS]
    return [_flow_place(call, f"{file}, line {call.lineno}") for call in sorted(calls, key=lambda call: call.lineno)]


def _flow_place(call: ast.Call, place: str) -> FlowPlace:
    nodes = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "target")]
    target = nodes[0].value if nodes and isinstance(nodes[0], ast.Constant) else None
    shown_target = target if isinstance(target, str) else ""
    return FlowPlace(shown_target, place, partial(_read_flow, call, shown_target, place))


def _read_flow(call: ast.Call, target: str, place: str) -> AutoCdcFlow:
    options: dict[str, Any] = {}
    for argument, node in _arguments(call, place).items():
        if argument in _WITHOUT_EFFECT or (isinstance(node, ast.Constant) and node.value is None):
            continue
        if argument in _OF_SOME_COLUMNS:
            raise untranslated("An option", f"{argument}={ast.unparse(node)}", place, _SOME_COLUMNS_ADVICE)
        if argument not in _READERS:
            raise untranslated("An option", f"{argument}={ast.unparse(node)}", place, _OF_OPTIONS)
        option, read = _READERS[argument]
        options[option] = read(node, f"{argument}=", place)
    return flow_from(target, place, options)


def _arguments(call: ast.Call, place: str) -> dict[str, ast.expr]:
    """The arguments of a call by their names."""
    for node in [*call.args[len(_POSITIONAL) :], *(node for node in call.args if isinstance(node, ast.Starred))]:
        raise untranslated("An argument without a name", ast.unparse(node), place, "Write its name in front of it.")
    for keyword in call.keywords:
        if keyword.arg is None:
            raise untranslated("An argument", f"**{ast.unparse(keyword.value)}", place, _OF_VALUES)
    positional = dict(zip(_POSITIONAL, call.args, strict=False))
    return positional | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _name_of(node: ast.expr) -> str:
    """The last name of ``col``, ``F.col`` and so on; empty for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _literal(node: ast.expr, option: str, place: str) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise untranslated(option, ast.unparse(node), place, _OF_VALUES) from None


def _flag(node: ast.expr, option: str, place: str) -> bool:
    return bool(_literal(node, option, place))


def _source(node: ast.expr, _option: str, _place: str) -> str | None:
    """``None`` if it is computed: a topic may be named instead."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _names(node: ast.expr, option: str, place: str) -> tuple[str, ...]:
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else []
    names = [_column_name(item) for item in items]
    if not names or None in names:
        raise untranslated(option, ast.unparse(node), place, OF_NAMES)
    return tuple(name for name in names if name is not None)


def _column_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Call) and _name_of(node.func) in ("col", "column") and len(node.args) == 1:
        node = node.args[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value else None


def _condition(node: ast.expr, option: str, place: str) -> Any:
    return read_condition(_expression(node, option, place), option, place)


def _sequence(node: ast.expr, option: str, place: str) -> str:
    if isinstance(node, ast.Call) and _name_of(node.func) == "struct":
        raise untranslated(option, ast.unparse(node), place, OF_SEQUENCES)
    return read_sequence(_expression(node, option, place), option, place)


def _scd_type(node: ast.expr, option: str, place: str) -> int:
    return scd_type(str(_literal(node, option, place)), place)


def _expression(node: ast.expr, option: str, place: str) -> exp.Expr:
    """The SQL expression of a text, or of a Column of Spark."""
    match node:
        case ast.Constant(value=str(text)):
            return parse_expression(text, option, place)
        case ast.Call(func=function, args=[ast.Constant(value=str(text))]) if _name_of(function) == "expr":
            return parse_expression(text, option, place)
        case ast.Call(func=function, args=[ast.Constant(value=str(name))]) if _name_of(function) in ("col", "column"):
            return parse_expression(name if "`" in name else f"`{name.replace('.', '`.`')}`", option, place)
        case ast.Call(func=ast.Attribute(value=field, attr="isin"), args=args):
            items = args[0].elts if len(args) == 1 and isinstance(args[0], ast.List | ast.Tuple) else args
            return exp.In(
                this=_expression(field, option, place), expressions=[_operand(i, option, place) for i in items]
            )
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            return exp.EQ(this=_operand(left, option, place), expression=_operand(right, option, place))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return exp.Or(this=_expression(left, option, place), expression=_expression(right, option, place))
    raise untranslated(option, ast.unparse(node), place, _OF_EXPRESSIONS)


def _operand(node: ast.expr, option: str, place: str) -> exp.Expr:
    """A side of a comparison: in it, a text is a value."""
    if isinstance(node, ast.Call) and _name_of(node.func) == "lit" and len(node.args) == 1:
        node = node.args[0]
    if not isinstance(node, ast.Constant | ast.UnaryOp):
        return _expression(node, option, place)
    value = _literal(node, option, place)
    if not isinstance(value, str | int | float):
        raise untranslated(option, ast.unparse(node), place, _OF_EXPRESSIONS)
    return exp.convert(value)


def _always(_node: ast.expr, _option: str, _place: str) -> bool:
    return True


_READERS: dict[str, tuple[str, Callable[[ast.expr, str, str], Any]]] = {
    "source": ("source", _source),
    "keys": ("keys", _names),
    "sequence_by": ("sequence", _sequence),
    "apply_as_deletes": ("deletes", _condition),
    "apply_as_truncates": ("truncates", _condition),
    "column_list": ("included", _names),
    "except_column_list": ("excluded", _names),
    "ignore_null_updates": ("ignores_nulls", _flag),
    "stored_as_scd_type": ("scd_type", _scd_type),
    "track_history_column_list": ("tracks_some", _always),
    "track_history_except_column_list": ("tracks_some", _always),
    "once": ("is_once", _flag),
}
