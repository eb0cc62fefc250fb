"""Where the value of a column is: at a path, under a former name, in the key, in a header or in the broker's time."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse.declaration import BrokerTime, Column, RecordHeader, RecordKey, StreamTable
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.records import decode
from lakehouse_tests.helpers.decoding.strict_decoding import rejection_of

CITY = Column("city", "STRING", "Where to.", source=("to", "address", "city"), required=True).field


def test_a_nested_value_is_read_by_its_path() -> None:
    assert decode(b'{"to":{"address":{"city":"Rome"}},"city":"Paris"}', (CITY,)) == {"city": "Rome"}


@pytest.mark.parametrize(
    ("value", "reason", "detail"),
    [
        (b"{}", "missing_field", "'to.address.city' is required"),
        (b'{"to":{}}', "missing_field", "'to.address.city' is required"),
        (b'{"to":null}', "null_field", "'to.address.city' is required"),
        (b'{"to":{"address":{"city":null}}}', "null_field", "'to.address.city' is required"),
        (b'{"to":"Rome"}', "wrong_type", "'to' is text 'Rome', expected an object"),
        (b'{"to":{"address":["Rome"]}}', "wrong_type", "'to.address' is an array of 1, expected an object"),
        (b'{"to.address.city":"Rome"}', "missing_field", "'to.address.city' is required"),
    ],
)
def test_a_path_that_leads_to_no_value_is_reported(value: bytes, reason: str, detail: str) -> None:
    rejection = rejection_of(value, (CITY,))
    assert (rejection.reason, rejection.detail) == (reason, detail)


@pytest.mark.parametrize(
    ("value", "town"),
    [
        (b'{"town":"Rome"}', "Rome"),
        (b'{"to":{"city":"Rome"}}', "Rome"),
        (b'{"town":"Rome","to":{"city":"Paris"}}', "Rome"),
        (b'{"town":null,"to":{"city":"Paris"}}', None),
        (b'{"town":"Rome","to":7}', "Rome"),
        (b"{}", None),
    ],
)
def test_a_missing_field_is_read_by_its_former_name(value: bytes, town: str | None) -> None:
    renamed_field = Column("town", "STRING", "Where to.", formerly=("to", "city")).field
    assert decode(value, (renamed_field,)) == {"town": town}


def test_a_field_missing_under_both_names_is_reported_by_its_current_name() -> None:
    renamed_field = Column("town", "STRING", "Where to.", formerly="city", required=True).field
    assert rejection_of(b"{}", (renamed_field,)).detail == "'town' is required"
    assert rejection_of(b'{"city":null}', (renamed_field,)).reason == "null_field"


def test_a_column_may_be_the_key_a_header_or_the_broker_s_time() -> None:
    table = StreamTable(
        "parts",
        "parts",
        "",
        [
            Column("id", "BIGINT", "Number.", source=RecordKey(), required=True),
            Column("trace", "STRING", "Trace.", source=RecordHeader("trace-id")),
            Column("received_at", "TIMESTAMP", "UTC.", source=BrokerTime()),
            Column("n", "INT", "A field."),
        ],
        ["id"],
    )
    time = datetime(2026, 1, 1, microsecond=1000, tzinfo=UTC)
    row = table.decode(b'{"n":1}', key=b"7", headers={"trace-id": "ä".encode()}, time=time)
    assert row == {"id": 7, "trace": "ä", "received_at": time, "n": 1}
    assert table.decode(b"{}", key=b"7") == {"id": 7, "trace": None, "received_at": None, "n": None}
    for key, reason, detail in (
        (None, "missing_field", "'key of the record' is required"),
        (b"x", "wrong_type", "'key of the record' is text 'x', expected BIGINT"),
        (b"\xff", "invalid_utf8", "'key of the record': the byte at place 0 is not UTF-8"),
    ):
        with pytest.raises(Rejection) as rejected:
            table.decode(b"{}", key=key)
        assert (rejected.value.reason, rejected.value.detail) == (reason, detail)


BIG_ENDIAN_SEVEN = (7).to_bytes(8, "big")


def decode_key(type_: str, key: bytes, source: RecordKey) -> Any:
    column = Column("id", type_, "Which.", source=source, required=True)
    return StreamTable("parts", "parts", "", [column], ["id"]).decode(b"{}", key=key)["id"]


@pytest.mark.parametrize(
    ("key", "detail"),
    [
        (BIG_ENDIAN_SEVEN, "U+0000; it may be a number: declare BIGINT with RecordKey('big_endian')"),
        ((7).to_bytes(4, "big"), "U+0000; it may be a number: declare INT with RecordKey('big_endian')"),
        (b"\x00\x00\x00\x00\x01\x02\x0e", "U+0000"),  # Avro, after the id of its schema
        (b"\x0eA", "U+000E"),
        (b"a\n", "U+000A"),
        (b"a\x7f", "U+007F"),
        ("a\u0085".encode(), "U+0085"),
    ],
)
def test_a_binary_key_is_not_text(key: bytes, detail: str) -> None:
    with pytest.raises(Rejection) as rejected:
        decode_key("STRING", key, RecordKey())
    assert rejected.value.reason == "invalid_text"
    assert rejected.value.detail == f"'key of the record' contains the control character {detail}"
    assert decode_key("STRING", key, RecordKey("any_text")) == key.decode()


@pytest.mark.parametrize("key", ["a b", "é", "\u00a0", "\u200d", "7", ""])
def test_a_text_key_may_have_all_characters_but_control_characters(key: str) -> None:
    assert decode_key("STRING", key.encode(), RecordKey()) == key


@pytest.mark.parametrize(("type_", "size"), [("INT", 4), ("BIGINT", 8)])
def test_a_key_may_be_the_bytes_of_a_number(type_: str, size: int) -> None:
    for number in (0, 7, -1, 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)), 0x30303030):
        assert decode_key(type_, number.to_bytes(size, "big", signed=True), RecordKey("big_endian")) == number
    for key in (b"", b"7", bytes(size - 1), bytes(size + 1), bytes(12 - size)):
        with pytest.raises(Rejection, match=f"has {len(key)} bytes, expected {size} for {type_}"):
            decode_key(type_, key, RecordKey("big_endian"))
    column = Column("id", type_, "", source=RecordKey("big_endian"), between=(0, 9), required=True)
    table = StreamTable("parts", "parts", "", [column], ["id"])
    with pytest.raises(Rejection, match="out_of_range"):
        table.decode(b"{}", key=b"\xff" * size)
