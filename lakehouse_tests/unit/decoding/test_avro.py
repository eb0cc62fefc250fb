"""Avro is read as its own library writes it: every type, many records at once, and records of several schemas."""

import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Avro, Column, StreamTable
from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.staged import EXPLICIT_NULL
from lakehouse_tests.helpers.brokers.registries import body as encode
from lakehouse_tests.helpers.decoding.avro_bodies import decode, record_of, schema_of
from lakehouse_tests.helpers.decoding.avro_sales import A_SALE, ALL_TYPES, RULES, SALES, SCHEMAS, TABLE
from lakehouse_tests.helpers.decoding.both_paths import decode_twice, rows_twice


@pytest.mark.invariant("5.2")
def test_a_null_branch_is_null_and_a_field_not_in_the_schema_is_missing() -> None:
    columns = [
        Column(name, "STRING", "A.", source=path, keep=True, null_erases=True, null_values=("n/a",))
        for name, path in {"present": ("text",), "nested": ("place", "city"), "missing": ("absent",)}.items()
    ]
    place = {"type": "record", "name": "P", "fields": [{"name": "city", "type": "string"}]}
    fields = [{"name": "text", "type": ["null", "string"]}, {"name": "place", "type": ["null", place]}]
    schema = {"type": "record", "name": "S", "fields": fields}
    rules = Rules(tuple(column.field for column in columns), None, Avro().parser(Schemas({1: schema_of(schema)}, {})))
    objects: list[dict[str, Any]] = [
        {"text": None, "place": None},
        {"text": "n/a", "place": {"city": "n/a"}},
        {"text": "a", "place": None},
    ]
    rows = rows_twice([add_frame(1, encode(schema, obj)) for obj in objects], rules)
    nulls = [[row[f"{EXPLICIT_NULL}{column.name}"] for column in columns] for row in rows]
    assert nulls == [[True, True, False], [False, False, False], [False, True, False]]


@pytest.mark.invariant("8.13")
@given(SALES)
def test_every_type_is_read_as_it_was_written(sale: dict[str, Any]) -> None:
    decoded_value = decode(ALL_TYPES, encode(ALL_TYPES, sale))
    assert decoded_value.pop("half") == pytest.approx(sale["half"], rel=1e-7, abs=1e-45)
    expected = {**sale, "id": str(sale["id"])}
    del expected["half"]
    assert decoded_value == expected


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_number_of_32_bits_is_the_shortest_that_rounds_to_it(number: float) -> None:
    decoded_value = decode(record_of("float"), struct.pack("<f", number))["f0"]
    assert struct.pack("<f", decoded_value) == struct.pack("<f", number)
    assert len(repr(decoded_value)) <= len(repr(number))


def test_a_number_of_32_bits_is_what_its_writer_wrote() -> None:
    assert decode(record_of("float"), struct.pack("<f", 7.1)) == {"f0": 7.1}


@pytest.mark.invariant("8.10")
@given(st.lists(SALES, min_size=1, max_size=5))
def test_many_records_are_decoded_like_single_records(sales: list[dict[str, Any]]) -> None:
    values: list[bytes | None] = [add_frame(7, encode(ALL_TYPES, sale)) for sale in sales]
    encoded_sale = encode(ALL_TYPES, sales[0])
    values += [
        None,
        b"",
        b"\x01abcd",
        b"\x00\x00",
        add_frame(8, b""),
        add_frame(7, encoded_sale[:-1]),
        add_frame(7, encoded_sale + b"\x00"),
    ]
    verdicts = decode_twice(values, RULES).verdicts
    reasons = [row["_reason"] for row in verdicts.to_pylist()]
    expected = ["tombstone", "empty_value", "wrong_magic", "truncated", "unknown_schema", "truncated", "trailing_bytes"]
    assert reasons[-7:] == expected
    assert verdicts.field("at").type == arrow_type("TIMESTAMP")


def test_values_are_those_of_their_logical_types() -> None:
    row = TABLE.decode(add_frame(7, encode(ALL_TYPES, A_SALE)), schemas=SCHEMAS.by_id)
    assert row["id"] == "00000000-0000-0000-0000-000000000005"
    assert row["amount"] == Decimal("12.30")
    assert (row["day"], row["at"], row["seen"]) == (A_SALE["day"], A_SALE["at"], None)
    assert (row["kind"], row["city"], row["n"]) == ("OLD", "Oslo", 1)


def test_a_uuid_of_sixteen_bytes_is_read_as_text() -> None:
    schema = record_of({"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"})
    assert decode(schema, UUID(int=5).bytes) == {"f0": "00000000-0000-0000-0000-000000000005"}


def test_blocks_with_a_written_size_are_read() -> None:
    schema = record_of({"type": "array", "items": "long"})
    assert decode(schema, b"\x03\x04\x02\x04\x02\x06\x00") == {"f0": [1, 2, 3]}


def test_a_decimal_without_bytes_is_not_zero() -> None:
    schema = record_of({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1})
    assert str(decode(schema, b"\x00")["f0"]) == "a decimal of 0 bytes"
    column = Column("v", "DECIMAL(4,1)", "A value.", source="f0")
    rules = Rules((column.field,), None, Avro().parser(Schemas({1: schema_of(schema)}, {})))
    assert rows_twice([add_frame(1, b"\x00")], rules)[0]["_reason"] == "out_of_range"


@pytest.mark.invariant("8.13")
def test_records_of_several_schemas_decode_by_the_names_of_their_fields() -> None:
    first = {"type": "record", "name": "M", "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}]}
    second = {
        "type": "record",
        "name": "M",
        "fields": [
            {"name": "n", "type": "double"},
            {"name": "more", "type": "string"},
            {"name": "id", "type": "string"},
        ],
    }
    columns = [Column("id", "STRING", "Which.", required=True), Column("n", "DOUBLE", "How much.")]
    table = StreamTable("m", "m", "M.", columns, key=["id"], format=Avro())
    schemas = {1: schema_of(first), 2: schema_of(second)}
    values = [
        add_frame(1, encode(first, {"id": "a", "n": 3})),
        add_frame(2, encode(second, {"id": "b", "n": 2.5, "more": "x"})),
    ]
    rules = Rules(table.fields, None, table.format.parser(Schemas(schemas, {})))
    decoded = decode_twice(values, rules)
    assert [(row["id"], row["n"]) for row in decoded.verdicts.to_pylist()] == [("a", 3.0), ("b", 2.5)]
    assert decoded.unmapped_counts == {"more": 1}


@pytest.mark.invariant("13.3")
@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ({"type": "int", "logicalType": "date"}, 2**31 - 1, "out_of_range"),
        ({"type": "long", "logicalType": "timestamp-millis"}, 2**62, "out_of_range"),
        ({"type": "long", "logicalType": "timestamp-micros"}, -(2**63), "out_of_range"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 1_500, None),
        ("double", float("nan"), "not_finite"),
        ("float", float("inf"), "not_finite"),
        ("bytes", b"x", "wrong_type"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, b"\x7f" * 100_000, "out_of_range"),
    ],
)
def test_a_value_that_its_column_cannot_represent_is_rejected(type_: Any, value: Any, expected: str | None) -> None:
    raw = {"type": type_["type"]} if isinstance(type_, dict) else type_
    body = encode(record_of(raw), {"f0": value})
    kinds = {"date": "DATE", "decimal": "DECIMAL(4,1)"}
    logical = type_.get("logicalType", "") if isinstance(type_, dict) else ""
    kind = kinds.get(logical, "TIMESTAMP" if logical else "DOUBLE")
    column = Column("v", kind, "A value.", source="f0")
    rules = Rules((column.field,), None, Avro().parser(Schemas({1: schema_of(record_of(type_))}, {})))
    (row,) = rows_twice([add_frame(1, body)], rules)
    assert row["_reason"] == expected
    assert expected or row["v"] == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=2)


def test_a_timestamp_out_of_range_does_no_harm_if_no_column_reads_it() -> None:
    schema = record_of("string", {"type": "long", "logicalType": "timestamp-millis"})
    body = encode(record_of("string", "long"), {"f0": "a", "f1": 2**62})
    table = StreamTable("t", "t", "T.", [Column("f0", "STRING", "A.", required=True)], key=["f0"], format=Avro())
    assert table.decode(add_frame(1, body), schemas={1: schema_of(schema)}) == {"f0": "a"}
