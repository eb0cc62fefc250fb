"""Derive proposed columns from the Avro schemas that records were written with."""

import json
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple

from lakehouse.decoding.column_types import column_type_problems, digits_of, is_field_name
from lakehouse.decoding.formats.avro_logical import logical_converter
from lakehouse.decoding.formats.format import Path, SchemaField, WriterSchema

_SCALAR_TYPES = {"boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "DOUBLE", "double": "DOUBLE"}
_SCALAR_TYPES |= {"string": "STRING", "enum": "STRING"}
_NUMBERS = ("INT", "BIGINT", "DOUBLE")  # each represents the values of those before it, at least approximately
_MAX_TYPE_LENGTH = 10_000  # characters
_MAX_LEVELS = 5  # of records within records


def schema_fields(schemas: Iterable[WriterSchema], limit: int) -> dict[Path, SchemaField]:
    """The fields that schemas describe, by path; at most ``limit`` of each schema.

    If schemas differ, the first one counts; of several number types, the one that represents the values of all.
    """
    fields: dict[Path, SchemaField] = {}
    for schema in schemas:
        definitions, root = _NamedSchemas({}, {}), json.loads(schema.text)
        for definition in (*map(json.loads, schema.references), root):
            definitions.collect(definition)
        for path, field in islice(_fields(root, definitions, (), optional=False), limit):
            fields[path] = _merge_fields(fields[path], field) if path in fields else field
    fields.pop((), None)  # of a record without a field
    # a field that is a record in one schema and not in another is read as a whole, or not at all
    return {path: field for path, field in fields.items() if not any(path[:n] in fields for n in range(1, len(path)))}


def as_json(value: Any) -> Any:
    """A value with its numbers as decimals, as JSON is parsed."""
    if isinstance(value, dict):
        return {name: as_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return Decimal(repr(value))


class _NamedSchemas(NamedTuple):
    """Schemas by name, and the column types of those that were asked for."""

    schemas: dict[str, Any]
    column_types: dict[str, str | None]

    def collect(self, schema: Any) -> None:
        """Add the named schemas in a schema, and the schema itself if it has a name."""
        if isinstance(schema, list):
            for branch in schema:
                self.collect(branch)
        elif isinstance(schema, dict):
            if schema["type"] in ("record", "enum", "fixed"):
                self.schemas[schema["name"]] = schema
            inner_schemas = [schema[part] for part in ("type", "items", "values") if part in schema]
            for inner in (*inner_schemas, *(field["type"] for field in schema.get("fields", ()))):
                self.collect(inner)

    def resolve(self, schema: Any) -> tuple[Any, bool]:
        """The schema of values that are not null, and whether there may be a null; other unions stay as they are."""
        if isinstance(schema, dict) and not isinstance(schema["type"], str):
            return self.resolve(schema["type"])
        if isinstance(schema, str):
            return self.schemas.get(schema, schema), schema == "null"
        branches = [branch for branch in schema if branch != "null"] if isinstance(schema, list) else []
        if len(branches) != 1:
            return schema, isinstance(schema, list) and len(branches) < len(schema)
        resolved_schema, allows_null = self.resolve(branches[0])
        return resolved_schema, allows_null or len(schema) > 1


def _fields(
    schema: Any, definitions: _NamedSchemas, path: Path, *, optional: bool, outer_records: Path = ()
) -> Iterator[tuple[Path, SchemaField]]:
    """Yield the fields of a record and of nested records; a record within itself is not followed."""
    resolved_schema, allows_null = definitions.resolve(schema)
    optional = optional or allows_null
    is_record = (
        isinstance(resolved_schema, dict)
        and resolved_schema["type"] == "record"
        and resolved_schema["name"] not in outer_records
    )
    if not is_record or len(path) == _MAX_LEVELS or not resolved_schema["fields"]:
        yield path, SchemaField(_column_type(resolved_schema, definitions), optional)
        return
    for field in resolved_schema["fields"]:
        records = (*outer_records, resolved_schema["name"])
        yield from _fields(field["type"], definitions, (*path, field["name"]), optional=optional, outer_records=records)


def _column_type(schema: Any, definitions: _NamedSchemas) -> str | None:
    """The type of a column for the values of a schema; ``None`` if there is none."""
    resolved_schema, _ = definitions.resolve(schema)
    kind = resolved_schema["type"] if isinstance(resolved_schema, dict) else resolved_schema
    if isinstance(kind, list):  # a union of several types
        return None
    if isinstance(resolved_schema, dict) and logical_converter(resolved_schema):
        return _logical_type(resolved_schema)
    return _NESTED_TYPES[kind](resolved_schema, definitions) if kind in _NESTED_TYPES else _SCALAR_TYPES.get(kind)


def _array_type(schema: dict[str, Any], definitions: _NamedSchemas) -> str | None:
    item_type = _column_type(schema["items"], definitions)
    return item_type and f"ARRAY<{item_type}>"


def _map_type(schema: dict[str, Any], definitions: _NamedSchemas) -> str | None:
    value_type = _column_type(schema["values"], definitions)
    return value_type and f"MAP<STRING, {value_type}>"


def _struct_type(schema: dict[str, Any], definitions: _NamedSchemas) -> str | None:
    """A struct of the fields that have a column type and a valid name; ``None`` for a record within itself."""
    name = schema["name"]
    if name not in definitions.column_types:
        definitions.column_types[name] = None
        inner_types = [(field["name"], _column_type(field["type"], definitions)) for field in schema["fields"]]
        fields = {n.lower(): f"{n}: {type_}" for n, type_ in reversed(inner_types) if type_ and is_field_name(n)}
        struct_type = f"STRUCT<{', '.join(reversed(fields.values()))}>"
        definitions.column_types[name] = struct_type if fields and len(struct_type) <= _MAX_TYPE_LENGTH else None
    return definitions.column_types[name]


def _logical_type(schema: dict[str, Any]) -> str | None:
    logical_type = schema["logicalType"]
    if logical_type != "decimal":
        return {"date": "DATE", "uuid": "STRING"}.get(logical_type, "TIMESTAMP")
    type_ = f"DECIMAL({schema['precision']},{schema.get('scale', 0)})"
    return None if any(column_type_problems(type_)) else type_


def _merge_fields(field: SchemaField, other_field: SchemaField) -> SchemaField:
    """Combine what two schemas say about a field."""
    return SchemaField(_wider_type(field.type, other_field.type), field.optional or other_field.optional)


def _wider_type(type_: str | None, other_type: str | None) -> str | None:
    if type_ in _NUMBERS and other_type in _NUMBERS:
        return max(type_, other_type, key=_NUMBERS.index)
    if type_ is None or other_type is None or not type_.startswith("DECIMAL") or not other_type.startswith("DECIMAL"):
        return type_
    (precision, scale), (other_precision, other_scale) = digits_of(type_), digits_of(other_type)
    max_scale = max(scale, other_scale)
    decimal = f"DECIMAL({max(precision - scale, other_precision - other_scale) + max_scale},{max_scale})"
    return None if any(column_type_problems(decimal)) else decimal


_NESTED_TYPES: dict[str, Callable[[dict[str, Any], _NamedSchemas], str | None]] = {
    "record": _struct_type,
    "array": _array_type,
    "map": _map_type,
}
