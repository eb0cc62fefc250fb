"""What may not be said of a type. Each rule yields what is wrong, and what to do."""

import re
from collections import Counter
from collections.abc import Iterator

from lakehouse.decoding.nested_types import Nested, nested

Problem = tuple[str, str]
"""A fact, and what to do about it."""

_TYPE = re.compile(r"STRING|BOOLEAN|INT|BIGINT|DOUBLE|DATE|TIMESTAMP|DECIMAL\([1-9]\d?,(\d|[1-9]\d)\)")
_PLAIN = "Declare STRING, BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP or DECIMAL(precision,scale)"
_OF_STRUCT = (
    "Declare STRUCT<name: type>: names of letters, digits and _; a field of another name can be a column, by its path"
    " as source, where no array or map leads to it."
)
_HOLDING = "of values that hold others ARRAY<type>, MAP<STRING, type> or STRUCT<name: type, ...>"
_MOST_DIGITS, _MOST_LEVELS, _MOST_FIELDS = 38, 8, 200
_INNER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def type_problems(type_: str) -> Iterator[Problem]:
    """What is wrong with a type whose values hold no others."""
    if not _TYPE.fullmatch(type_):
        yield f"no such type {type_}", f"{_PLAIN}."
    elif type_.startswith("DECIMAL"):
        precision, scale = digits_of(type_)
        if precision > _MOST_DIGITS:
            yield f"{type_} has {precision} digits", f"A decimal has at most {_MOST_DIGITS}: declare fewer."
        if scale > precision:
            yield f"{type_} has more places than digits", "The first number counts all digits, the second the places."


def digits_of(type_: str) -> tuple[int, int]:
    """How many digits a DECIMAL has, and how many of them are places."""
    precision, scale = type_[8:-1].split(",")
    return int(precision), int(scale)


def is_field_name(name: str) -> bool:
    """Whether a field of a struct may have this name."""
    return _INNER.fullmatch(name) is not None


def column_type_problems(type_: str, levels: int = _MOST_LEVELS) -> Iterator[Problem]:
    """What is wrong with the type of a column, whose values may hold others."""
    found = nested(type_)
    if levels == _MOST_LEVELS and type_.count(":") > _MOST_FIELDS:
        yield f"its type has more than {_MOST_FIELDS} fields", "Declare those that you need."
        return
    if found is None and not _TYPE.fullmatch(type_):
        yield f"no such type {type_}", f"{_PLAIN}, or {_HOLDING}."
    elif found is None:
        yield from type_problems(type_)
    elif levels == 0:
        advice = "Leave out what is deeper; fields of objects in no array or map can be columns, by their paths."
        yield f"its type has more than {_MOST_LEVELS} levels", advice
    else:
        yield from _struct_problems(type_, found) if found.kind == "STRUCT" else _items_problems(type_, found)
        for _, inner in found.inner:
            yield from column_type_problems(inner, levels - 1)


def _items_problems(type_: str, found: Nested) -> Iterator[Problem]:
    if found.kind == "ARRAY" and len(found.inner) != 1:
        yield f"{type_} is no array", "Its items have one type: declare ARRAY<type>."
    if found.kind == "MAP" and (len(found.inner) != 2 or found.inner[0][1] != "STRING"):
        yield f"{type_} is no map", "Names in records are texts: declare MAP<STRING, type>."


def _struct_problems(type_: str, found: Nested) -> Iterator[Problem]:
    for name, times in Counter(name.lower() for name, _ in found.inner).items():
        if not is_field_name(name):
            yield f"{type_} has a field {name!r}", _OF_STRUCT
        if times > 1:
            yield f"{type_} has two fields {name}", "Spark tells no names apart by their case: leave one out."
