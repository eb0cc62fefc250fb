"""Schemas of Avro: as they are registered → as records are read by them; what tells one from another."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from fastavro import parse_schema
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.types import Schema

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.avro_logical import is_decimal
from lakehouse.decoding.formats.avro_nodes import KIND
from lakehouse.decoding.formats.avro_reader import reader_of
from lakehouse.decoding.formats.format import UnusableSchemaError, WriterSchema

_DECIDE = {
    *("type", "name", "fields", "symbols", "items", "values", "size"),
    *("logicalType", "precision", "scale"),
}
"""What decides how a record is read, and with which values; not what a schema says to people, nor its defaults."""

_WRONG = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What a parser raises that relies on what a schema is to hold."""

_MOST_LEVELS = 150  # of its JSON, of which a record in another takes three


def writer_schema(text: str, references: Sequence[str] = ()) -> WriterSchema:
    """Return a schema with every name in full; ``references`` are those it refers to, each after what it refers to.

    Raises ``UnusableSchemaError``.
    """
    named: dict[str, Any] = {}
    try:
        *before, own = [_named_in_full(each, named) for each in (*references, text)]
        schema = WriterSchema(own, tuple(before), KIND)
        reader_of(schema)
    except UnusableSchemaError:
        raise
    except Rejection as rejection:
        raise UnusableSchemaError(rejection.detail) from None
    except (SchemaParseException, UnknownType, *_WRONG) as error:
        raise UnusableSchemaError(f"it is no schema of Avro: {type(error).__name__}: {error}") from None
    return schema


def _named_in_full(text: str, named: dict[str, Any]) -> str:
    given = json.loads(text)
    if _levels(given) > _MOST_LEVELS:
        raise UnusableSchemaError(f"it is nested in more than {_MOST_LEVELS} levels of JSON")
    # no reader needs a default, and many a schema has one that does not fit its field
    schema: Schema = parse_schema(_with_decimals(given), named, _write_hint=False, _ignore_default_error=True)
    return json.dumps(schema)


def _with_decimals(part: Any) -> Any:
    """A schema whose decimals are some: what only says so is bytes, as the format has it, and no error."""
    if isinstance(part, list):
        return [_with_decimals(each) for each in part]
    if not isinstance(part, dict):
        return part
    none = part.get("logicalType") == "decimal" and not is_decimal(part)
    left_out = ("logicalType", "precision", "scale") if none else ()
    return {name: _with_decimals(value) for name, value in part.items() if name not in left_out}


def _levels(part: Any) -> int:
    """How deep JSON is nested, as far as it matters; whoever asks may stand deep in other calls already."""
    levels, inner = 0, [part]
    while inner and levels <= _MOST_LEVELS:
        levels += 1
        held = [each.values() if isinstance(each, dict) else each for each in inner if isinstance(each, dict | list)]
        inner = [each for values in held for each in values]
    return levels


def fingerprint(schema: WriterSchema) -> str:
    """A hash of what a schema means: the same for texts that differ in spacing, or in what they say to people."""
    parts = [_meaning(_with_decimals(json.loads(each))) for each in (*schema.references, schema.text)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _meaning(part: Any) -> Any:
    if isinstance(part, list):
        return [_meaning(each) for each in part]
    if isinstance(part, dict):
        return {name: _meaning(value) for name, value in part.items() if name in _DECIDE}
    return part
