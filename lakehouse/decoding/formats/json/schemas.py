"""The fields that a JSON Schema describes, for a proposal: which there are, which may be missing, and their numbers.

The type of every other field follows from its values. Schemas may have any form: what is not understood adds nothing.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from lakehouse.decoding.formats.format import Path, SchemaField, UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.schema_types import MAX_LEVELS, merged_fields

KIND = "JSON"
_NUMBERS = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
_FROM_VALUES = "STRING"  # the type of a field for which the values count
_MAX_REFERENCES = 20


def writer_schema(text: str) -> WriterSchema:
    """Return a schema; raises ``UnusableSchemaError`` if its text is not a JSON object."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableSchemaError(f"it is not JSON: {error}"[:200]) from None
    if not isinstance(content, dict):
        raise UnusableSchemaError("it is not a JSON object")
    return WriterSchema(text, (), KIND)


def schema_fields(schemas: Iterable[WriterSchema], limit: int) -> dict[Path, SchemaField]:
    """The fields that schemas describe, by path; at most ``limit`` of each schema. If schemas differ, see Avro."""
    return merged_fields(islice(_fields_of(json.loads(schema.text)), limit) for schema in schemas)


def _fields_of(root: Mapping[str, Any]) -> Iterator[tuple[Path, SchemaField]]:
    yield from _fields(root, root, (), optional=False)


def _fields(schema: Any, root: Mapping[str, Any], path: Path, *, optional: bool) -> Iterator[tuple[Path, SchemaField]]:
    """Yield the fields of an object and of the objects in it."""
    present_schema, allows_null = _without_null(_resolve(schema, root), root)
    optional = optional or allows_null
    properties = present_schema.get("properties")
    if not isinstance(properties, dict) or not properties or len(path) == MAX_LEVELS:
        yield path, SchemaField(_NUMBERS.get(str(present_schema.get("type")), _FROM_VALUES), optional)
        return
    required = present_schema.get("required")
    required_names = required if isinstance(required, list) else []
    for name, inner in properties.items():
        yield from _fields(inner, root, (*path, name), optional=optional or name not in required_names)


def _resolve(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """The schema that a reference within the same document means; an empty one if there is none."""
    for _ in range(_MAX_REFERENCES):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str):
            return schema if isinstance(schema, dict) else {}
        schema = root
        for name in reference.removeprefix("#").strip("/").split("/"):
            schema = schema.get(name) if isinstance(schema, dict) else None
    return {}


def _without_null(schema: dict[str, Any], root: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The schema of values that are not null, and whether there may be a null; several schemas describe nothing."""
    types = schema.get("type")
    if isinstance(types, list):
        other_types = [type_ for type_ in types if type_ != "null"]
        return {**schema, "type": other_types[0] if len(other_types) == 1 else None}, "null" in types
    options = schema.get("oneOf", schema.get("anyOf"))
    if not isinstance(options, list):
        return schema, types == "null"
    resolved_options = [_resolve(option, root) for option in options]
    present_options = [option for option in resolved_options if option.get("type") != "null"]
    present_schema = present_options[0] if len(present_options) == 1 else {}
    return present_schema, len(present_options) < len(resolved_options)
