"""The type that values of some records have in common: what is proposed for a column."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from math import isinf
from typing import Any

from lakehouse.decoding.column_types import column_type_problems, is_field_name
from lakehouse.decoding.fields import WHOLE, Field, Rejection
from lakehouse.decoding.nested_types import with_inner
from lakehouse.decoding.values import convert

_TIMES = (
    *(("TIMESTAMP", f"%Y-%m-%d{between}%H:%M{rest}{zone}") for between in "T " for rest in ("", ":%S", ":%S.%f")
      for zone in ("", "Z", "+00:00")),
    ("DATE", "%Y-%m-%d"),
)  # fmt: skip
_MOST_NEW = 4  # times as many names as any one object has: keys of a map
_MOST_NESTED = 9  # of values within values, the plain ones among them
_MOST_DIGITS, _DIGITS_OF_DOUBLE = 38, 17


def type_of(held: Sequence[Any], levels: int = _MOST_NESTED) -> tuple[str, str | None] | None:
    """A type that holds all these values, and how they are written where they are times; ``None`` where none does."""
    if all(isinstance(value, bool) for value in held):
        return "BOOLEAN", None
    if all(isinstance(value, str) for value in held):
        return next((each for each in _TIMES if fits(held, *each)), ("STRING", None))
    if all(isinstance(value, list | dict) for value in held):
        type_ = _holding(held, levels)
        return (type_, None) if type_ else None
    if not all(isinstance(value, Decimal) for value in held):
        return None
    if all(map(_is_whole, held)):
        return ("BIGINT" if all(abs(value) < WHOLE["BIGINT"] for value in held) else "DECIMAL(38,0)"), None
    type_ = _fraction(held)
    return (type_, None) if type_ else None


def _fraction(held: Sequence[Decimal]) -> str | None:
    """DOUBLE where it is what was written, to the last digit, else a DECIMAL; ``None`` where none has the digits."""
    if all(map(_is_double, held)):
        return "DOUBLE"
    written = [value.as_tuple() for value in held]
    scale = max(0, *(-int(each.exponent) for each in written))
    whole = max(0, *(len(each.digits) + int(each.exponent) for each in written))
    return f"DECIMAL({_MOST_DIGITS},{scale})" if whole + scale <= _MOST_DIGITS else None


def _is_double(value: Decimal) -> bool:
    """Whether a number is a double as programs write one: in the fewest digits, in seventeen, or in all that it has."""
    _, digits, exponent = value.as_tuple()
    double = float(value)
    if isinf(double) or (int(exponent) >= 0 and len(digits) > _DIGITS_OF_DOUBLE):
        return False
    return value in (Decimal(repr(double)), Decimal(f"{double:.{_DIGITS_OF_DOUBLE - 1}e}"), Decimal(double))


def _holding(held: Sequence[Any], levels: int) -> str | None:
    """The type of arrays, or of objects whose names are keys; texts in them are texts."""
    if all(isinstance(value, list) for value in held):
        item = _inner([each for value in held for each in value], levels - 1)
        return f"ARRAY<{item}>" if item else None
    if not all(isinstance(value, dict) for value in held):
        return None
    value = _inner([each for inside in held for each in inside.values()], levels - 1)
    return f"MAP<STRING, {value}>" if value else None


def _inner(held: Sequence[Any], levels: int) -> str | None:
    """The type of what stands in values: objects there have fields, unless their names are keys."""
    there = [value for value in held if value is not None]
    if not there or levels == 0:
        return None
    if all(isinstance(value, dict) for value in there):
        values: dict[str, list[Any]] = defaultdict(list)
        for name, value in chain.from_iterable(each.items() for each in there):
            values[name].append(value)
        return _holding(there, levels) if are_keys(values, there) else _struct(values, levels)
    found = type_of(there, levels)
    return found and ("STRING" if found[1] else found[0])


def are_keys(names: Collection[str], objects: Sequence[dict[str, Any]]) -> bool:
    """Whether the names of objects tell them apart, and are no fields."""
    return len(names) > _MOST_NEW * max(map(len, objects))


def _struct(values: Mapping[str, Sequence[Any]], levels: int) -> str | None:
    """A struct of those fields that have a type and a name; of names that differ by their case, of the first."""
    fields: dict[str, str] = {}
    for name, held in values.items():
        type_ = _inner(held, levels - 1)
        if type_ and is_field_name(name):
            fields.setdefault(name.lower(), f"{name}: {type_}")
    return f"STRUCT<{', '.join(fields.values())}>" if fields else None


def left_out(value: Any, field: Field) -> set[str]:
    """The fields in a value that its type does not name."""
    if not field.type.startswith("STRUCT"):
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return set().union(*(left_out(each, item) for item in field.inner for each in items))
    held: dict[str, Any] = value if isinstance(value, dict) else {}
    names = {each.name for each in field.inner}
    here = {f"{field.source}.{name}" for name in held if name not in names}
    return here.union(*(left_out(held.get(each.name), each) for each in field.inner if each.inner))


def _is_whole(value: Decimal) -> bool:
    return int(value.as_tuple().exponent) >= 0 and value.adjusted() < _MOST_DIGITS


def fits(held: Sequence[Any], type_: str, pattern: str | None) -> bool:
    """Whether a column of a type takes all these values."""
    if any(column_type_problems(type_)):
        return False
    field = with_inner(Field("f", "f", type_, True, None, None, pattern))
    try:
        return all(convert({"f": value}, (field,)) for value in held)
    except Rejection:
        return False


def kind_of(value: Any) -> str:
    """What a value is, of many."""
    names = {dict: "objects", list: "arrays", str: "texts", bool: "true or false", Decimal: "numbers"}
    return names.get(type(value), "numbers beyond any")
