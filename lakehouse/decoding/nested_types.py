"""Types of values that hold others, as they are written: ``ARRAY<INT>``, ``MAP<STRING, INT>``, ``STRUCT<a: INT>``.

Pure and self-contained (the standard library only): fields that hold others are read on Spark's executors.
"""

import re
from typing import Any, Literal, NamedTuple, cast

from lakehouse.decoding.fields import Field
from lakehouse.decoding.memory import LIST, dict_of, plain_room

_NESTED = re.compile(r"(ARRAY|MAP|STRUCT)<(.*)>", re.DOTALL)
_TIMES = ("TIMESTAMP", "DATE")


class Nested(NamedTuple):
    """What values of a type hold: their names and types; of an array that of its items, of a map key and value."""

    kind: Literal["ARRAY", "MAP", "STRUCT"]
    inner: tuple[tuple[str, str], ...]


def nested(type_: str) -> Nested | None:
    """What values of a type hold; ``None`` where they hold no others."""
    found = _NESTED.fullmatch(type_)
    if not found:
        return None
    kind = cast(Literal["ARRAY", "MAP", "STRUCT"], found[1])
    parts = _parts(found[2])
    if kind != "STRUCT":
        return Nested(kind, tuple(("", each.strip()) for each in parts))
    named = (each.partition(":") for each in parts)
    return Nested(kind, tuple((name.strip(), inner.strip()) for name, _, inner in named))


def _parts(listed: str) -> list[str]:
    """The parts of a list between its own commas."""
    parts, level = [""], 0
    for character in listed:
        level += (character in "<(") - (character in ">)")
        if character == "," and level == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def plain_types(type_: str) -> set[str]:
    """The types of the values in it that hold no others; its own, where it holds none."""
    found = nested(type_)
    return set().union(*(plain_types(inner) for _, inner in found.inner)) if found else {type_}


def as_spark_says(type_: str) -> str:
    """The type as Spark tells it of a table: in lower case, but for the names of fields."""
    found = nested(type_)
    if found is None:
        return re.sub(r"\s", "", type_).lower()
    inner = (f"{name}:{as_spark_says(each)}" if name else as_spark_says(each) for name, each in found.inner)
    return f"{found.kind.lower()}<{','.join(inner)}>"


def with_inner(field: Field) -> Field:
    """The rule for a field with those for what its values hold: times and nulls in them are written as its own."""
    found = nested(field.type)
    if found is None:
        return field
    parts = found.inner[-1:] if found.kind == "MAP" else found.inner
    inner = tuple(_inside(field, *each) for each in parts)
    if found.kind != "STRUCT":
        return field._replace(inner=inner, room=LIST)
    room = dict_of(len(inner)) + sum(each.room for each in inner)
    return field._replace(inner=inner, leaves=sum(each.leaves for each in inner), room=room)


def as_told(value: Any, field: Field) -> Any:
    """A value that was read, as people know it: a map by its names."""
    if value is None or not field.inner:
        return value
    if field.type.startswith("STRUCT"):
        return {each.name: as_told(value[each.name], each) for each in field.inner}
    (item,) = field.inner
    if field.type.startswith("MAP"):
        return {name: as_told(each, item) for name, each in value}
    return [as_told(each, item) for each in value]


def _inside(field: Field, name: str, type_: str) -> Field:
    timed = type_ in _TIMES or nested(type_) is not None
    pattern, epoch = (field.pattern, field.epoch) if timed else (None, None)
    shown = f"{field.source}.{name}" if name else f"{field.source}[]"
    inner = Field(
        name, shown, type_, False, None, None, pattern, (name,), epoch, nulls=field.nulls, room=plain_room(type_)
    )
    return with_inner(inner)
