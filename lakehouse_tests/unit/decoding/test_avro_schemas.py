"""Schemas of Avro: which are usable, how they are read with those that they refer to, and which mean the same."""

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from lakehouse.declaration import Avro
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.avro.reader import reader_of
from lakehouse.decoding.formats.avro.schemas import fingerprint, writer_schema
from lakehouse.decoding.formats.format import Schemas, WriterSchema
from lakehouse.decoding.formats.framing import add_frame
from lakehouse_tests.helpers.brokers.registries import RECORD
from lakehouse_tests.helpers.decoding.avro_bodies import record_of, schema_of
from lakehouse_tests.helpers.decoding.avro_sales import PLACE

NOTHING = {"type": "record", "name": "Nothing", "fields": [{"name": "none", "type": "null"}]}


@pytest.mark.parametrize("item_type", ["null", NOTHING, {"type": "fixed", "name": "Zero", "size": 0}])
def test_a_schema_with_items_of_no_bytes_is_unusable(item_type: Any) -> None:
    with pytest.raises(Rejection, match="an array whose items have no bytes"):
        reader_of(schema_of(record_of({"type": "array", "items": item_type})))


@pytest.mark.parametrize("schema", ["string", ["null", "string"], {"type": "map", "values": "long"}])
def test_a_schema_that_is_not_a_record_is_unusable(schema: Any) -> None:
    parse = Avro().parser(Schemas({1: WriterSchema(json.dumps(schema))}, {2: "no Avro"}))
    for schema_id, detail in ((1, "schema 1: its type is not a record"), (2, "schema 2: no Avro")):
        with pytest.raises(Rejection) as rejected:
            parse(add_frame(schema_id, b"\x00"))
        assert rejected.value.args == ("unusable_schema", detail)


def test_referenced_schemas_are_used() -> None:
    named_schemas: dict[str, Any] = {}
    place = fastavro.parse_schema({**PLACE, "namespace": "geo"}, named_schemas, _write_hint=False)
    sale = fastavro.parse_schema(record_of("geo.Place", ["null", "geo.Place"]), named_schemas, _write_hint=False)
    buffer = io.BytesIO()
    value = {"f0": {"city": "Oslo"}, "f1": {"city": "Rome"}}
    schema_with_names = fastavro.parse_schema(record_of("geo.Place", ["null", "geo.Place"]), named_schemas)
    fastavro.schemaless_writer(buffer, schema_with_names, value)
    schema = WriterSchema(json.dumps(sale), (json.dumps(place),))
    assert reader_of(schema)(buffer.getvalue(), 0) == value


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ({"type": "fixed", "name": "F", "size": -1}, "size -1"),
        ({"type": "fixed", "name": "F", "size": "3"}, "size 3"),
        ({"type": "fixed", "name": "F", "size": 1.5}, "size 1.5"),
        ({"type": "enum", "name": "E", "symbols": [1]}, "a name in it is not a string: 1"),
        ({"type": "record", "name": "T", "fields": [{"name": 3, "type": "int"}]}, "a name in it is not a string: 3"),
        ({"type": "record", "name": "T", "fields": [{"name": "a", "type": "int"}] * 2}, "two fields of the same name"),
        (
            {"type": "record", "name": "T", "fields": [{"name": f"n{n}", "type": "null"} for n in range(17)]},
            "without a byte",
        ),
    ],
)
def test_an_invalid_schema_is_unusable(type_: Any, message: str) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": type_}]})
    with pytest.raises(Rejection, match=message) as rejected:
        reader_of(WriterSchema(text))
    assert rejected.value.reason == "unusable_schema"


def test_a_schema_that_doubles_empty_values_at_each_level_is_unusable() -> None:
    fields = [{"name": "a", "type": {"type": "record", "name": "R0", "fields": [{"name": "n", "type": "null"}]}}]
    for depth in range(1, 60):
        inner = {"type": "record", "name": f"R{depth}", "fields": [*fields, {"name": "b", "type": f"R{depth - 1}"}]}
        fields = [{"name": "a", "type": inner}]
    with pytest.raises(Rejection, match="values without a byte"):
        reader_of(WriterSchema(json.dumps({"type": "record", "name": "R", "fields": fields})))


@pytest.mark.parametrize(
    "properties",
    [
        {"precision": 5, "scale": None},
        {"precision": 5, "scale": []},
        {"precision": 5, "scale": 10**19},
        {"precision": 5, "scale": -1},
        {"precision": 10**19, "scale": 2},
        {"scale": 2},
        {"precision": True, "scale": 1},
    ],
)
def test_an_invalid_decimal_is_read_as_bytes(properties: dict[str, Any]) -> None:
    text = json.dumps(record_of({"type": "bytes", "logicalType": "decimal", **properties}))
    assert reader_of(WriterSchema(text))(b"\x02\x05", 0) == {"f0": b"\x05"}


def wrap(times: int, inner: Any, name: str = "R") -> Any:
    """A schema inside of nested records, each of which contains only the next one."""
    for number in range(times):
        inner = {"type": "record", "name": f"{name}{number}", "fields": [{"name": "in", "type": inner}]}
    return inner


def test_a_schema_with_too_many_wrapper_records_is_unusable() -> None:
    with pytest.raises(Rejection, match="more than 16 nested records in it contain only one value"):
        reader_of(schema_of(record_of({"type": "array", "items": wrap(17, "boolean")})))
    wrapped_union = wrap(12, ["null", wrap(15, "boolean", "I")])
    reader_of(schema_of(record_of({"type": "array", "items": wrapped_union})))


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
