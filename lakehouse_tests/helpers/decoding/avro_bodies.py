"""Schemas of Avro from a few types, and bodies of records to decode with them."""

import json
from typing import Any

import fastavro
import pytest

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.avro.reader import reader_of
from lakehouse.decoding.formats.format import WriterSchema
from lakehouse_tests.helpers.brokers.registries import body as encode


def schema_of(schema: Any) -> WriterSchema:
    return WriterSchema(json.dumps(fastavro.parse_schema(schema, _write_hint=False)))


def record_of(*types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": type_} for number, type_ in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


def decode(schema: Any, body: bytes) -> Any:
    return reader_of(schema_of(schema))(body, 0)


def rejection_reason(schema: Any, body: bytes) -> str:
    with pytest.raises(Rejection) as rejected:
        decode(schema, body)
    return rejected.value.reason


def block(*items: bytes) -> bytes:
    """The bytes of an array or a map with these items."""
    return (encode(record_of("long"), {"f0": len(items)}) if items else b"") + b"".join(items) + b"\x00"
