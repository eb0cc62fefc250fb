"""Prepare registered Avro schemas for decoding, and compare what they mean."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from fastavro import parse_schema
from fastavro.schema import SchemaParseException, UnknownType, to_parsing_canonical_form
from fastavro.schema import fingerprint as fastavro_fingerprint
from fastavro.types import Schema

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.avro.logical import is_decimal
from lakehouse.decoding.formats.avro.nodes import KIND
from lakehouse.decoding.formats.avro.reader import reader_of
from lakehouse.decoding.formats.format import UnusableSchemaError, WriterSchema

_DECODING_KEYS = {
    *("type", "name", "fields", "symbols", "items", "values", "size"),
    *("logicalType", "precision", "scale"),
}
"""The keys that determine how a record is decoded; documentation and defaults do not."""

_PARSER_ERRORS = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What a parser raises if a schema does not have the expected content."""

_MAX_LEVELS = 150  # of the schema's JSON; a nested record takes three


def writer_schema(text: str, references: Sequence[str] = (), *, any_type: bool = False) -> WriterSchema:
    """Return a schema with all names in full; ``references`` are the schemas that it refers to.

    Each reference follows those that it refers to itself. ``any_type`` is that of ``reader_of``. Raises
    ``UnusableSchemaError``.
    """
    named_schemas: dict[str, Any] = {}
    try:
        *reference_texts, own_text = [_with_full_names(schema, named_schemas) for schema in (*references, text)]
        schema = WriterSchema(own_text, tuple(reference_texts), KIND)
        reader_of(schema, any_type=any_type)
    except UnusableSchemaError:
        raise
    except Rejection as rejection:
        raise UnusableSchemaError(rejection.detail) from None
    except (SchemaParseException, UnknownType, *_PARSER_ERRORS) as error:
        raise UnusableSchemaError(f"it is not an Avro schema: {type(error).__name__}: {error}") from None
    return schema


def parsing_fingerprint(text: str) -> int:
    """The CRC-64-AVRO of a schema's Parsing Canonical Form, which single objects have in front.

    Raises ``UnusableSchemaError``.
    """
    try:
        canonical_form = to_parsing_canonical_form(json.loads(text))
        digits = fastavro_fingerprint(canonical_form, "CRC-64-AVRO")
    except (SchemaParseException, UnknownType, *_PARSER_ERRORS) as error:
        raise UnusableSchemaError(f"it has no fingerprint: {type(error).__name__}: {error}") from None
    return int.from_bytes(bytes.fromhex(digits), "little")


def _with_full_names(text: str, named_schemas: dict[str, Any]) -> str:
    content = json.loads(text)
    if _count_levels(content) > _MAX_LEVELS:
        raise UnusableSchemaError(f"its JSON has more than {_MAX_LEVELS} levels")
    # decoding needs no defaults, and many schemas have one that does not fit its field
    schema: Schema = parse_schema(
        _drop_invalid_decimals(content), named_schemas, _write_hint=False, _ignore_default_error=True
    )
    return json.dumps(schema)


def _drop_invalid_decimals(part: Any) -> Any:
    """A schema in which an invalid decimal is plain bytes, as Avro specifies, and not an error."""
    if isinstance(part, list):
        return [_drop_invalid_decimals(item) for item in part]
    if not isinstance(part, dict):
        return part
    is_invalid = part.get("logicalType") == "decimal" and not is_decimal(part)
    dropped_keys = ("logicalType", "precision", "scale") if is_invalid else ()
    return {name: _drop_invalid_decimals(value) for name, value in part.items() if name not in dropped_keys}


def _count_levels(part: Any) -> int:
    """The number of nested levels of JSON, up to the limit; without recursion, since the call stack may be deep."""
    levels, values = 0, [part]
    while values and levels <= _MAX_LEVELS:
        levels += 1
        containers = [
            value.values() if isinstance(value, dict) else value for value in values if isinstance(value, dict | list)
        ]
        values = [value for container in containers for value in container]
    return levels


def fingerprint(schema: WriterSchema) -> str:
    """A hash of what a schema means; spacing, documentation and defaults do not change it."""
    parts = [_decoding_parts(_drop_invalid_decimals(json.loads(text))) for text in (*schema.references, schema.text)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _decoding_parts(part: Any) -> Any:
    if isinstance(part, list):
        return [_decoding_parts(item) for item in part]
    if isinstance(part, dict):
        return {name: _decoding_parts(value) for name, value in part.items() if name in _DECODING_KEYS}
    return part
