"""Protobuf is read as Google's library reads it, and more strictly: damaged bytes give a reason and no other error."""

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import writer_schema
from lakehouse.declaration import Column, Protobuf, StreamTable
from lakehouse.decoding.fast.plain_records import decode_plain
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import KNOWN_REASONS, protobuf_nodes
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.formats.protobuf_lines import varint
from lakehouse.decoding.formats.protobuf_reader import reader_of
from lakehouse.decoding.judge import Rules
from lakehouse.decoding.memory import MAX_RECORD_MEMORY
from lakehouse.decoding.staged import EXPLICIT_NULL
from lakehouse.decoding.verdicts import decode_values
from lakehouse_tests.helpers.protobuf_schemas import DrawnSchema, as_read, fill, schemas

FIRST = b"\x00"
MAX_VARINT = b"\xff" * 9 + b"\x01"
ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  string id = 1;
  int64 count = 2;
  optional int32 discount = 3;
  google.protobuf.Timestamp at = 4;
  google.protobuf.StringValue note = 5;
  repeated sint32 steps = 6;
  map<int32, Item> items = 7;
  oneof payment { string card = 8; bool cash = 9; }
  Kind kind = 10;
  Order parent = 11;
  message Item { string sku = 1; }
  enum Kind { NONE = 0; OLD = 1; }
}
message Refund { string id = 1; }
"""
LINE = b"""{"id": "a", "count": 5, "discount": 0, "at": "2026-01-31T12:00:00.123456Z", "note": "x", "steps": [1, -1],
    "items": {"5": {"sku": "q"}}, "cash": true, "kind": "OLD", "parent": {"id": "b"}}"""
SCHEMA = writer_schema(ORDER, kind="PROTOBUF")
SCHEMAS = Schemas({7: SCHEMA}, {})
RECORD = Protobuf().writer(7, SCHEMA)(LINE)
COLUMNS = (
    Column("id", "STRING", "An id.", required=True),
    Column("count", "BIGINT", "A number.", between=(0, 100)),
    Column("at", "TIMESTAMP", "A time."),
    Column("kind", "STRING", "An enum."),
    Column("steps", "ARRAY<INT>", "Numbers."),
    Column("items", "MAP<STRING, STRUCT<sku: STRING>>", "Items."),
    Column("parent", "STRING", "Of another.", source=("parent", "id")),
)
TABLE = StreamTable("orders", "orders", "Orders.", COLUMNS, key=["id"], format=Protobuf())
RULES = Rules(TABLE.fields, None, TABLE.format.parser(SCHEMAS))


def proto(*fields: str, syntax: str = "proto3") -> str:
    """The text of a file with a message of these fields."""
    imports = "".join(f'import "google/protobuf/{name}.proto";' for name in ("timestamp", "duration", "struct"))
    return f'syntax = "{syntax}"; {imports} message M {{ {" ".join(fields)} }} enum E {{ ZERO = 0; ONE = 1; }}'


def read(text: str, body: bytes, indexes: bytes = FIRST) -> dict[str, Any]:
    return reader_of(writer_schema(text, kind="PROTOBUF"))(indexes + body, 0)


def read_or_reason(text: str, body: bytes) -> dict[str, Any] | str:
    """The value of a record, or the reason of its rejection."""
    try:
        return read(text, body)
    except Rejection as rejection:
        return rejection.reason


def rejection_reason(text: str, body: bytes, indexes: bytes = FIRST) -> str:
    with pytest.raises(Rejection) as rejected:
        read(text, body, indexes)
    return rejected.value.reason


def sized(tag: int, *contents: bytes) -> bytes:
    """Contents after their tags and sizes."""
    return b"".join(bytes([tag, len(content)]) + content for content in contents)


def comparable(value: Any) -> Any:
    """A value without the marks of unknown fields, with names in their order; NaN is equal to itself as text."""
    if isinstance(value, dict):
        return {name: comparable(value[name]) for name in sorted(value) if not name.startswith("#")}
    return [comparable(item) for item in value] if isinstance(value, list) else repr(value)


@st.composite
def messages(draw: st.DrawFn) -> tuple[DrawnSchema, Any]:
    """A schema, and a message of it."""
    schema = draw(schemas())
    return schema, fill(draw, schema.message_class()())


@pytest.mark.invariant("8.13")
@given(messages())
def test_every_message_is_read_as_the_library_wrote_it(drawn: tuple[DrawnSchema, Any]) -> None:
    schema, message = drawn
    assert comparable(read(schema.text, message.SerializeToString())) == comparable(as_read(message))


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
    value = read_or_reason(schema.text, damaged_body)
    if isinstance(value, str):
        assert value in KNOWN_REASONS
        return
    try:
        expected = as_read(type(message).FromString(damaged_body))
    except DecodeError:
        pytest.fail(f"read {damaged_body!r} as {value}, which the library refuses")
    assert comparable(value) == comparable(expected)


@pytest.mark.invariant("8.10")
@given(st.lists(st.tuples(st.integers(0, len(RECORD) - 1), st.integers(0, 255)), max_size=4), st.integers(0, 3))
def test_many_records_are_decoded_like_single_records(damages: list[tuple[int, int]], cut_bytes: int) -> None:
    body = bytearray(RECORD)
    for index, byte in damages:
        body[index] = byte
    values = [RECORD, bytes(body[: len(body) - cut_bytes]), None, b"", b"\x01abcd", b"\x00\x00", add_frame(8, FIRST)]
    array = pa.array(values, pa.binary())
    fast, strict = (decode_values(array, None, RULES, decoder) for decoder in (decode_plain, None))
    assert fast.verdicts.to_pylist() == strict.verdicts.to_pylist()
    assert fast.unmapped_counts == strict.unmapped_counts
    reasons = [row["_reason"] for row in fast.verdicts.to_pylist()]
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


@pytest.mark.invariant("8.10")
def test_a_record_that_ends_within_a_field_is_truncated() -> None:
    body = RECORD[6:]
    results = [read_or_reason(ORDER, body[:end]) for end in range(len(body))]
    assert {result for result in results if isinstance(result, str)} == {"truncated"}
    assert sum(isinstance(result, dict) for result in results) == 10, "a cut after a field leaves a shorter message"


@pytest.mark.parametrize(
    ("indexes", "name"),
    [(b"\x00", "count"), (b"\x02\x00", "count"), (b"\x04\x00\x00", "sku"), (b"\x04\x00\x02", "sku")],
)
def test_the_indexes_before_a_record_select_its_message(indexes: bytes, name: str) -> None:
    """The entries of the map ``items`` count as a message or not, and both readings mean ``Item``."""
    assert name in read(ORDER, b"", indexes)


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        (b"\x02\x04", "invalid_protobuf"),  # the third message of two
        (b"\x01", "invalid_protobuf"),  # a negative count, as serializers without zigzag write it
        (b"\x02\x01", "invalid_protobuf"),
        (b"\xfe\xff\x03", "invalid_protobuf"),
        (b"\x02", "truncated"),
        (b"\x04\x00\x04", "invalid_protobuf"),
    ],
)
def test_indexes_that_name_no_message_are_rejected(indexes: bytes, expected: str) -> None:
    assert rejection_reason(ORDER, b"", indexes) == expected


def test_indexes_that_serializers_count_differently_are_rejected() -> None:
    fields = ("map<string, A> as = 1;", "message B {}", "map<string, A> bs = 2;", "message C { int32 c = 1; }")
    text = proto("message A { int32 a = 1; }", *fields)
    assert read(text, b"", b"\x04\x00\x00") == {"a": 0}
    assert read(text, b"", b"\x04\x00\x08") == {"c": 0}, "the fifth with the entries, and none without them"
    assert rejection_reason(text, b"", b"\x04\x00\x06") == "invalid_protobuf", "only an entry"
    assert rejection_reason(text, b"", b"\x04\x00\x04") == "unusable_schema", "B if the entry counts, else C"


MISSING: dict[str, Any] = {"id": "", "count": 0, "note": None, "steps": [], "items": {}, "kind": "NONE"}


@pytest.mark.invariant("5.2")
def test_an_absent_field_is_its_default_or_null_or_missing() -> None:
    assert read(ORDER, b"") == MISSING
    assert read(proto("optional int32 a = 1 [default = 5];", "optional E e = 2;", syntax="proto2"), b"") == {}
    assert rejection_reason(proto("required int32 a = 1;", syntax="proto2"), b"") == "invalid_protobuf"


def test_a_default_that_means_not_set_is_null_if_declared() -> None:
    count = Column("count", "BIGINT", "A number.", null_values=("0",))
    kind = Column("kind", "STRING", "An enum.", null_values=("NONE",))
    table = StreamTable("orders", "orders", "Orders.", [count, kind], [], format=Protobuf())
    assert table.decode(add_frame(7, FIRST), schemas=SCHEMAS.by_id) == {"count": None, "kind": None}


@pytest.mark.invariant("5.2")
def test_only_an_absent_wrapper_is_an_explicit_null() -> None:
    columns = [Column(name, "STRING", "A.", keep=True, null_erases=True) for name in ("id", "note", "card")]
    rules = Rules(tuple(column.field for column in columns), None, Protobuf().parser(SCHEMAS))
    values = pa.array([add_frame(7, FIRST), add_frame(7, FIRST + b"\x2a\x00\x42\x00")])
    for decoder in (decode_plain, None):
        rows = decode_values(values, None, rules, decoder).verdicts.to_pylist()
        assert [[row[name] for name in ("id", "note", "card")] for row in rows] == [["", None, None], ["", "", ""]]
        assert [row[f"{EXPLICIT_NULL}note"] for row in rows] == [True, False]
        assert not any(row[f"{EXPLICIT_NULL}card"] for row in rows)


@pytest.mark.invariant("8.10", "13.3")
@pytest.mark.parametrize(
    ("fields", "body", "expected"),
    [
        (["int64 a = 1;"], b"\x08" + b"\xff" * 10, "invalid_protobuf"),
        (["int64 a = 1;"], b"\x08" + b"\x80" * 10 + b"\x00", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x08\x80\x80\x80\x80\x10", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x08\xff\xff\xff\xff\x0f", "invalid_protobuf"),
        (["uint32 a = 1;"], b"\x08" + MAX_VARINT, "invalid_protobuf"),
        (["bool a = 1;"], b"\x08\x02", "invalid_protobuf"),
        (["string a = 1;"], b"\x0a\x02\xff\xfe", "invalid_utf8"),
        (["string a = 1;"], b"\x0a" + MAX_VARINT, "invalid_protobuf"),
        (["string a = 1;"], b"\x0a\x05a", "truncated"),
        (["bytes a = 1;"], b"\x0a\x7f", "truncated"),
        (["string a = 1;"], b"\x08\x01", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x0d\x01\x00\x00\x00", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x0b", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x13\x14", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x16", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x00\x01", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x80\x80\x80\x80\x10\x00", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x08\x01\x08\x02", "duplicate_name"),
        (["oneof o { int32 a = 1; int32 b = 2; }"], b"\x08\x01\x10\x02", "duplicate_name"),
        (["map<string, int32> a = 1;"], sized(0x0A, b"\x0a\x01k", b"\x0a\x01k"), "duplicate_name"),
        (["map<string, int32> a = 1;"], sized(0x0A, b"\x18\x01"), "invalid_protobuf"),
        (["repeated int32 a = 1;"], b"\x0a\x02\x01\x80\x01", "truncated"),
        (["repeated fixed32 a = 1;"], b"\x0a\x03abcd", "truncated"),
        (["M a = 1;"], b"\x0a\x01\x0a\x00", "truncated"),
        (["google.protobuf.Value a = 1;"], b"\x0a\x00", "invalid_protobuf"),
    ],
)
def test_bytes_that_no_writer_writes_are_rejected(fields: list[str], body: bytes, expected: str) -> None:
    assert rejection_reason(proto(*fields), body) == expected


def test_numbers_with_zero_bits_at_their_end_are_read() -> None:
    assert read(proto("int64 a = 1;", "string b = 2;"), b"\x88\x00\x85\x80\x00\x12\x81\x00x") == {"a": 5, "b": "x"}


def test_repeated_numbers_are_read_packed_and_one_by_one() -> None:
    body = b"\x08\x01" + sized(0x0A, b"\x02\x03", b"") + b"\x08\x04"
    assert read(proto("repeated int32 a = 1;"), body) == {"a": [1, 2, 3, 4]}
    assert read(proto("repeated E a = 1;"), sized(0x0A, b"\x01\x00")) == {"a": ["ONE", "ZERO"]}


def test_lists_and_maps_of_a_record_are_not_those_of_the_next() -> None:
    reader = reader_of(writer_schema(proto("repeated int32 a = 1;", "map<bool, M> b = 2;"), kind="PROTOBUF"))
    assert reader(FIRST + b"\x08\x01" + sized(0x12, b"\x08\x01"), 0)["b"] == {"true": {"a": [], "b": {}}}
    assert reader(FIRST, 0) == {"a": [], "b": {}}


def test_a_field_that_the_schema_does_not_have_is_counted_by_its_number() -> None:
    body = RECORD + b"\x9a\x01\x01x"
    decoded = decode_values(pa.array([body]), None, RULES, decode_plain)
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


def seconds(number: int, nanos: int = 0) -> bytes:
    """The fields of a time or a duration."""
    return _varint_field(0x08, number) + _varint_field(0x10, nanos)


def _varint_field(number_tag: int, number: int) -> bytes:
    return bytes([number_tag]) + varint(number)


KNOWN = """syntax = "proto3"; import "google/type/date.proto"; import "confluent/type/decimal.proto";
message M { google.type.Date day = 1; confluent.type.Decimal price = 2; google.protobuf.Timestamp at = 3;
google.protobuf.Duration took = 4; google.protobuf.Struct props = 5; float ratio = 6; uint64 big = 7;
bytes raw = 8; }"""
KNOWN_COLUMNS = {
    "day": "DATE",
    "price": "DECIMAL(10,2)",
    "at": "TIMESTAMP",
    "took": "DECIMAL(21,9)",
    "ratio": "DOUBLE",
    "big": "BIGINT",
    "raw": "STRING",
}


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("day", sized(0x0A, b"\x08\xea\x0f\x10\x01\x18\x1f"), date(2026, 1, 31)),
        ("day", sized(0x0A, b"\x08\xea\x0f\x10\x02\x18\x1f"), "out_of_range"),
        ("day", sized(0x0A, b"\x08\xea\x0f"), "out_of_range"),
        ("price", sized(0x12, b"\x0a\x02\x04\xd2\x18\x02"), Decimal("12.34")),
        ("price", sized(0x12, b"\x0a\x02\xfb\x2e\x18\x02"), Decimal("-12.34")),
        ("price", sized(0x12, b"\x18\xff\xff\xff\xff\x07"), "out_of_range"),
        ("at", sized(0x1A, seconds(0, 500)), datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        ("at", sized(0x1A, seconds(-1, 999_999_499)), datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("at", sized(0x1A, seconds(253402300799, 999_999_600)), "out_of_range"),
        ("at", sized(0x1A, seconds(-62135596801)), "out_of_range"),
        ("at", sized(0x1A, seconds(0, -1)), "out_of_range"),
        ("at", sized(0x1A, seconds(2**63 - 1, 10**9)), "out_of_range"),
        ("took", sized(0x22, seconds(-1, -5)), Decimal("-1.000000005")),
        ("took", sized(0x22, seconds(1, -5)), "out_of_range"),
        ("took", sized(0x22, seconds(2**62)), "out_of_range"),
        ("ratio", b"\x35" + struct.pack("<f", 7.1), 7.1),
        ("ratio", b"\x35" + struct.pack("<f", float("nan")), "not_finite"),
        ("big", b"\x38" + MAX_VARINT, "out_of_range"),
        ("raw", sized(0x42, b"ab"), "wrong_type"),
    ],
)
def test_values_are_those_of_the_known_messages(name: str, body: bytes, expected: Any) -> None:
    schema = writer_schema(KNOWN, kind="PROTOBUF")
    table = StreamTable("m", "m", "M.", [Column(name, KNOWN_COLUMNS[name], "A value.")], [], format=Protobuf())
    record = add_frame(7, FIRST + body)
    if expected not in KNOWN_REASONS:
        assert table.decode(record, schemas={7: schema}) == {name: expected}
        return
    with pytest.raises(Rejection) as rejected:
        table.decode(record, schemas={7: schema})
    assert rejected.value.reason == expected
    other_table = StreamTable("m", "m", "M.", [Column("other", "STRING", "Not it.")], [], format=Protobuf())
    assert other_table.decode(record, schemas={7: schema}) == {"other": None}, "no harm in a field that is not read"


def test_a_number_beyond_bigint_is_a_decimal() -> None:
    table = StreamTable("m", "m", "M.", [Column("big", "DECIMAL(20,0)", "A number.")], [], format=Protobuf())
    schema = writer_schema(KNOWN, kind="PROTOBUF")
    assert table.decode(add_frame(7, FIRST + b"\x38" + MAX_VARINT), schemas={7: schema}) == {"big": 2**64 - 1}


@pytest.mark.invariant("8.10")
def test_messages_of_too_many_levels_are_rejected() -> None:
    text = proto("M a = 1;")
    body = b""
    for _ in range(60):
        body = sized(0x0A, body)
    assert read(text, body)
    levels = [b""]
    for _ in range(101):
        inner = levels[-1]
        levels.append(_varint_field(0x0A, len(inner)) + inner)
    assert read(text, levels[100])
    assert rejection_reason(text, levels[101]) == "invalid_protobuf"


@pytest.mark.invariant("8.11")
@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (["repeated bool a = 1;"], _varint_field(0x0A, 10**6) + b"\x01" * 10**6),
        (["repeated M a = 1;"], sized(0x0A, *[b""] * 100_000)),
        (["repeated string a = 1;"], sized(0x0A, *[b""] * 200_000)),
        (["map<int32, string> a = 1;"], sized(0x0A, *(_varint_field(0x08, n) for n in range(70_000)))),
        (["string b = 1;"], b"".join(varint(n << 3) + b"\x00" for n in range(2, 60_000))),
        (
            ["repeated M a = 1;", *(f"int32 f{n} = {n};" for n in range(2, 400))],
            sized(0x0A, *[b""] * 1_000),
        ),
    ],
)
def test_a_small_record_that_would_take_too_much_memory_is_rejected(
    monkeypatch: pytest.MonkeyPatch, fields: list[str], body: bytes
) -> None:
    """With a fortieth of the memory limit, and so in a fortieth of the time."""
    monkeypatch.setattr(protobuf_nodes, "MAX_RECORD_MEMORY", MAX_RECORD_MEMORY // 40)
    assert rejection_reason(proto(*fields), body) == "too_large"


def test_the_memory_of_a_record_is_counted_while_it_is_parsed() -> None:
    parser = Protobuf().parser(SCHEMAS)
    parser(RECORD)
    large_memory = parser.memory_of(RECORD)
    parser(add_frame(7, FIRST))
    assert large_memory > parser.memory_of(b"") > 0
