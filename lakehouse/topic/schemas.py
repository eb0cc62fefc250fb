"""Writers' schemas as a registry tells them → as records are read by them, and what tells one from another."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from fastavro import parse_schema
from fastavro.types import Schema

from lakehouse.declaration.avro import WriterSchema, reader_of
from lakehouse.declaration.fields import Rejection

_DECIDE = {
    *("type", "name", "fields", "symbols", "items", "values", "size"),
    *("logicalType", "precision", "scale"),
}
"""What decides how a record is read, and with which values; not what a schema says to people, nor its defaults."""


class UnusableSchemaError(ValueError):
    """Nothing can be read by a schema; the text says why."""


def writer_schema(text: str, references: Sequence[str] = ()) -> WriterSchema:
    """Return a schema with every name in full; ``references`` are those it refers to, each after what it refers to.

    Raises ``UnusableSchemaError``.
    """
    named: dict[str, Any] = {}
    try:
        *before, own = [_named_in_full(each, named) for each in (*references, text)]
        schema = WriterSchema(own, tuple(before))
        reader_of(schema)
    except Rejection as rejection:
        raise UnusableSchemaError(rejection.detail) from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise UnusableSchemaError(f"it is no schema of Avro: {type(error).__name__}: {error}") from None
    return schema


def _named_in_full(text: str, named: dict[str, Any]) -> str:
    schema: Schema = parse_schema(json.loads(text), named, _write_hint=False)
    return json.dumps(schema)


def fingerprint(schema: WriterSchema) -> str:
    """A hash of what a schema means: the same for texts that differ in spacing, or in what they say to people."""
    parts = [_meaning(json.loads(each)) for each in (*schema.references, schema.text)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _meaning(part: Any) -> Any:
    if isinstance(part, list):
        return [_meaning(each) for each in part]
    if isinstance(part, dict):
        return {name: _meaning(value) for name, value in part.items() if name in _DECIDE}
    return part
