"""Schemas of Avro: as a registry tells them → as records are read by them; what tells one from another."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from fastavro import parse_schema
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.types import Schema

from lakehouse.declaration import Column, StreamTable
from lakehouse.declaration.avro import WriterSchema, reader_of
from lakehouse.declaration.fields import Rejection
from lakehouse.declaration.parts import VALUE

_DECIDE = {
    *("type", "name", "fields", "symbols", "items", "values", "size"),
    *("logicalType", "precision", "scale"),
}
"""What decides how a record is read, and with which values; not what a schema says to people, nor its defaults."""

_TYPES = {"STRING": "string", "BOOLEAN": "boolean", "INT": "int", "BIGINT": "long", "DOUBLE": "double"}
_WRONG = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What a parser raises that relies on what a schema is to hold."""


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
    except Rejection as rejection:
        raise UnusableSchemaError(rejection.detail) from None
    except (SchemaParseException, UnknownType, *_WRONG) as error:
        raise UnusableSchemaError(f"it is no schema of Avro: {type(error).__name__}: {error}") from None
    return schema


def _named_in_full(text: str, named: dict[str, Any]) -> str:
    schema: Schema = parse_schema(json.loads(text), named, _write_hint=False)
    return json.dumps(schema)


def fingerprint(schema: WriterSchema) -> str:
    """A hash of what a schema means: the same for texts that differ in spacing, or in what they say to people."""
    parts = [_meaning(json.loads(each)) for each in (*schema.references, schema.text)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _meaning(part: Any) -> Any:
    if isinstance(part, list):
        return [_meaning(each) for each in part]
    if isinstance(part, dict):
        return {name: _meaning(value) for name, value in part.items() if name in _DECIDE}
    return part


def schema_of_table(table: StreamTable) -> str:
    """A schema that follows from a declaration: a field for each column that takes one, optional where that is."""
    root: dict[str, Any] = {}
    for column in table.told:
        field = column.field
        if field.part != VALUE:
            continue
        place = root
        for name in field.names[:-1]:
            place = place.setdefault(name, {})
        place[field.names[-1]] = column
    return json.dumps(_record(table.name, root))


def _record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(name, *each) for each in fields.items()]}


def _field(above: str, name: str, inside: Any) -> dict[str, Any]:
    if isinstance(inside, dict):
        return {"name": name, "type": ["null", _record(f"{above}_{name}", inside)], "default": None}
    kind = _type(inside)
    if inside.required:
        return {"name": name, "type": kind}
    return {"name": name, "type": ["null", kind], "default": None}


def _type(column: Column) -> Any:
    if column.pattern is not None:
        return "string"
    if column.type == "DATE":
        return "int" if column.epoch else {"type": "int", "logicalType": "date"}
    if column.type == "TIMESTAMP":
        return "long" if column.epoch else {"type": "long", "logicalType": "timestamp-micros"}
    if column.type.startswith("DECIMAL"):
        precision, scale = (int(part) for part in column.type[8:-1].split(","))
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return _TYPES[column.type]
