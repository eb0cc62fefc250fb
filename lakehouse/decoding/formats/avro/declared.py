"""Derive an Avro schema from a declaration; ``publish`` registers it for a topic that has no schema."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats.schema_types import field_tree
from lakehouse.decoding.written_forms import Written, written_kinds

_TYPES = {"STRING": "string", "BOOLEAN": "boolean", "INT": "int", "BIGINT": "long", "DOUBLE": "double"}
_TYPES |= {"BINARY": "bytes"}


def schema_of_fields(record: str, fields: Iterable[Field]) -> str:
    """Return the text of a schema for a record with this name: one field for each field that a column reads.

    A field is optional unless its column is required. Raises ``UnusableSchemaError`` if columns read a field in ways
    that no schema can describe.
    """
    return json.dumps(_record_schema(record, field_tree(fields, lambda field: _field_type(field, ""))))


def _record_schema(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field_schema(name, *item) for item in fields.items()]}


def _field_schema(parent: str, name: str, content: Any) -> dict[str, Any]:
    if isinstance(content, dict):
        return {"name": name, "type": ["null", _record_schema(f"{parent}.{name}", content)], "default": None}
    type_ = _field_type(content, f"{parent}.{name}")
    if content.limits.required:
        return {"name": name, "type": type_}
    return {"name": name, "type": ["null", *(type_ if isinstance(type_, list) else [type_])], "default": None}


def _field_type(field: Field, record_name: str) -> Any:
    """The Avro type of a field; ``record_name`` is a name for records in it, unique since it is the path."""
    if field.inner:
        return _nested_type(field, record_name)
    if field.form.written is not None:
        return _written_type(field, field.form.written)
    if field.type in ("DATE", "TIMESTAMP"):
        return _time_type(field)
    if field.type.startswith("DECIMAL"):
        precision, scale = (int(part) for part in field.type[8:-1].split(","))
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return _TYPES[field.type]


def _written_type(field: Field, written: Written) -> Any:
    """The Avro type of a field that is not in JSON's own form; a union if it may be of several types."""
    has_digits = field.type in ("STRING", "BOOLEAN") or field.form.pattern is not None
    number_type = "long" if has_digits else _field_type(field._replace(form=field.form._replace(written=None)), "")
    types = [number_type if kind == "number" else kind for kind in written_kinds(written)]
    return types if len(types) > 1 else types[0]


def _nested_type(field: Field, record_name: str) -> dict[str, Any]:
    inner_types = [["null", _field_type(inner, f"{record_name}.{inner.name or 'item'}")] for inner in field.inner]
    if field.type.startswith("STRUCT"):
        fields = zip(field.inner, inner_types, strict=True)
        return {
            "type": "record",
            "name": record_name,
            "fields": [{"name": inner.name, "type": type_, "default": None} for inner, type_ in fields],
        }
    return (
        {"type": "array", "items": inner_types[0]}
        if field.type.startswith("ARRAY")
        else {"type": "map", "values": inner_types[0]}
    )


def _time_type(field: Field) -> Any:
    if field.form.pattern is not None:
        return "string"
    if field.type == "DATE":
        return "int" if field.form.epoch else {"type": "int", "logicalType": "date"}
    logical_type = "local-timestamp-micros" if field.form.zone else "timestamp-micros"
    return "long" if field.form.epoch else {"type": "long", "logicalType": logical_type}
