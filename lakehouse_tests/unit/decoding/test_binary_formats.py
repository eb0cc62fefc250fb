"""Columns of bytes in formats with types, and in changes of a database: read, written, and derived schemas."""

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse import writer_schema
from lakehouse.declaration import Avro, Column, Compressed, Debezium, Protobuf, StreamTable
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import RegisteredSchema, Schemas, WriterSchema
from lakehouse.decoding.formats.framing import add_frame
from lakehouse_tests.helpers.brokers.registries import body as encode
from lakehouse_tests.helpers.change_records import UNAVAILABLE, avro_change, change, with_schema
from lakehouse_tests.helpers.decoding.avro_bodies import record_of
from lakehouse_tests.helpers.decoding.both_paths import rows_twice

ID = Column("id", "BIGINT", "Number.", required=True)
RAW, HEX = Column("raw", "BINARY", "Bytes."), Column("hex", "BINARY", "Bytes.", written="hex")
DATA = b"\x00\xff'\"\\"
BYTES_TYPES: list[Any] = ["bytes", ["null", "bytes"], {"type": "fixed", "name": "F", "size": len(DATA)}]


def table_of(form: Format, *columns: Column) -> StreamTable:
    return StreamTable("items", "items", "Items.", [ID, *columns], ["id"], format=form)


def avro_table(type_: Any, column: Column) -> tuple[StreamTable, dict[int, WriterSchema], dict[str, Any]]:
    """A table that reads a field f0 of this type, its schemas by id, and the schema of its records."""
    schema = record_of(type_)
    schema["fields"].insert(0, {"name": "id", "type": "long"})
    return table_of(Avro(), column), {1: writer_schema(json.dumps(schema))}, schema


@pytest.mark.parametrize("type_", BYTES_TYPES, ids=repr)
def test_bytes_of_avro_are_read_as_they_are(type_: Any) -> None:
    table, schemas, schema = avro_table(type_, Column("raw", "BINARY", "Bytes.", source="f0"))
    value = add_frame(1, encode(schema, {"id": 1, "f0": DATA}))
    assert table.decode(value, schemas=schemas) == {"id": 1, "raw": DATA}


@pytest.mark.parametrize(
    ("type_", "value", "form", "detail"),
    [
        ("string", "x", None, "'f0' is text 'x', expected BINARY"),
        ("long", 5, None, "'f0' is a number '5', expected BINARY"),
        ("bytes", b"x", "base64", "'f0' is bytes \"b'x'\", expected BINARY with written='base64'"),
    ],
)
def test_another_value_of_avro_is_no_bytes(type_: Any, value: Any, form: Any, detail: str) -> None:
    table, schemas, schema = avro_table(type_, Column("raw", "BINARY", "Bytes.", source="f0", written=form))
    with pytest.raises(Rejection) as caught:
        table.decode(add_frame(1, encode(schema, {"id": 1, "f0": value})), schemas=schemas)
    assert (caught.value.reason, caught.value.detail) == ("wrong_type", detail)


@pytest.mark.invariant("8.10")
@settings(deadline=None, database=None, max_examples=50)
@given(st.lists(st.none() | st.binary(max_size=20), min_size=1, max_size=5), st.data())
def test_many_records_of_avro_are_decoded_like_single_records(values: list[bytes | None], data: st.DataObject) -> None:
    required = data.draw(st.booleans())
    column = Column("raw", "BINARY", "Bytes.", source="f0", required=required)
    table, schemas, schema = avro_table(["null", "bytes"], column)
    records = [add_frame(1, encode(schema, {"id": 1, "f0": value})) for value in values]
    records += [records[0][: data.draw(st.integers(0, len(records[0])))], records[0] + b"\x00"]
    rows = rows_twice(records, table.rules(Schemas(schemas, {})))
    expected = [None if required and value is None else value for value in values]
    assert [row["raw"] for row in rows[: len(values)]] == expected


@pytest.mark.parametrize("form", [Avro(), Protobuf(), Compressed(Avro(), "gzip")], ids=repr)
def test_lines_are_written_by_the_schema_of_the_declaration_and_read_again(form: Format) -> None:
    table = table_of(form, RAW, HEX)
    kind = form.schema_kind or ""
    schema = form.writer_schema(RegisteredSchema(form.declared_schema(table.name, table.fields), (), kind))
    text = b64encode(DATA).decode() if kind == "PROTOBUF" else DATA.decode("latin-1")
    line = json.dumps({"id": 1, "raw": text, "hex": "00FF"}).encode()
    row = table.decode(form.writer(3, schema)(line), schemas={3: schema})
    assert row == {"id": 1, "raw": DATA, "hex": b"\x00\xff"}
    sparse_row = table.decode(form.writer(3, schema)(b'{"id": 1}'), schemas={3: schema})
    assert sparse_row == {"id": 1, "raw": None, "hex": None}


def test_a_derived_schema_has_bytes_and_texts() -> None:
    fields = json.loads(Avro().declared_schema("items", table_of(Avro(), RAW, HEX).fields))["fields"]
    assert [field["type"] for field in fields[1:]] == [["null", "bytes"], ["null", "string"]]
    text = Protobuf().declared_schema("items", table_of(Protobuf(), RAW, HEX).fields)
    assert "optional bytes raw = 2;" in text
    assert "optional string hex = 3;" in text


@pytest.mark.parametrize(
    ("form", "text"),
    [("base64", b64encode(DATA).decode()), ("base64url", urlsafe_b64encode(DATA).decode()), ("hex", DATA.hex())],
)
def test_a_change_in_json_has_bytes_as_the_connector_writes_them(form: Any, text: str) -> None:
    column = Column("raw", "BINARY", "Bytes.", written=form, keep=True, null_erases=True)
    table = table_of(Debezium(), column)
    assert table.decode(change("c", 7, {"id": 1, "raw": text}))["raw"] == DATA
    in_schema = with_schema(change("c", 7, {"id": 1, "raw": text}), {"type": "bytes", "field": "raw"})
    assert table.decode(in_schema)["raw"] == DATA
    placeholder = {"base64": b64encode, "base64url": urlsafe_b64encode, "hex": lambda data: data.hex().encode()}[form]
    unchanged = table.decode(change("u", 7, {"id": 1, "raw": placeholder(UNAVAILABLE.encode()).decode()}))
    assert unchanged["raw"] is None, "the value was not sent"
    with pytest.raises(Rejection, match="wrong_type"):
        table.decode(change("c", 7, {"id": 1, "raw": "ä"}))


def test_a_change_in_avro_has_bytes() -> None:
    schema, value = avro_change({"id": "long", "raw": "bytes"}, {"id": 1, "raw": DATA})
    table = table_of(Debezium(Avro()), RAW)
    assert table.decode(value, schemas={3: writer_schema(schema)})["raw"] == DATA
