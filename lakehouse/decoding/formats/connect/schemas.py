"""The schema that a record of Kafka Connect carries: what converts its values, and the columns that it describes.

Schemas come from records and may have any form: what is not understood converts nothing, and the declaration decides.
Pure and self-contained (the standard library only).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from lakehouse.decoding.byte_texts import byte_reader
from lakehouse.decoding.formats.debezium.values import Convert, converter_of
from lakehouse.decoding.formats.format import Path, SchemaField, WriterSchema
from lakehouse.decoding.formats.schema_types import MAX_LEVELS, decimal_type, merged_fields, nested_type, struct_of

_MAX_LEVELS = 20  # of a schema within schemas
_TYPES = {
    **dict.fromkeys(("int8", "int16", "int32"), "INT"),
    **dict.fromkeys(("float", "double"), "DOUBLE"),
    "string": "STRING",
    "bytes": "BINARY",
    "int64": "BIGINT",
    "boolean": "BOOLEAN",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_LOGICAL_TYPES = {
    **dict.fromkeys(("org.apache.kafka.connect.data.Date", "io.debezium.time.Date"), "DATE"),
    "org.apache.kafka.connect.data.Timestamp": "TIMESTAMP",
    **{f"io.debezium.time.{name}Timestamp": "TIMESTAMP" for name in ("", "Micro", "Nano", "Zoned")},
}
_READ_BASE64 = byte_reader("base64")
_ANY_SCALE = "io.debezium.data.VariableScaleDecimal"


def payload_converter(schema: Any) -> Convert | None:
    """Return what converts the fields of a payload with this schema; ``None`` if they stay as they are."""
    return _inner_converter(schema, _MAX_LEVELS) if isinstance(schema, dict) else None


def _converter(schema: Any, levels: int) -> Convert | None:
    """Return what converts the values of a schema, with everything in them; ``None`` if they stay as they are."""
    if not isinstance(schema, dict) or not levels:
        return None
    parameters = schema.get("parameters")
    has_scale = isinstance(parameters, dict) and isinstance(parameters.get("scale"), str)
    convert = converter_of(schema.get("name"), parameters if has_scale else None)
    if convert is None and schema.get("type") == "bytes":
        return _to_bytes
    return convert or _inner_converter(schema, levels)


def _to_bytes(raw: Any) -> Any:
    """Return the bytes that a text writes in Base64; another value stays as it is."""
    data = _READ_BASE64(raw)
    return raw if data is None else data


def _inner_converter(schema: Mapping[str, Any], levels: int) -> Convert | None:
    """Return what converts the fields of a struct, the items of an array or the values of a map."""
    if schema.get("type") == "struct":
        inner = {name: _converter(field, levels - 1) for name, field in struct_fields(schema)}
        return _struct_converter({name: convert for name, convert in inner.items() if convert})
    part = "items" if schema.get("type") == "array" else "values"
    return _items_converter(_converter(schema.get(part), levels - 1))


def struct_fields(schema: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the fields of a struct by name."""
    fields = schema.get("fields")
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, dict) and isinstance(field.get("field"), str):
            yield field["field"], field


def _struct_converter(converters: Mapping[str, Convert]) -> Convert | None:
    def convert_struct(raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        names = converters.keys() & raw.keys()
        return raw | {name: converters[name](raw[name]) for name in names if raw[name] is not None}

    return convert_struct if converters else None


def _items_converter(convert: Convert | None) -> Convert | None:
    """Return what converts the items of an array or the values of a map."""
    if convert is None:
        return None

    def convert_item(raw: Any) -> Any:
        return None if raw is None else convert(raw)

    def convert_items(raw: Any) -> Any:
        if isinstance(raw, dict):
            return {name: convert_item(item) for name, item in raw.items()}
        return [convert_item(item) for item in raw] if isinstance(raw, list) else raw

    return convert_items


def schema_fields(schemas: Iterable[WriterSchema], limit: int) -> dict[Path, SchemaField]:
    """The fields that schemas describe, by path; at most ``limit`` of each schema. If schemas differ, see Avro."""
    return merged_fields(islice(_fields(json.loads(schema.text), (), optional=False), limit) for schema in schemas)


def _fields(schema: Any, path: Path, *, optional: bool) -> Iterator[tuple[Path, SchemaField]]:
    """Yield the fields of a struct and of the structs in it."""
    optional = optional or bool(schema.get("optional")) if isinstance(schema, dict) else optional
    fields = list(struct_fields(schema)) if isinstance(schema, dict) and schema.get("type") == "struct" else []
    if not fields or len(path) == MAX_LEVELS or schema.get("name") == _ANY_SCALE:
        yield path, SchemaField(_column_type(schema), optional)
        return
    for name, field in fields:
        yield from _fields(field, (*path, name), optional=optional)


def _column_type(schema: Any, levels: int = _MAX_LEVELS) -> str | None:
    """The type of a column for the values of a schema; ``None`` if there is none."""
    if not isinstance(schema, dict) or not levels or schema.get("name") == _ANY_SCALE:
        return None
    kind, name = schema.get("type"), schema.get("name")
    if name == _DECIMAL:
        parameters = schema.get("parameters")
        options = parameters if isinstance(parameters, dict) else {}
        return decimal_type(options.get("connect.decimal.precision", 38), options.get("scale"))
    if isinstance(name, str) and name in _LOGICAL_TYPES:
        return _LOGICAL_TYPES[name]
    if isinstance(kind, str) and kind in _NESTED_TYPES:
        return _NESTED_TYPES[kind](schema, levels - 1)
    return _TYPES.get(kind) if isinstance(kind, str) else None


def _array_type(schema: Mapping[str, Any], levels: int) -> str | None:
    return nested_type("ARRAY<{}>", _column_type(schema.get("items"), levels))


def _map_type(schema: Mapping[str, Any], levels: int) -> str | None:
    """The type of a map whose keys are texts; others are arrays of pairs in JSON."""
    keys = schema.get("keys")
    has_text_keys = isinstance(keys, dict) and keys.get("type") == "string"
    return nested_type("MAP<STRING, {}>", _column_type(schema.get("values"), levels)) if has_text_keys else None


def _struct_type(schema: Mapping[str, Any], levels: int) -> str | None:
    return struct_of((name, _column_type(field, levels)) for name, field in struct_fields(schema))


_NESTED_TYPES: dict[str, Callable[[Mapping[str, Any], int], str | None]] = {
    "array": _array_type,
    "map": _map_type,
    "struct": _struct_type,
}
