"""Schemas that mean the same have one fingerprint; attributes without an effect are ignored."""

import json
from decimal import Decimal
from typing import Any

import pytest

from lakehouse.decoding.formats.avro.reader import reader_of
from lakehouse.decoding.formats.avro.schemas import fingerprint, writer_schema
from lakehouse.decoding.formats.format import WriterSchema
from lakehouse_tests.helpers.brokers.registries import RECORD


def test_a_fingerprint_depends_only_on_the_meaning_of_a_schema() -> None:
    formatted_text = json.dumps({**json.loads(RECORD), "doc": "Words."}, indent=4)
    assert fingerprint(writer_schema(formatted_text)) == fingerprint(writer_schema(RECORD))
    for text, other_text in (("long", "int"), ('"a"', '"b"')):
        assert fingerprint(writer_schema(RECORD.replace(text, other_text))) != fingerprint(writer_schema(RECORD))
    money = '{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": %d}'
    scales = {fingerprint(writer_schema(RECORD.replace('"long"', money % scale))) for scale in (1, 2)}
    assert len(scales) == 2


def test_an_invalid_decimal_does_not_change_a_fingerprint() -> None:
    """An earlier schema may have been kept unchanged."""
    for invalid_type in ('{"type": "bytes", "logicalType": "decimal"}', '{"type": "string", "logicalType": "decimal"}'):
        kept_schema = WriterSchema(RECORD.replace('"long"', invalid_type))
        assert fingerprint(writer_schema(kept_schema.text)) == fingerprint(kept_schema)


@pytest.mark.parametrize(
    ("type_", "attributes", "data", "value"),
    [
        ("string", {"default": None}, b"\x02x", "x"),
        ({"type": "double"}, {"default": 0}, b"\x00" * 8, 0.0),
        ({"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 9}, {}, b"\x05", b"\x05"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, {}, b"\x02\x05", b"\x05"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 2}, {}, b"\x02\x05", Decimal("0.05")),
    ],
)
def test_an_attribute_without_effect_is_ignored(type_: Any, attributes: Any, data: bytes, value: Any) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": type_, **attributes}]})
    assert reader_of(writer_schema(text))(data, 0) == {"a": value}
