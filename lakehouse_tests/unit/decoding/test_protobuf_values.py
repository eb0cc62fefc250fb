"""The values of Protobuf: absent fields, known messages and large numbers."""

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakehouse import writer_schema
from lakehouse.declaration import Column, Protobuf, StreamTable
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import KNOWN_REASONS
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.staged import EXPLICIT_NULL
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.protobuf_orders import (
    FIRST,
    MAX_VARINT,
    ORDER,
    SCHEMAS,
    proto,
    read,
    rejection_reason,
    sized,
    varint_field,
)

MISSING: dict[str, Any] = {"id": "", "count": 0, "note": None, "steps": [], "items": {}, "kind": "NONE"}


@pytest.mark.invariant("5.2")
def test_an_absent_field_is_its_default_or_null_or_missing() -> None:
    assert read(ORDER, b"") == MISSING
    assert read(proto("optional int32 a = 1 [default = 5];", "optional E e = 2;", syntax="proto2"), b"") == {}
    required = proto("required int32 a = 1;", "map<int32, M> b = 2;", "optional M c = 3;", syntax="proto2")
    for body in (b"", b"\x08\x01\x1a\x00", b"\x08\x01\x12\x02\x08\x05", b"\x08\x01\x12\x04\x08\x05\x12\x00"):
        assert rejection_reason(required, body) == "invalid_protobuf"


def test_a_default_that_means_not_set_is_null_if_declared() -> None:
    count = Column("count", "BIGINT", "A number.", null_values=("0",))
    kind = Column("kind", "STRING", "An enum.", null_values=("NONE",))
    table = StreamTable("orders", "orders", "Orders.", [count, kind], [], format=Protobuf())
    assert table.decode(add_frame(7, FIRST), schemas=SCHEMAS.by_id) == {"count": None, "kind": None}


@pytest.mark.invariant("5.2")
def test_only_an_absent_wrapper_is_an_explicit_null() -> None:
    columns = [Column(name, "STRING", "A.", keep=True, null_erases=True) for name in ("id", "note", "card")]
    rules = Rules(tuple(column.field for column in columns), None, Protobuf().parser(SCHEMAS))
    rows = rows_twice([add_frame(7, FIRST), add_frame(7, FIRST + b"\x2a\x00\x42\x00")], rules)
    assert [[row[name] for name in ("id", "note", "card")] for row in rows] == [["", None, None], ["", "", ""]]
    assert [row[f"{EXPLICIT_NULL}note"] for row in rows] == [True, False]
    assert not any(row[f"{EXPLICIT_NULL}card"] for row in rows)


def seconds(number: int, nanos: int = 0) -> bytes:
    """The fields of a time or a duration."""
    return varint_field(0x08, number) + varint_field(0x10, nanos)


KNOWN = """syntax = "proto3"; import "google/type/date.proto"; import "confluent/type/decimal.proto";
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
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
