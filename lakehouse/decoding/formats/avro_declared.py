"""A schema of Avro that follows from a declaration: what ``publish`` registers for a topic that has none."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats.format import UnusableSchemaError
from lakehouse.decoding.record_parts import VALUE

_TYPES = {"STRING": "string", "BOOLEAN": "boolean", "INT": "int", "BIGINT": "long", "DOUBLE": "double"}


def schema_of_fields(record: str, fields: Iterable[Field]) -> str:
    """The text of a schema for a record of that name: a field for each column that takes one, optional where that is.

    Raises ``UnusableSchemaError`` if columns take a field in ways that no schema has.
    """
    root: dict[str, Any] = {}
    for field in fields:
        if field.part == VALUE:
            _place(root, field.names, field)
    return json.dumps(_record(record, root))


def _place(root: dict[str, Any], names: Sequence[str], field: Field) -> None:
    """Put a field where its names lead; a struct is the fields in it, of which columns may take more by their paths."""
    if field.type.startswith("STRUCT"):
        for each in field.inner:
            _place(root, (*names, each.name), each)
        return
    place: Any = root
    for name in names[:-1]:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise UnusableSchemaError(f"columns take {name!r} both whole and in parts")
    there = place.setdefault(names[-1], field)
    if isinstance(there, dict):
        raise UnusableSchemaError(f"columns take {names[-1]!r} both whole and in parts")
    if _type(there, "") != _type(field, ""):
        raise UnusableSchemaError(f"columns take {names[-1]!r} as values of two types")
    place[names[-1]] = field if field.required else there


def _record(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(name, *each) for each in fields.items()]}


def _field(above: str, name: str, inside: Any) -> dict[str, Any]:
    if isinstance(inside, dict):
        return {"name": name, "type": ["null", _record(f"{above}.{name}", inside)], "default": None}
    kind = _type(inside, f"{above}.{name}")
    if inside.required:
        return {"name": name, "type": kind}
    return {"name": name, "type": ["null", kind], "default": None}


def _type(field: Field, named: str) -> Any:
    """The type of a field; records in it are ``named`` by where they stand, so that no two are named alike."""
    if field.inner:
        return _holding(field, named)
    if field.type in ("DATE", "TIMESTAMP"):
        return _time(field)
    if field.type.startswith("DECIMAL"):
        precision, scale = (int(part) for part in field.type[8:-1].split(","))
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return _TYPES[field.type]


def _holding(field: Field, named: str) -> dict[str, Any]:
    inner = [["null", _type(each, f"{named}.{each.name or 'item'}")] for each in field.inner]
    if field.type.startswith("STRUCT"):
        fields = zip(field.inner, inner, strict=True)
        return {
            "type": "record",
            "name": named,
            "fields": [{"name": each.name, "type": kind, "default": None} for each, kind in fields],
        }
    return (
        {"type": "array", "items": inner[0]} if field.type.startswith("ARRAY") else {"type": "map", "values": inner[0]}
    )


def _time(field: Field) -> Any:
    if field.pattern is not None:
        return "string"
    if field.type == "DATE":
        return "int" if field.epoch else {"type": "int", "logicalType": "date"}
    return "long" if field.epoch else {"type": "long", "logicalType": "timestamp-micros"}
