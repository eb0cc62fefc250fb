"""Records of Protobuf become rows by their schemas; damaged bytes give a reason and no other error."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, Protobuf, StreamTable
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import KNOWN_REASONS
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.formats.protobuf.reader import reader_of
from lakehouse.decoding.verdicts import decode_values
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.native import NATIVE
from lakehouse_tests.helpers.decoding.protobuf_orders import (
    COLUMNS,
    FIRST,
    ORDER,
    RECORD,
    RULES,
    SCHEMAS,
    TABLE,
    comparable,
    compiled,
    proto,
    read,
    read_or_reason,
    sized,
)
from lakehouse_tests.helpers.protobuf_schemas import DrawnSchema, as_read, fill, schemas


@st.composite
def messages(draw: st.DrawFn) -> tuple[DrawnSchema, Any]:
    """A schema, and a message of it."""
    schema = draw(schemas())
    return schema, fill(draw, schema.message_class()())


@pytest.mark.invariant("8.13")
@given(messages())
def test_every_message_is_read_as_the_library_wrote_it(drawn: tuple[DrawnSchema, Any]) -> None:
    schema, message = drawn
    assert comparable(read(schema.compiled, message.SerializeToString())) == comparable(as_read(message))


@pytest.mark.invariant("8.10")
@given(messages(), st.data())
def test_damaged_bytes_give_what_the_library_reads_or_a_reason(
    drawn: tuple[DrawnSchema, Any], data: st.DataObject
) -> None:
    schema, message = drawn
    body = bytearray(message.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4)) if body else 0):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    damaged_body = bytes(body[: data.draw(st.integers(0, len(body)))]) if data.draw(st.booleans()) else bytes(body)
    value = read_or_reason(schema.compiled, damaged_body)
    if isinstance(value, str):
        assert value in KNOWN_REASONS
        return
    try:
        expected = as_read(type(message).FromString(damaged_body))
    except DecodeError:
        pytest.fail(f"read {damaged_body!r} as {value}, which the library refuses")
    if schema.syntax == "proto2" and "UnrepresentableValue" in repr(value):  # the library drops a nameless number
        value = {name: inner for name, inner in value.items() if "UnrepresentableValue" not in repr(inner)}
        expected = {name: inner for name, inner in expected.items() if name in value}
    assert comparable(value) == comparable(expected)


@pytest.mark.invariant("8.10")
@given(st.lists(st.tuples(st.integers(0, len(RECORD) - 1), st.integers(0, 255)), max_size=4), st.integers(0, 3))
def test_many_records_are_decoded_like_single_records(damages: list[tuple[int, int]], cut_bytes: int) -> None:
    body = bytearray(RECORD)
    for index, byte in damages:
        body[index] = byte
    values = [RECORD, bytes(body[: len(body) - cut_bytes]), None, b"", b"\x01abcd", b"\x00\x00", add_frame(8, FIRST)]
    reasons = [row["_reason"] for row in rows_twice(values, RULES)]
    assert reasons[2:] == ["tombstone", "empty_value", "wrong_magic", "truncated", "unknown_schema"]
    assert reasons[0] is None and reasons[1] in (None, *KNOWN_REASONS)


def test_a_record_becomes_a_row_by_the_names_of_its_schema() -> None:
    assert TABLE.decode(RECORD, schemas=SCHEMAS.by_id) == {
        "id": "a",
        "count": 5,
        "at": datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC),
        "kind": "OLD",
        "steps": [1, -1],
        "items": [("5", {"sku": "q"})],
        "parent": "b",
    }


@pytest.mark.parametrize(
    ("indexes", "name"),
    [(b"\x00", "count"), (b"\x02\x00", "count"), (b"\x04\x00\x00", "sku"), (b"\x04\x00\x02", "sku")],
)
def test_the_indexes_before_a_record_select_its_message(indexes: bytes, name: str) -> None:
    """The entries of the map ``items`` count as a message or not, and both readings mean ``Item``."""
    assert name in read(ORDER, b"", indexes)


def test_repeated_numbers_are_read_packed_and_one_by_one() -> None:
    body = b"\x08\x01" + sized(0x0A, b"\x02\x03", b"") + b"\x08\x04"
    assert read(proto("repeated int32 a = 1;"), body) == {"a": [1, 2, 3, 4]}
    assert read(proto("repeated E a = 1;"), sized(0x0A, b"\x01\x00")) == {"a": ["ONE", "ZERO"]}


def test_lists_and_maps_of_a_record_are_not_those_of_the_next() -> None:
    reader = reader_of(compiled(proto("repeated int32 a = 1;", "map<bool, M> b = 2;")))
    assert reader(FIRST + b"\x08\x01" + sized(0x12, b"\x08\x01"), 0)["b"] == {"true": {"a": [], "b": {}}}
    assert reader(FIRST, 0) == {"a": [], "b": {}}


def test_a_field_that_the_schema_does_not_have_is_counted_by_its_number() -> None:
    body = RECORD + b"\x9a\x01\x01x"
    decoded = decode_values(pa.array([body]), None, RULES, NATIVE)
    assert decoded.verdicts.to_pylist()[0]["_reason"] is None
    assert decoded.unmapped_counts["#19"] == 1
    table = StreamTable("t", "t", "T.", [Column("it", "STRING", "It.", source="#19")], [], format=Protobuf())
    with pytest.raises(Rejection, match="a field that the schema does not have"):
        table.decode(body, schemas=SCHEMAS.by_id)


def test_the_number_of_an_enum_without_a_name_rejects_only_what_reads_it() -> None:
    record = add_frame(7, FIRST + b"\x0a\x01a\x50\x05")
    with pytest.raises(Rejection, match=r"'kind' is a number '5, without a name in shop.Order.Kind', expected STRING"):
        TABLE.decode(record, schemas=SCHEMAS.by_id)
    other_table = StreamTable("orders", "orders", "Orders.", COLUMNS[:3], key=["id"], format=Protobuf())
    assert other_table.decode(record, schemas=SCHEMAS.by_id)["id"] == "a"
