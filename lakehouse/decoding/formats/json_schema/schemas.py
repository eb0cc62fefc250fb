"""Prepare a registered JSON Schema for the check of records, and compare what schemas mean.

The prepared form is one JSON object with the texts of the schema and of those that it refers to, by name. Workers
compile it; only the driver compares a schema with the rules for schemas.
"""

# ruff: noqa: PLC0415 - jsonschema is slow to import, and a worker may not have it

import hashlib
import json
from typing import Any

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import RegisteredSchema, UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.json_schema.checks import Node
from lakehouse.decoding.formats.json_schema.compiler import compile_schema
from lakehouse.decoding.formats.json_schema.documents import Documents, draft_of
from lakehouse.decoding.json_parsing import parse_json


def prepare(registered: RegisteredSchema) -> WriterSchema:
    """Return a schema in the form that checks records; raises ``UnusableSchemaError`` if it cannot check any.

    References without names are met by their ``$id``.
    """
    named_references = registered.named_references or [*enumerate(registered.references)]
    references = {str(name): text for name, text in named_references}
    if len(references) < len(named_references):
        raise UnusableSchemaError("two schemas that it refers to have the same name")
    for text in (registered.text, *references.values()):
        _require_valid(text)
    named_texts = ", ".join(f"{json.dumps(name)}: {text}" for name, text in references.items())
    schema = WriterSchema(f'{{"schema": {registered.text}, "references": {{{named_texts}}}}}', (), registered.kind)
    compiled(schema)
    return schema


def compiled(schema: WriterSchema) -> Node:
    """Return the checks of a prepared schema; raises ``UnusableSchemaError``."""
    documents = _parse(schema.text)
    return compile_schema(Documents(documents["schema"], documents["references"]))


def meaning(schema: WriterSchema) -> str:
    """A hash of a prepared schema, without its spacing and the order of its names."""
    content = json.loads(schema.text, parse_float=_as_written, parse_int=_as_written)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _as_written(number: str) -> str:
    return f"number {number}"


def _parse(text: str) -> Any:
    try:
        return parse_json(text)
    except Rejection as rejection:
        raise UnusableSchemaError(f"it is not JSON: {rejection.detail}"[:200]) from None


def _require_valid(text: str) -> None:
    """Raise ``UnusableSchemaError`` if a text is not a schema by the rules of its draft."""
    import jsonschema
    from jsonschema.exceptions import SchemaError

    validators = {4: jsonschema.Draft4Validator, 6: jsonschema.Draft6Validator, 7: jsonschema.Draft7Validator}
    validators |= {2019: jsonschema.Draft201909Validator, 2020: jsonschema.Draft202012Validator}
    validator = validators[draft_of(_parse(text))]
    try:
        validator.check_schema(json.loads(text), format_checker=None)  # its patterns are not those of Python
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path)) or "its root"
        raise UnusableSchemaError(
            f"it is not JSON Schema: {ascii(place)[:100]}: {ascii(error.message)[:200]}"
        ) from None
    except (RecursionError, ValueError) as error:
        raise UnusableSchemaError(f"it is not JSON Schema: {type(error).__name__}") from None
