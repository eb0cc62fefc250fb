"""Expressions of a flow as parts of a declaration: a comparison of one field, or the name of a column."""

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from lakehouse.declaration.delete_conditions import FieldIs
from lakehouse.declaration.inference.auto_cdc.flow import untranslated
from lakehouse.decoding.deletes import DeleteValue

_OF_CONDITIONS = (
    "Compare one field with texts, whole numbers, or true or false, for example operation = 'DELETE' or"
    " operation IN ('DELETE', 'd'). If the field is computed, let the producer send it."
)
OF_SEQUENCES = (
    "One column orders the rows of a table. Name one field. If it takes several to order the records, let the producer"
    " send one that does."
)


def parse_expression(text: str, option: str, place: str) -> exp.Expr:
    """The expression that Spark would read; raises ``LakehouseError`` if the text is not SQL."""
    try:
        expression: exp.Expr = parse_one(text, read="spark")
    except SqlglotError:
        raise untranslated(option, text, place, "Correct the SQL expression.") from None
    return expression


def read_condition(expression: exp.Expr, option: str, place: str) -> FieldIs:
    """The comparison that a condition is; raises ``LakehouseError`` if it is another expression."""
    condition = _comparison(expression)
    if condition is None:
        raise untranslated(option, expression.sql("spark", comments=False), place, _OF_CONDITIONS)
    return condition


def read_sequence(expression: exp.Expr, option: str, place: str) -> str:
    """The column by which a flow orders; raises ``LakehouseError`` if it is another expression."""
    path = _path(expression.unnest())
    if path is None or len(path) > 1:
        raise untranslated(option, expression.sql("spark", comments=False), place, OF_SEQUENCES)
    return path[0]


def _comparison(expression: exp.Expr) -> FieldIs | None:
    """``None`` if it is not a comparison of one field with values that records can have."""
    expression = expression.unnest()
    if isinstance(expression, exp.Or):
        return _either(_comparison(expression.left), _comparison(expression.right))
    if isinstance(expression, exp.Column):  # a condition that is a column alone is a boolean one
        return _field_is(expression, [exp.true()])
    if isinstance(expression, exp.In):
        return _field_is(expression.this, expression.expressions)
    if isinstance(expression, exp.EQ):
        left, right = expression.left.unnest(), expression.right.unnest()
        return _field_is(left, [right]) or _field_is(right, [left])
    return None


def _either(first: FieldIs | None, second: FieldIs | None) -> FieldIs | None:
    if first is None or second is None or first.path != second.path:
        return None
    return FieldIs(first.source, [*first.values, *(value for value in second.values if value not in first.values)])


def _field_is(field: exp.Expr, literals: list[exp.Expr]) -> FieldIs | None:
    path = _path(field.unnest())
    values = [_value(literal) for literal in literals]
    if path is None or not values or None in values:
        return None
    return FieldIs(path[0] if len(path) == 1 else path, [value for value in values if value is not None])


def _path(expression: exp.Expr) -> tuple[str, ...] | None:
    """The names that lead to a field; ``None`` if the expression is not a field."""
    if not isinstance(expression, exp.Column) or isinstance(expression.this, exp.Star):
        return None
    return tuple(part.name for part in expression.parts)


def _value(expression: exp.Expr) -> DeleteValue | None:
    if isinstance(expression, exp.Boolean):
        return bool(expression.this)
    if isinstance(expression, exp.Literal) and expression.is_string:
        return str(expression.this)
    return int(expression.to_py()) if expression.is_int else None
