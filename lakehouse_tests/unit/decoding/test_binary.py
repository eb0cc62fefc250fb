"""Bytes are read exactly as they are, or from a text exactly as encoders write it; anything else rejects the record."""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.declaration import Column, RecordHeader, RecordKey, StreamTable
from lakehouse.decoding.byte_texts import byte_reader
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.memory import column_memory_per_byte, value_memory
from lakehouse.decoding.records import decode
from lakehouse_tests.helpers.decoding.one_value import decode_text

WRONG = "wrong_type"
OTHER_VALUES = ("5", "1.5", "true", "[]", "{}", "[1, 2]", '{"a": "AQI="}', '["AQI="]')
ENCODERS: dict[Any, Callable[[bytes], set[str]]] = {
    "base64": lambda data: {b64encode(data).decode()},
    "base64url": lambda data: {urlsafe_b64encode(data).decode(), urlsafe_b64encode(data).decode().rstrip("=")},
    "hex": lambda data: {data.hex(), data.hex().upper()},
}
TEXTS_OF_NO_FORM = ("AQI", "AQ=", "A", "=", "====", "AQI==", "AQI=AQI=", " AQI=", "AQI=\\n", "é", "\\ud800", "\\u0000")


@pytest.mark.invariant("13.1")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("AQI=", b"\x01\x02"), ("", b""), ("+/+/", b"\xfb\xff\xbf"), ("AAAA", bytes(3)), ("\\u0041QI=", b"\x01\x02")),
        *((text, WRONG) for text in TEXTS_OF_NO_FORM),
        *(("-_-_", WRONG), ("AQJ=", WRONG), ("AR==", WRONG), ("A Q=", WRONG), ("AQ I=", WRONG), ("0x01", None)),
    ],
)
def test_base64_has_the_standard_alphabet_and_is_padded(text: str, value: Any) -> None:
    expected = b"\xd3\x1d5" if value is None else value
    assert decode_text("BINARY", f'"{text}"', written="base64") == expected


@pytest.mark.invariant("13.1")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("AQI=", b"\x01\x02"), ("AQI", b"\x01\x02"), ("AQ", b"\x01"), ("AQ==", b"\x01"), ("", b"")),
        *(("-_-_", b"\xfb\xff\xbf"), ("+/+/", WRONG), ("-/-_", WRONG), ("AR", WRONG), ("AR==", WRONG), ("AQJ", WRONG)),
        *((text, WRONG) for text in TEXTS_OF_NO_FORM if text != "AQI"),
    ],
)
def test_base64url_has_its_own_alphabet_and_may_be_padded(text: str, value: Any) -> None:
    assert decode_text("BINARY", f'"{text}"', written="base64url") == value


@pytest.mark.invariant("13.1")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("00ff", b"\x00\xff"), ("00FF", b"\x00\xff"), ("aBcD", b"\xab\xcd"), ("", b"")),
        *((text, WRONG) for text in ("0", "00f", "0x00", "\\\\x00", "00 ff", " 00", "00\\n", "0g", "é", "\\ud800")),
        *(("\\u0660\\u0660", WRONG), ("-1", WRONG), ("+1", WRONG), ("00:ff", WRONG)),
    ],
)
def test_hex_has_an_even_number_of_digits(text: str, value: Any) -> None:
    assert decode_text("BINARY", f'"{text}"', written="hex") == value


@pytest.mark.invariant("13.1")
@pytest.mark.parametrize("form", ["base64", "base64url", "hex"])
@pytest.mark.parametrize("text", OTHER_VALUES)
def test_no_other_value_is_bytes(form: Any, text: str) -> None:
    assert decode_text("BINARY", text, written=form) == WRONG
    assert decode_text("BINARY", "null", written=form) is None


@settings(deadline=None, database=None)
@given(st.binary(max_size=60), st.text(max_size=4), st.text("AQ=-_+/0f ", max_size=12))
def test_what_encoders_write_is_read_and_nothing_else(data: bytes, text: str, short_text: str) -> None:
    for form, encode in ENCODERS.items():
        read = byte_reader(form)
        assert {read(right_text) for right_text in encode(data)} == {data}
        for right_text in encode(data):
            for spoiled_text in (
                right_text + text,
                text + right_text,
                right_text[:-1],
                right_text.swapcase(),
                short_text,
            ):
                result = read(spoiled_text)
                assert (
                    result is None
                    or spoiled_text in encode(result)
                    or (form, result) == ("hex", bytes.fromhex(spoiled_text))
                )


def test_the_detail_names_the_text_and_the_form() -> None:
    field = Column("photo", "BINARY", "A photo.", written="base64").field
    with pytest.raises(Rejection) as caught:
        decode(b'{"photo": "AQI"}', (field,))
    assert caught.value.detail == "'photo' is text 'AQI', expected BINARY with written='base64'"
    with pytest.raises(Rejection) as caught:
        decode(b'{"photo": [1, 2]}', (field,))
    assert caught.value.detail == "'photo' is an array of 2, expected BINARY with written='base64'"


@pytest.mark.parametrize("source", [RecordKey(), RecordHeader("trace")])
def test_a_key_and_a_header_are_bytes_already(source: Any) -> None:
    columns = [Column("id", "INT", "Which.", required=True), Column("raw", "BINARY", "Bytes.", source=source)]
    table = StreamTable("items", "items", "Items.", columns, ["id"])
    raw = b"\xff\x00\xfe"
    decoded_row = table.decode(b'{"id": 1}', key=raw, headers={"trace": raw})
    assert decoded_row == {"id": 1, "raw": raw}
    assert table.decode(b'{"id": 1}', key=b"", headers={"trace": b""})["raw"] == b""
    assert table.decode(b'{"id": 1}')["raw"] is None


def test_a_header_may_be_bytes_as_text() -> None:
    column = Column("raw", "BINARY", "Bytes.", source=RecordHeader("trace"), written="hex")
    table = StreamTable("items", "items", "Items.", [Column("id", "INT", "Which.", required=True), column], ["id"])
    assert table.decode(b'{"id": 1}', headers={"trace": b"00ff"})["raw"] == b"\x00\xff"
    with pytest.raises(Rejection, match="expected BINARY with written='hex'"):
        table.decode(b'{"id": 1}', headers={"trace": b"\x00"})


def test_null_values_and_a_default_are_texts() -> None:
    assert decode_text("BINARY", '""', written="hex", null_values=("",)) is None
    assert decode_text("BINARY", "null", written="hex", default="00ff") == b"\x00\xff"
    assert decode_text("BINARY", "null", written="hex", required=True) == "null_field"


def test_bytes_count_like_texts_in_the_memory_of_a_record() -> None:
    binary = Column("n", "BINARY", "Bytes.", written="base64").field
    text = Column("n", "STRING", "A text.").field
    assert column_memory_per_byte([binary], 1) == column_memory_per_byte([text], 1)
    assert value_memory("x" * 100, binary) == value_memory("x" * 100, text) == value_memory(b"x" * 100, binary)
