"""Derive proposed columns from the Avro schemas that records were written with."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from lakehouse.decoding.formats.avro.logical import logical_converter
from lakehouse.decoding.formats.avro.nodes import branch_names, is_of_several_types, type_name
from lakehouse.decoding.formats.format import Path, SchemaField, WriterSchema
from lakehouse.decoding.formats.schema_types import MAX_LEVELS, decimal_type, merged_fields, nested_type, struct_of

_SCALAR_TYPES = {"boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "DOUBLE", "double": "DOUBLE"}
_SCALAR_TYPES |= {"string": "STRING", "enum": "STRING", "bytes": "BINARY", "fixed": "BINARY"}
_EXACT_TYPES = {type_: {type_} for type_ in ("STRING", "BINARY", "BOOLEAN", "DATE", "TIMESTAMP")}
_EXACT_TYPES |= {"INT": {"INT"}, "BIGINT": {"INT", "BIGINT"}, "DOUBLE": {"INT", "DOUBLE"}}
"""Types of columns, and the types whose values they represent exactly."""


def schema_fields(
    schemas: Iterable[WriterSchema], limit: int, *, named_branches: bool = False
) -> dict[Path, SchemaField]:
    """The fields that schemas describe, by path; at most ``limit`` of each schema.

    If schemas differ, the first one counts; of several number types, the one that represents the values of all.
    ``named_branches``: the value of a union of several types is an object whose fields are the branches.
    """
    return merged_fields(islice(_fields_of(schema, named_branches=named_branches), limit) for schema in schemas)


def has_several_types(schema: WriterSchema) -> bool:
    """Whether a union in a schema has types that no single type of a column can represent."""
    definitions, _ = _read_definitions(schema, named_branches=False)
    return any(_union_type(union, definitions) is None for union in definitions.unions if is_of_several_types(union))


def record_names(schema: WriterSchema) -> list[str]:
    """The full names of the records that a schema describes: one, or those of a union."""
    root = json.loads(schema.text)
    return [type_name(branch) for branch in (root if isinstance(root, list) else [root])]


def _fields_of(schema: WriterSchema, *, named_branches: bool) -> Iterator[tuple[Path, SchemaField]]:
    definitions, root = _read_definitions(schema, named_branches=named_branches)
    return _fields(root, definitions, (), optional=False)


def _read_definitions(schema: WriterSchema, *, named_branches: bool) -> tuple["_NamedSchemas", Any]:
    definitions, root = _NamedSchemas({}, {}, [], named_branches), json.loads(schema.text)
    for definition in (*map(json.loads, schema.references), root):
        definitions.collect(definition)
    return definitions, root


class _NamedSchemas(NamedTuple):
    """Schemas by name, the column types of those that were asked for, and all unions."""

    schemas: dict[str, Any]
    column_types: dict[str, str | None]
    unions: list[list[Any]]
    has_named_branches: bool

    def collect(self, schema: Any) -> None:
        """Add the named schemas in a schema, and the schema itself if it has a name."""
        if isinstance(schema, list):
            self.unions.append(schema)
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
    if isinstance(resolved_schema, list) and definitions.has_named_branches and len(path) < MAX_LEVELS:
        for name, branch in _named_branches(resolved_schema):
            yield from _fields(branch, definitions, (*path, name), optional=True, outer_records=outer_records)
        return
    is_record = (
        isinstance(resolved_schema, dict)
        and resolved_schema["type"] == "record"
        and resolved_schema["name"] not in outer_records
    )
    if not is_record or len(path) == MAX_LEVELS or not resolved_schema["fields"]:
        yield path, SchemaField(_column_type(resolved_schema, definitions), optional)
        return
    for field in resolved_schema["fields"]:
        records = (*outer_records, resolved_schema["name"])
        yield from _fields(field["type"], definitions, (*path, field["name"]), optional=optional, outer_records=records)


def _column_type(schema: Any, definitions: _NamedSchemas) -> str | None:
    """The type of a column for the values of a schema; ``None`` if there is none."""
    resolved_schema, _ = definitions.resolve(schema)
    kind = resolved_schema["type"] if isinstance(resolved_schema, dict) else resolved_schema
    if isinstance(kind, list):
        return _union_type(kind, definitions)
    if isinstance(resolved_schema, dict) and logical_converter(resolved_schema):
        return _logical_type(resolved_schema)
    return _NESTED_TYPES[kind](resolved_schema, definitions) if kind in _NESTED_TYPES else _SCALAR_TYPES.get(kind)


def _union_type(branches: Sequence[Any], definitions: _NamedSchemas) -> str | None:
    """The type that represents the values of all branches exactly; a struct of the branches if these are named."""
    if definitions.has_named_branches:
        return struct_of((name, _column_type(branch, definitions)) for name, branch in _named_branches(branches))
    types = {_column_type(branch, definitions) for _, branch in _named_branches(branches)}
    return next((type_ for type_, exact_types in _EXACT_TYPES.items() if exact_types.issuperset(types)), None)


def _named_branches(branches: Sequence[Any]) -> list[tuple[str, Any]]:
    """The branches of a union that are not null, by their names."""
    pairs = zip(branch_names(branches), branches, strict=True)
    return [(name, branch) for name, branch in pairs if name != "null"]


def _array_type(schema: dict[str, Any], definitions: _NamedSchemas) -> str | None:
    return nested_type("ARRAY<{}>", _column_type(schema["items"], definitions))


def _map_type(schema: dict[str, Any], definitions: _NamedSchemas) -> str | None:
    return nested_type("MAP<STRING, {}>", _column_type(schema["values"], definitions))


def _struct_type(schema: dict[str, Any], definitions: _NamedSchemas) -> str | None:
    """A struct of the fields that have a column type and a valid name; ``None`` for a record within itself."""
    name = schema["name"]
    if name not in definitions.column_types:
        definitions.column_types[name] = None
        inner_types = [(field["name"], _column_type(field["type"], definitions)) for field in schema["fields"]]
        definitions.column_types[name] = struct_of(inner_types)
    return definitions.column_types[name]


def _logical_type(schema: dict[str, Any]) -> str | None:
    logical_type = schema["logicalType"]
    if logical_type != "decimal":
        return {"date": "DATE", "uuid": "STRING"}.get(logical_type, "TIMESTAMP")
    return decimal_type(schema["precision"], schema.get("scale", 0))


_NESTED_TYPES: dict[str, Callable[[dict[str, Any], _NamedSchemas], str | None]] = {
    "record": _struct_type,
    "array": _array_type,
    "map": _map_type,
}
