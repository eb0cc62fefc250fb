"""The rules for the types of columns. Each rule yields what is wrong, and what to do."""

import re
from collections import Counter
from collections.abc import Iterator

from lakehouse.decoding.nested_types import Nested, nested

Problem = tuple[str, str]
"""What is wrong, and what to do about it."""

_SCALAR_TYPE = re.compile(r"STRING|BINARY|BOOLEAN|INT|BIGINT|DOUBLE|DATE|TIMESTAMP|DECIMAL\([1-9]\d?,(\d|[1-9]\d)\)")
_OTHER_TYPES = "BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP or DECIMAL(precision,scale)"
_STRUCT_ADVICE = (
    "Declare STRUCT<name: type> with names of letters, digits and _. A field with another name can be a column, with"
    " its path as source, unless it is inside an array or a map."
)
_NESTED_ADVICE = "for nested values ARRAY<type>, MAP<STRING, type> or STRUCT<name: type, ...>"
_BINARY_ADVICE = (
    "A field within objects can be a BINARY column of its own, with its path as source. Within arrays and maps, declare"
    " STRING if the values are texts, or leave the field out."
)
_MAX_DIGITS, _MAX_LEVELS, _MAX_FIELDS = 38, 8, 200
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def type_problems(type_: str) -> Iterator[Problem]:
    """Yield what is wrong with a scalar type."""
    if not _SCALAR_TYPE.fullmatch(type_):
        yield f"unknown type {type_}", f"Declare STRING, {_OTHER_TYPES}."
    elif type_.startswith("DECIMAL"):
        precision, scale = digits_of(type_)
        if precision > _MAX_DIGITS:
            yield f"{type_} has {precision} digits", f"A decimal has at most {_MAX_DIGITS} digits: declare fewer."
        if scale > precision:
            advice = "The first number is the count of all digits, the second the count of decimal places."
            yield f"{type_} has more decimal places than digits", advice


def digits_of(type_: str) -> tuple[int, int]:
    """Return the precision and the scale of a DECIMAL type."""
    precision, scale = type_[8:-1].split(",")
    return int(precision), int(scale)


def is_field_name(name: str) -> bool:
    """Whether a field of a struct may have this name."""
    return _FIELD_NAME.fullmatch(name) is not None


def column_type_problems(type_: str, levels: int = _MAX_LEVELS) -> Iterator[Problem]:
    """Yield what is wrong with the type of a column, which may be nested."""
    nested_type = nested(type_)
    if levels == _MAX_LEVELS and type_.count(":") > _MAX_FIELDS:
        yield f"its type has more than {_MAX_FIELDS} fields", "Declare only the fields that you need."
        return
    if nested_type is None and not _SCALAR_TYPE.fullmatch(type_):
        yield f"unknown type {type_}", f"Declare STRING, BINARY, {_OTHER_TYPES}, or {_NESTED_ADVICE}."
    elif nested_type is None:
        yield from type_problems(type_)
    elif levels == 0:
        advice = (
            "Remove the deeper levels. Fields outside of arrays and maps can be columns, with their paths as source."
        )
        yield f"its type has more than {_MAX_LEVELS} levels", advice
    else:
        yield from (
            _struct_problems(type_, nested_type)
            if nested_type.kind == "STRUCT"
            else _items_problems(type_, nested_type)
        )
        for _, inner_type in nested_type.inner:
            if inner_type == "BINARY":
                yield f"{type_} contains BINARY, which is only the type of a column", _BINARY_ADVICE
            yield from column_type_problems(inner_type, levels - 1)


def _items_problems(type_: str, nested_type: Nested) -> Iterator[Problem]:
    if nested_type.kind == "ARRAY" and len(nested_type.inner) != 1:
        yield f"{type_} is not a valid array type", "The items have one type: declare ARRAY<type>."
    if nested_type.kind == "MAP" and (len(nested_type.inner) != 2 or nested_type.inner[0][1] != "STRING"):
        yield (
            f"{type_} is not a valid map type",
            "The keys are field names, which are strings: declare MAP<STRING, type>.",
        )


def _struct_problems(type_: str, nested_type: Nested) -> Iterator[Problem]:
    for name, count in Counter(name.lower() for name, _ in nested_type.inner).items():
        if not is_field_name(name):
            yield f"{type_} has the invalid field name {name!r}", _STRUCT_ADVICE
        if count > 1:
            yield f"{type_} has two fields {name}", "Spark ignores case in field names: remove one of the fields."
