"""Rows of elements in every format and with every source of columns, alike on the fast and on the strict path."""

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from lakehouse import writer_schema
from lakehouse.declaration import (
    Avro,
    Column,
    Compressed,
    ConnectJson,
    Element,
    Json,
    ParentField,
    RecordHeader,
    RecordKey,
    SchemaIs,
    StreamTable,
)
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas
from lakehouse.decoding.formats.unpacking.compression import compress
from lakehouse.decoding.staged import EMPTY, FILTERED
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.native import uncertain_records

ID = Column("id", "INT", "Number of the order.", required=True, source=ParentField("id"))
SKU = Column("sku", "STRING", "Article.", required=True)
ORDER, OTHER_ORDER = b'{"id": 7, "items": [{"sku": "a"}, {"sku": "b"}]}', b'{"id": 8, "items": []}'
ITEM_TYPE = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}
ITEMS_TYPE = {"type": "array", "items": ITEM_TYPE}
FIELDS = [{"name": "id", "type": "int"}, {"name": "items", "type": ITEMS_TYPE}]
AVRO = writer_schema(json.dumps({"type": "record", "name": "shop.Order", "fields": FIELDS}))
REFUND = writer_schema(json.dumps({"type": "record", "name": "shop.Refund", "fields": FIELDS}))


def table_of(*columns: Column, **options: Any) -> StreamTable:
    return StreamTable("items", "orders", "Items.", columns or (ID, SKU), [], **{"rows_from": "items"} | options)


def rows_of(
    table: StreamTable,
    values: list[bytes | None],
    parts: dict[str, list[bytes | None]] | None = None,
    schemas: Schemas = NO_SCHEMAS,
    *,
    uncertain: int = 0,
) -> list[list[Any]]:
    """The values of each row of each record, or its reason, which both paths give."""
    arrays = {part: pa.array(contents, pa.binary()) for part, contents in (parts or {}).items()}
    records, rules = pa.array(values, pa.binary()), table.rules(schemas)
    assert len(uncertain_records(records, None, rules, arrays)) == uncertain
    decoded_rows = rows_twice(values, rules, parts or {})
    names = [field.name for field in table.fields]
    return [[row["_reason"] or tuple(row[name] for name in names) for row in rows] for rows in decoded_rows]


def test_all_rows_of_a_record_have_the_value_in_its_key() -> None:
    shop = Column("shop", "STRING", "Shop.", source=RecordKey("json", ("shop", "name")), required=True)
    keys: list[bytes | None] = [b'{"shop": {"name": "north"}}', b'{"shop": {}}', None, b"{"]
    rows = rows_of(table_of(shop, ID, SKU), [ORDER] * 4, {"key": keys}, uncertain=3)
    missing = ["missing_field"] * 2
    assert rows == [[("north", 7, "a"), ("north", 7, "b")], missing, missing, ["truncated"] * 2]
    (first, _) = table_of(shop, ID, SKU).decode_rows(ORDER, key=keys[0])
    assert first == {"shop": "north", "id": 7, "sku": "a"}


@pytest.mark.invariant("8.11")
@pytest.mark.parametrize("written", [None, "json"])
def test_a_long_value_in_a_key_counts_for_each_row(written: Any) -> None:
    table = table_of(Column("note", "STRING", "Note.", source=RecordKey("json", "note"), written=written), SKU)
    value = json.dumps({"items": [{"sku": "a"}] * 2_000}).encode()
    short_key, long_key = (json.dumps({"note": "x" * size}).encode() for size in (1_000, 100_000))
    (rows,) = rows_of(table, [value], {"key": [short_key]})
    assert len(rows) == 2_000
    assert rows_of(table, [value], {"key": [long_key]}, uncertain=1) == [["too_large"]]


def test_the_schema_of_a_record_decides_about_all_of_its_rows() -> None:
    table, schemas = table_of(format=Avro(), where=SchemaIs(["shop.Order"])), Schemas({7: AVRO, 8: REFUND}, {})
    order, refund, empty = Avro().writer(7, AVRO)(ORDER), Avro().writer(8, REFUND)(ORDER), Avro().writer(7, AVRO)
    rows = rows_of(table, [order, refund, empty(OTHER_ORDER), b"\0\0\0\0\x09"], schemas=schemas)
    assert rows == [[(7, "a"), (7, "b")], [FILTERED], [EMPTY], ["unknown_schema"]]


CONNECT_ITEM = {
    "type": "struct",
    "fields": [
        {"field": "sku", "type": "string"},
        {"field": "on", "type": "int32", "name": "org.apache.kafka.connect.data.Date"},
        {"field": "photo", "type": "bytes", "optional": True},
    ],
}
CONNECT_SCHEMA = {
    "type": "struct",
    "name": "shop.Order",
    "fields": [{"field": "id", "type": "int32"}, {"field": "items", "type": "array", "items": CONNECT_ITEM}],
}


def enveloped(payload: Any, **changes: Any) -> bytes:
    return json.dumps({"schema": CONNECT_SCHEMA | changes, "payload": payload}).encode()


@pytest.mark.parametrize("form", [ConnectJson(), Compressed(ConnectJson(), "gzip")], ids=repr)
def test_elements_in_a_payload_have_the_types_of_the_schema_in_the_record(form: Format) -> None:
    columns = ID, SKU, Column("on", "DATE", "Day."), Column("photo", "BINARY", "Bytes.")
    payload = {"id": 7, "items": [{"sku": "a", "on": 20454, "photo": "AQI="}, {"sku": "b", "on": None}, {"on": 1}]}
    values = [enveloped(payload), enveloped({"id": 8, "items": None}), enveloped([payload]), b'{"payload": 1}']
    values.append(enveloped(payload, name="shop.Refund"))
    values = [compress(value, form.codec) for value in values] if isinstance(form, Compressed) else values
    table = table_of(*columns, format=form, where=SchemaIs(["shop.Order"]))
    assert rows_of(table, [*values]) == [
        [(7, "a", date(2026, 1, 1), b"\1\2"), (7, "b", None, None), "missing_field"],
        [EMPTY],
        ["not_an_object"],
        ["invalid_envelope"],
        [FILTERED],
    ]


def test_bytes_in_elements_are_read_in_their_form() -> None:
    columns = [
        Column("photo", "BINARY", "Bytes.", written="base64"),
        Column("hash", "BINARY", "Bytes.", source=ParentField("hash"), written="hex"),
        Column("raw", "BINARY", "Bytes.", source=RecordHeader("raw")),
    ]
    value = b'{"hash": "00ff", "items": [{"photo": "AQI="}, {"photo": null}, {"photo": "?"}]}'
    good = b'{"hash": "00FF", "items": [{"photo": "AQ=="}]}'
    rows = rows_of(table_of(*columns), [value, good], {"header raw": [b"\xff", None]}, uncertain=1)
    assert rows == [
        [(b"\1\2", b"\0\xff", b"\xff"), (None, b"\0\xff", b"\xff"), "wrong_type"],
        [(b"\1", b"\0\xff", None)],
    ]
    whole = table_of(Column("part", "BINARY", "Bytes.", source=Element(), written="base64url"), rows_from=())
    assert rows_of(whole, [b'["-_-_", null]']) == [[(b"\xfb\xff\xbf",), (None,)]]


def test_bytes_in_elements_of_avro_are_read_as_they_are() -> None:
    parts = {"type": "array", "items": "bytes"}
    schema = writer_schema(
        json.dumps({"type": "record", "name": "R", "fields": [{"name": "parts", "type": parts}]}), kind="AVRO"
    )
    table = table_of(Column("part", "BINARY", "Bytes.", source=Element()), rows_from="parts", format=Avro())
    value = Avro().writer(7, schema)(b'{"parts": ["\\u0001\\u00ff", ""]}')
    assert rows_of(table, [value], schemas=Schemas({7: schema}, {})) == [[(b"\1\xff",), (b"",)]]


def test_elements_of_avro_without_a_registry_are_rows() -> None:
    form = Avro(schema=AVRO.text)
    values = [form.writer()(ORDER), form.writer()(OTHER_ORDER)]
    assert rows_of(table_of(format=form), [*values]) == [[(7, "a"), (7, "b")], [EMPTY]]


def test_elements_of_json_in_a_text_are_rows() -> None:
    form = Json(in_text=True)
    values = [json.dumps(text).encode() for text in (ORDER.decode(), OTHER_ORDER.decode(), "[1]")]
    assert rows_of(table_of(format=form), [*values]) == [[(7, "a"), (7, "b")], [EMPTY], ["not_an_object"]]
    arrays = table_of(SKU, format=form, rows_from=())
    values = [json.dumps(text).encode() for text in ('[{"sku": "a"}, {"sku": "b"}]', "{}")] + [b"[1]"]
    assert rows_of(arrays, [*values]) == [[("a",), ("b",)], ["wrong_type"], ["wrong_type"]]


def test_elements_in_the_data_of_an_event_are_rows() -> None:
    event = {"specversion": "1.0", "id": "e1", "data": {"items": [{"sku": "a"}]}}
    event_id = replace(ID, type="STRING")
    assert rows_of(table_of(event_id, SKU, rows_from=("data", "items")), [json.dumps(event).encode()]) == [
        [("e1", "a")]
    ]
