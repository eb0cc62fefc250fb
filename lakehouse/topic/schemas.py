"""Schemas of Avro: as a registry tells them → as records are read by them; what tells one from another."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastavro import parse_schema
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.types import Schema

from lakehouse.declaration import StreamTable
from lakehouse.declaration.avro import WriterSchema, reader_of
from lakehouse.declaration.avro_logical import is_decimal
from lakehouse.declaration.fields import Field, Rejection
from lakehouse.declaration.parts import VALUE

_DECIDE = {
    *("type", "name", "fields", "symbols", "items", "values", "size"),
    *("logicalType", "precision", "scale"),
}
"""What decides how a record is read, and with which values; not what a schema says to people, nor its defaults."""

_TYPES = {"STRING": "string", "BOOLEAN": "boolean", "INT": "int", "BIGINT": "long", "DOUBLE": "double"}
_WRONG = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What a parser raises that relies on what a schema is to hold."""


_MOST_LEVELS = 150  # of its JSON, of which a record in another takes three


class UnusableSchemaError(ValueError):
    """Nothing can be read by a schema; the text says why."""


def writer_schema(text: str, references: Sequence[str] = ()) -> WriterSchema:
    """Return a schema with every name in full; ``references`` are those it refers to, each after what it refers to.

    Raises ``UnusableSchemaError``.
    """
    named: dict[str, Any] = {}
    try:
        *before, own = [_named_in_full(each, named) for each in (*references, text)]
        schema = WriterSchema(own, tuple(before))
        reader_of(schema)
    except UnusableSchemaError:
        raise
    except Rejection as rejection:
        raise UnusableSchemaError(rejection.detail) from None
    except (SchemaParseException, UnknownType, *_WRONG) as error:
        raise UnusableSchemaError(f"it is no schema of Avro: {type(error).__name__}: {error}") from None
    return schema


def _named_in_full(text: str, named: dict[str, Any]) -> str:
    given = json.loads(text)
    if _levels(given) > _MOST_LEVELS:
        raise UnusableSchemaError(f"it is nested in more than {_MOST_LEVELS} levels of JSON")
    # no reader needs a default, and many a schema has one that does not fit its field
    schema: Schema = parse_schema(_with_decimals(given), named, _write_hint=False, _ignore_default_error=True)
    return json.dumps(schema)


def _with_decimals(part: Any) -> Any:
    """A schema whose decimals are some: what only says so is bytes, as the format has it, and no error."""
    if isinstance(part, list):
        return [_with_decimals(each) for each in part]
    if not isinstance(part, dict):
        return part
    none = part.get("logicalType") == "decimal" and not is_decimal(part)
    left_out = ("logicalType", "precision", "scale") if none else ()
    return {name: _with_decimals(value) for name, value in part.items() if name not in left_out}


def _levels(part: Any) -> int:
    """How deep JSON is nested, as far as it matters; whoever asks may stand deep in other calls already."""
    levels, inner = 0, [part]
    while inner and levels <= _MOST_LEVELS:
        levels += 1
        held = [each.values() if isinstance(each, dict) else each for each in inner if isinstance(each, dict | list)]
        inner = [each for values in held for each in values]
    return levels


def fingerprint(schema: WriterSchema) -> str:
    """A hash of what a schema means: the same for texts that differ in spacing, or in what they say to people."""
    parts = [_meaning(_with_decimals(json.loads(each))) for each in (*schema.references, schema.text)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _meaning(part: Any) -> Any:
    if isinstance(part, list):
        return [_meaning(each) for each in part]
    if isinstance(part, dict):
        return {name: _meaning(value) for name, value in part.items() if name in _DECIDE}
    return part


def schema_of_table(table: StreamTable) -> str:
    """A schema that follows from a declaration: a field for each column that takes one, optional where that is.

    Raises ``UnusableSchemaError`` where columns take a field in ways that no schema has.
    """
    root: dict[str, Any] = {}
    for field in table.fields:
        if field.part == VALUE:
            _place(root, field.names, field)
    return json.dumps(_record(table.name, root))


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
