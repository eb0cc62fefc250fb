"""The values of a record that no column takes: what is left of its fields, in one object.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lakehouse.decoding.fields import Field
from lakehouse.decoding.record_parts import VALUE

TakenFields = Mapping[str | None, Any]
"""By the name of a field, what columns take of its value: ``True`` for everything, else by the names of its fields.

``None`` is the name of each item of an array or a map.
"""


def taken_values(fields: Iterable[Field]) -> TakenFields:
    """Return what the columns of these fields take."""
    taken_fields: dict[str | None, Any] = {}
    for field in (field for field in fields if field.part == VALUE):
        for names in filter(None, (field.names, field.former)):
            *outer_names, name = names
            inner_taken = taken_fields
            for outer_name in outer_names:
                inner_taken = inner_taken.setdefault(outer_name, {})
                if inner_taken is True:
                    break
            else:
                _add(inner_taken, name, _taken_of(field))
    return taken_fields


def _taken_of(field: Field) -> Any:
    """What a column takes of a value; only structs leave something."""
    if field.type.startswith("STRUCT"):
        return {inner.name: _taken_of(inner) for inner in field.inner}
    if field.inner and (item := _taken_of(field.inner[0])) is not True:
        return {None: item}
    return True


def _add(taken_fields: dict[str | None, Any], name: str, value: Any) -> None:
    """Add what one column takes of a field to what others take of it."""
    known_value = taken_fields.get(name)
    if value is True or known_value is True:
        taken_fields[name] = True
    elif known_value is None:
        taken_fields[name] = value
    else:
        for inner_name, inner_value in value.items():
            _add(known_value, inner_name, inner_value)


def left_values(parsed: Mapping[str, Any], taken_fields: TakenFields) -> dict[str, Any] | None:
    """Return what columns leave of the fields of a record; ``None`` if they leave nothing.

    An array keeps the places of its items: an item of which nothing is left is an empty object.
    """
    return dict(_left_fields(parsed, taken_fields)) or None


def _left_fields(values: Mapping[str, Any], taken_fields: TakenFields) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        inner_taken = taken_fields.get(name, taken_fields.get(None, False))
        left = value if inner_taken is False else _left_of(value, inner_taken)
        if inner_taken is False or left:
            yield name, left


def _left_of(value: Any, taken_fields: Any) -> Any:
    """What is left of an object or an array; nothing of any other value."""
    if taken_fields is True:
        return None
    if isinstance(value, dict):
        return left_values(value, taken_fields)
    if isinstance(value, list) and None in taken_fields:
        left_items = [_left_of(item, taken_fields[None]) or {} for item in value]
        return left_items if any(left_items) else None
    return None
