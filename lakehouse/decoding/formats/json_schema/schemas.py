"""Prepare a registered JSON Schema for the check of records, make its check, and compare what schemas mean.

The prepared form is one JSON object with the texts of the schema and of those that it refers to, by name. The driver
and each process of a worker make the check of it, since a validator of the library cannot be sent.
"""

import hashlib
import json
from typing import Any

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import RegisteredSchema, UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.json_schema.checks import RecordCheck, readable, survey
from lakehouse.decoding.formats.json_schema.costs import Costs, SchemaPlace
from lakehouse.decoding.formats.json_schema.documents import Documents
from lakehouse.decoding.json_parsing import parse_json

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
