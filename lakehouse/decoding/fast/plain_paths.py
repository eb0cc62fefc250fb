"""The values of a field in many parsed records: at its path, or in another part of the records."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from lakehouse.decoding.fast.plain_texts import parsed_key_part, read_parsed_keys, read_parts, read_texts
from lakehouse.decoding.fields import Field
from lakehouse.decoding.opened_texts import CONTAINER
from lakehouse.decoding.record_parts import KEY, PARSED_KEY, TOPIC, UNMAPPED, VALUE
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.unmapped_values import left_values


def values_at(objects: Sequence[dict[str, Any]], names: tuple[str, ...]) -> list[Any]:
    """The value at a path of names in each object; ``None`` if there is none."""
    first_name, *inner_names = names
    try:
        values = list(map(itemgetter(first_name), objects))
    except KeyError:
        values = [obj.get(first_name) for obj in objects]
    for name in inner_names:
        values = [value.get(name) if type(value) is dict else _null_or_invalid(value) for value in values]
    return values


def field_values(objects: list[dict[str, Any]], field: Field) -> list[Any]:
    """The value of a field in each object; ``None`` if there is none."""
    if not field.whole_depth:
        return values_at(objects, field.names)
    names = field.names[field.whole_depth :]
    return [_value_or_inner(whole, names) for whole in values_at(objects, field.names[: field.whole_depth])]


def _value_or_inner(whole: Any, names: tuple[str, ...]) -> Any:
    """A value, or the one at a path in it if it is an object; one that no column accepts if that is not certain."""
    if type(whole) is str and CONTAINER.match(whole):
        return ()
    value = whole
    for name in names if type(whole) is dict else ():
        if type(value) is not dict or name not in value:
            return ()
        value = value[name]
    return value


def _null_or_invalid(outer: Any) -> Any:
    """The value inside something that is not an object: null inside a null, else one that no column accepts."""
    return None if outer is None else ()


def values_of_parts(
    arrays: Mapping[str, pa.Array | None], objects: list[dict[str, Any]], rules: Rules
) -> dict[str, list[Any]]:
    """The values of the other parts of the records with these objects, and what columns leave of the objects."""
    values = {part: array[: len(objects)].to_pylist() for part, array in arrays.items() if array is not None}
    if rules.topic is not None:
        values[TOPIC] = [rules.topic] * len(objects)
    if rules.key_parser:
        values |= read_parsed_keys(values.get(KEY, [None] * len(objects)), rules.fields, rules.key_parser)
    if rules.taken_fields is not None:
        values[UNMAPPED] = [left_values(obj, rules.taken_fields) for obj in objects]
    return values


def read_values(objects: list[Any], part_values: Mapping[str, list[Any]], field: Field) -> list[Any]:
    """The values of a field that the parser of the records made, or what columns leave of them."""
    return field_values(objects, field) if field.part == VALUE else part_values[UNMAPPED]


def read_written_values(objects: list[Any], part_values: Mapping[str, list[Any]], field: Field) -> list[Any]:
    """The values of a field that is written as text, in the value of a record or in another part."""
    raws = values_in_part(objects, part_values, field)
    if field.part == PARSED_KEY:
        return raws
    return read_texts(raws, field) if field.part == VALUE else read_parts(raws, field)


def values_in_part(objects: list[Any], part_values: Mapping[str, list[Any]], field: Field) -> list[Any]:
    """The values of a field as the part of the records has them."""
    if field.part == VALUE:
        return field_values(objects, field)
    return part_values.get(parsed_key_part(field) if field.part == PARSED_KEY else field.part, [None] * len(objects))
