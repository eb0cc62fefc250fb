"""Nested types and their text: ``ARRAY<INT>``, ``MAP<STRING, INT>``, ``STRUCT<a: INT>``.

Pure and self-contained (the standard library only), since Spark's executors decode nested values.
"""

import re
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, cast

from lakehouse.decoding.fields import Field, Form, Limits, Place
from lakehouse.decoding.memory import CONTAINER, dict_memory, scalar_memory

_NESTED = re.compile(r"(ARRAY|MAP|STRUCT)<(.*)>", re.DOTALL)
_TIME_TYPES = ("TIMESTAMP", "DATE")


class Nested(NamedTuple):
    """A nested type: names and types of a struct's fields, the type of an array's items, a map's key and value types.

    The names of items, keys and values are empty.
    """

    kind: Literal["ARRAY", "MAP", "STRUCT"]
    inner: tuple[tuple[str, str], ...]


def nested(type_: str) -> Nested | None:
    """Parse a nested type; ``None`` if the type is scalar."""
    match = _NESTED.fullmatch(type_)
    if not match:
        return None
    kind = cast(Literal["ARRAY", "MAP", "STRUCT"], match[1])
    parts = _split_list(match[2])
    if kind != "STRUCT":
        return Nested(kind, tuple(("", inner_type.strip()) for inner_type in parts))
    fields = (part.partition(":") for part in parts)
    return Nested(kind, tuple((name.strip(), inner_type.strip()) for name, _, inner_type in fields))


def _split_list(text: str) -> list[str]:
    """Split a list at its outermost commas."""
    parts, level = [""], 0
    for character in text:
        level += (character in "<(") - (character in ">)")
        if character == "," and level == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def plain_types(type_: str) -> set[str]:
    """The scalar types within a type; the type itself if it is scalar."""
    nested_type = nested(type_)
    return set().union(*(plain_types(inner_type) for _, inner_type in nested_type.inner)) if nested_type else {type_}


def as_spark_says(type_: str) -> str:
    """The name that Spark gives the type: in lower case, except for the names of fields."""
    nested_type = nested(type_)
    if nested_type is None:
        return re.sub(r"\s", "", type_).lower()
    inner_names = (
        f"{name}:{as_spark_says(inner_type)}" if name else as_spark_says(inner_type)
        for name, inner_type in nested_type.inner
    )
    return f"{nested_type.kind.lower()}<{','.join(inner_names)}>"


def with_inner(field: Field) -> Field:
    """Add the rules for nested values to the rule for a field; they share its time format and its null values."""
    nested_type = nested(field.type)
    if nested_type is None:
        return field
    parts = nested_type.inner[-1:] if nested_type.kind == "MAP" else nested_type.inner
    inner_fields = tuple(_inner_field(field, *part) for part in parts)
    if nested_type.kind != "STRUCT":
        return field._replace(inner=inner_fields, memory_bytes=CONTAINER)
    memory = dict_memory(len(inner_fields)) + sum(inner.memory_bytes for inner in inner_fields)
    leaf_count = sum(inner.leaf_count for inner in inner_fields)
    return field._replace(inner=inner_fields, leaf_count=leaf_count, memory_bytes=memory)


def shown_value(value: Any, field: Field) -> Any:
    """A decoded value in the form that is shown to people: a map is a dict by its keys."""
    if value is None or not field.inner:
        return value
    if field.type.startswith("STRUCT"):
        return {inner.name: shown_value(value[inner.name], inner) for inner in field.inner}
    (item_field,) = field.inner
    if field.type.startswith("MAP"):
        return {name: shown_value(item, item_field) for name, item in value}
    return [shown_value(item, item_field) for item in value]


def _inner_field(field: Field, name: str, type_: str) -> Field:
    form = Form(null_values=field.form.null_values)
    if type_ in _TIME_TYPES or nested(type_) is not None:
        zone = None if type_ == "DATE" else field.form.zone
        form = form._replace(pattern=field.form.pattern, epoch=field.form.epoch, zone=zone)
    place = Place(f"{field.source}.{name}" if name else f"{field.source}[]", (name,))
    limits = Limits(rejects_rounding=field.limits.rejects_rounding)
    return with_inner(Field(name, type_, place, form, limits, memory_bytes=scalar_memory(type_)))


def count_missing(raw: Any, field: Field, limit: int) -> int:
    """Count the missing values of the structs in a value, until they are more than ``limit``.

    Each takes space in a row, and none in the record.
    """
    if field.type.startswith("STRUCT"):
        if not isinstance(raw, dict) or not raw:
            return field.leaf_count
        values = [(raw.get(inner.name), inner) for inner in field.inner]
        missing_count = sum(value is None for value, inner in values if not inner.inner)
        nested_values = ((value, inner) for value, inner in values if inner.inner)
    else:
        (item_field,) = field.inner
        missing_count = 0
        nested_values = ((item, item_field) for item in (_items(raw) if item_field.inner else ()))
    for value, inner in nested_values:
        if missing_count > limit:
            break
        missing_count += count_missing(value, inner, limit - missing_count)
    return missing_count


def _items(raw: Any) -> Iterable[Any]:
    if isinstance(raw, dict):
        return raw.values()
    return raw if isinstance(raw, list) else ()
