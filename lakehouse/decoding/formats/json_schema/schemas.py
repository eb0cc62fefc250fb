"""Prepare a registered JSON Schema for the check of records, make its check, and compare what schemas mean.

Of any schema, also one that is not prepared, the fields that it describes, for a proposal: which there are, which may
be missing, and their numbers. The type of every other field follows from its values; what is not understood adds none.

The prepared form is one JSON object with the texts of the schema and of those that it refers to, by name. The driver
and each process of a worker make the check of it, since a validator of the library cannot be sent.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import Path, RegisteredSchema, SchemaField, UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.json_schema.checks import RecordCheck, readable, survey
from lakehouse.decoding.formats.json_schema.costs import Costs, SchemaPlace
from lakehouse.decoding.formats.json_schema.documents import Documents
from lakehouse.decoding.formats.schema_types import MAX_LEVELS, merged_fields
from lakehouse.decoding.json_parsing import parse_json

KIND = "JSON"
_NUMBERS = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
_FROM_VALUES = "STRING"  # the type of a field for which the values count
_MAX_REFERENCES = 20
_PATTERN_BYTES, _CACHE_BYTES = 16 * 2**20, 2**20  # of a compiled pattern, and of what its matches keep
_SHOWN = 150  # characters of a part of a schema in a message


def prepare(registered: RegisteredSchema) -> WriterSchema:
    """Return a schema in the form that checks records; raises ``UnusableSchemaError`` if it cannot check any.

    References without names are met by their ``$id``.
    """
    named_references = registered.named_references or [*enumerate(registered.references)]
    references = {str(name): text for name, text in named_references}
    if len(references) < len(named_references):
        raise UnusableSchemaError("two schemas that it refers to have the same name")
    for text in (registered.text, *references.values()):
        _parse(text)
    named_texts = ", ".join(f"{json.dumps(name)}: {text}" for name, text in references.items())
    schema = WriterSchema(f'{{"schema": {registered.text}, "references": {{{named_texts}}}}}', (), registered.kind)
    record_check(schema)
    return schema


def meaning(schema: WriterSchema) -> str:
    """A hash of a prepared schema, without its spacing and the order of its names."""
    content = json.loads(schema.text, parse_float=_as_written, parse_int=_as_written)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _as_written(number: str) -> str:
    return f"number {number}"


def record_check(schema: WriterSchema) -> RecordCheck:
    """Return the check of a prepared schema; raises ``UnusableSchemaError``."""
    parts = _parse(schema.text)
    _require_library()
    import jsonschema_rs  # noqa: PLC0415 - a worker needs it only for tables whose records are checked

    try:
        documents = Documents(parts["schema"], parts["references"])
        for content in documents.by_address.values():
            jsonschema_rs.meta.validate(content)
        registry = jsonschema_rs.Registry(documents.by_address.items(), retriever=documents.note_absent)
        place = registry.resolver(documents.base).lookup("")
        costs = Costs(SchemaPlace(place.contents, place.resolver, place.draft), documents)
        validator = jsonschema_rs.validator_for(
            documents.by_address[documents.base],
            validate_formats=False,
            registry=registry,
            mask="it",
            base_uri=documents.base,
            pattern_options=jsonschema_rs.RegexOptions(_PATTERN_BYTES, _CACHE_BYTES),
        )
    except UnusableSchemaError:
        raise
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        place_text = "/".join(map(str, getattr(error, "instance_path", ()))) or "its root"
        message = getattr(error, "message", str(error))
        raise UnusableSchemaError(
            f"it is not JSON Schema: {place_text[:_SHOWN]!a}: {ascii(message[:_SHOWN])[1:-1]}"
        ) from None
    return RecordCheck(validator, costs, documents.patterns, documents.step_count)


def _require_library() -> None:
    try:
        import jsonschema_rs  # noqa: F401, PLC0415
    except ImportError as error:
        raise RuntimeError(
            f"Records of a table with Json(checked=True) cannot be checked here: {error}. "
            "Install the package on the driver and on every worker: pip install jsonschema-rs"
        ) from error


def _parse(text: str) -> Any:
    """Parse a schema strictly, in a form that the library can read."""
    try:
        content = parse_json(text)
        _, has_unrepresentable = survey(content)
    except Rejection as rejection:
        raise UnusableSchemaError(f"it is not JSON: {rejection.detail}"[:200]) from None
    if has_unrepresentable:
        raise UnusableSchemaError("it has a number that cannot be represented")
    return readable(content)


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
