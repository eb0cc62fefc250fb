"""Decoding a malformed record takes time in proportion to its length: a megabyte ends long before the limit."""

import gc
import sys
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from lakehouse.declaration import Column, ParentField, RecordKey, StreamTable, Time
from lakehouse.decoding.batch import RecordBatch
from lakehouse.decoding.fields import REASONS, Field, Rejection
from lakehouse.decoding.records import decode
from lakehouse.decoding.verdicts import decode_values
from lakehouse_tests.helpers.decoding.native import NATIVE

MEGABYTE = 1_000_000
PATTERNS = {"DATE": "%Y-%m-%d", "TIMESTAMP": "%Y-%m-%dT%H:%M:%S.%f"}
NUMBERS = ("INT", "BIGINT", "DOUBLE", "DECIMAL(38,18)", "DECIMAL(1,0)")

# time in proportion to the square of a megabyte would be minutes
pytestmark = pytest.mark.timeout(10)


def field(type_: str) -> Field:
    return Column("n", type_, "A field.", written=Time(PATTERNS.get(type_))).field


def verdict(value: bytes, type_: str) -> str:
    """The reason why a record is rejected, or ``row``; its detail is short and valid text."""
    try:
        decode(value, (field(type_),))
    except Rejection as rejection:
        reason, detail = rejection.reason, rejection.detail
    else:
        reason, detail = "row", "the record is a row"
    assert 0 < len(detail.encode("utf-8")) <= 2000
    return reason


def fill(unit: bytes) -> bytes:
    """A megabyte of repeated bytes."""
    return unit * (MEGABYTE // len(unit))


def many_names() -> bytes:
    return b",".join(b'"%d":1' % number for number in range(90_000))


def record(value: bytes) -> bytes:
    return b'{"n":' + value + b"}"


RECORDS: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "many names, the last of them twice": (lambda: b"{" + many_names() + b',"89999":1}', "INT", "duplicate_name"),
    "many nested names, the last of them twice": (
        lambda: record(b"{" + many_names() + b',"89999":1}'),
        "INT",
        "duplicate_name",
    ),
    "one name again and again": (lambda: b"{" + fill(b'"a":1,') + b'"a":1}', "INT", "duplicate_name"),
    "a long name twice": (lambda: b'{"' + b'":1,"'.join([b"x" * 500_000] * 2) + b'":1}', "INT", "duplicate_name"),
    "halves of surrogates as names": (
        lambda: b'{"' + b'":1,"'.join([b"\\ud800" * 80_000] * 2) + b'":1}',
        "INT",
        "duplicate_name",
    ),
    "deep arrays": (lambda: record(b"[" * 500_000 + b"]" * 500_000), "INT", "invalid_json"),
    "deep objects": (lambda: fill(b'{"n":'), "INT", "invalid_json"),
    "deep arrays side by side": (
        lambda: record(b"[" + b",".join([b"[" * 900 + b"]" * 900] * 550) + b"]"),
        "INT",
        "wrong_type",
    ),
    "a long array for a number": (lambda: record(b"[" + fill(b"1,") + b"1]"), "INT", "wrong_type"),
    "many objects for a number": (lambda: record(b"[" + fill(b"{},") + b"1]"), "DOUBLE", "wrong_type"),
    "a large object for text": (lambda: record(b"{" + many_names() + b"}"), "STRING", "wrong_type"),
    "a large object for a time": (lambda: record(b"{" + many_names() + b"}"), "TIMESTAMP", "wrong_type"),
    "text for a number": (lambda: record(b'"' + fill(b"x") + b'"'), "INT", "wrong_type"),
    "wide text for a number": (lambda: record(b'"' + fill("\U0001f600".encode()) + b'"'), "INT", "wrong_type"),
    "halves of surrogates": (lambda: record(b'"' + fill(b"\\ud800") + b'"'), "STRING", "invalid_text"),
    "half of a surrogate at the end": (lambda: record(b'"' + fill(b"x") + b'\\udc00"'), "STRING", "invalid_text"),
    "halves of surrogates for a number": (lambda: record(b'"' + fill(b"\\ud800") + b'"'), "INT", "wrong_type"),
    "a long time": (lambda: record(b'"' + fill(b"2") + b'"'), "TIMESTAMP", "wrong_time_format"),
    "a long fraction of a second": (
        lambda: record(b'"2023-01-01T00:00:00.' + fill(b"2") + b'"'),
        "TIMESTAMP",
        "wrong_time_format",
    ),
    "a long date": (lambda: record(b'"2023-01-01' + fill(b" ") + b'"'), "DATE", "wrong_time_format"),
    "digits for a time": (lambda: record(fill(b"2")), "TIMESTAMP", "wrong_type"),
    "blanks": (lambda: fill(b" "), "INT", "empty_value"),
    "blanks and a beginning": (lambda: fill(b" ") + b"{", "INT", "truncated"),
    "a beginning and blanks": (lambda: b"{" + fill(b" \n"), "INT", "truncated"),
    "blanks before a mistake": (lambda: b'{"n":' + fill(b"\n") + b"x", "INT", "invalid_json"),
    "blanks before trailing bytes": (lambda: record(b"1") + fill(b"\n") + b"x", "INT", "trailing_bytes"),
    "trailing braces": (lambda: record(b"1") + fill(b"}"), "INT", "trailing_bytes"),
    "trailing words": (lambda: fill(b"true "), "INT", "trailing_bytes"),
    "an unterminated string": (lambda: b'{"n":"' + fill(b"x"), "INT", "truncated"),
    "unterminated escapes": (lambda: b'{"n":"' + fill(b"\\\\") + b"\\", "INT", "truncated"),
    "digits of an escape": (lambda: b'{"n":"\\u' + fill(b"0"), "INT", "truncated"),
    "a line end in a string": (lambda: b'{"n":"' + fill(b"x") + b'\n"}', "INT", "invalid_json"),
    "a wrong byte at the end": (lambda: record(b'"' + fill(b"x") + b'\xff"'), "INT", "invalid_utf8"),
    "wrong bytes": (lambda: fill(b"\xff"), "INT", "invalid_utf8"),
    "zero bytes": (lambda: fill(b"\x00"), "INT", "invalid_json"),
    "unterminated digits": (lambda: b'{"n":' + fill(b"1"), "INT", "truncated"),
    "digits after a leading point": (lambda: b'{"n":.' + fill(b"1") + b"x", "INT", "invalid_json"),
    "signs": (lambda: b'{"n":' + fill(b"-"), "INT", "invalid_json"),
    "exponents": (lambda: b'{"n":1' + fill(b"e"), "INT", "invalid_json"),
    "commas": (lambda: b'{"n":1' + fill(b","), "INT", "invalid_json"),
    "an unterminated array": (lambda: b"[" + fill(b"1,"), "INT", "truncated"),
    "constants that are not numbers": (lambda: b"[" + fill(b"NaN,"), "INT", "not_finite"),
}
DIGITS: dict[str, tuple[Callable[[], bytes], dict[str, str]]] = {
    "a number of a million digits": (lambda: fill(b"9"), dict.fromkeys(NUMBERS, "out_of_range")),
    "a million places": (
        lambda: b"0." + fill(b"3"),
        {"INT": "wrong_type", "BIGINT": "wrong_type"} | dict.fromkeys(NUMBERS[2:], "row"),
    ),
    "a million zeros before a place": (
        lambda: b"1." + fill(b"0") + b"1",
        {"INT": "wrong_type", "BIGINT": "wrong_type"} | dict.fromkeys(NUMBERS[2:], "row"),
    ),
    "a million zeros after a point": (lambda: b"1." + fill(b"0"), dict.fromkeys(NUMBERS, "row")),
    "halfway between two doubles": (
        lambda: b"2.0000000000000002220446049250313080847263336181640625" + fill(b"0") + b"1",
        {"INT": "wrong_type", "BIGINT": "wrong_type"} | dict.fromkeys(NUMBERS[2:], "row"),
    ),
    "digits that an exponent removes": (
        lambda: fill(b"9") + b"e-999999",
        {"INT": "wrong_type", "BIGINT": "wrong_type", "DECIMAL(1,0)": "out_of_range"}
        | dict.fromkeys(("DOUBLE", "DECIMAL(38,18)"), "row"),
    ),
    "an exponent of a million digits": (lambda: b"1e" + fill(b"9"), dict.fromkeys(NUMBERS, "out_of_range")),
    "an exponent of a million zeros": (lambda: b"1e" + fill(b"0") + b"0", dict.fromkeys(NUMBERS, "row")),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_a_megabyte_of_every_malformed_kind_is_decoded_quickly(kind: str) -> None:
    build, type_, reason = RECORDS[kind]
    assert verdict(build(), type_) == reason


@pytest.mark.parametrize("kind", DIGITS)
@pytest.mark.parametrize("type_", NUMBERS)
def test_a_megabyte_of_digits_is_decoded_quickly(kind: str, type_: str) -> None:
    build, reasons = DIGITS[kind]
    assert verdict(record(build()), type_) == reasons[type_]


def test_a_megabyte_cut_off_anywhere_is_decoded_quickly() -> None:
    long_record = record(
        b'{"a":"' + b"\\u00e9" * 80_000 + b'","b":[' + b"1.5e3,null," * 25_000 + b'0]}, "c":' + b" " * 200_000
    )
    for end in range(1, len(long_record), len(long_record) // 40):
        assert verdict(long_record[:end], "INT") == "truncated"


@pytest.mark.parametrize("innermost", ["1", "true", '""', "[]", "{}"])
@pytest.mark.parametrize("type_", ["INT", "STRING", "TIMESTAMP"])
def test_a_record_of_any_depth_is_a_row_or_a_rejection(innermost: str, type_: str) -> None:
    """Also at the depth that Python can just read, but no longer write."""
    for depth in range(1, sys.getrecursionlimit() + 50):
        for opening, closing in (("[", "]"), ('{"a":', "}")):
            assert verdict(record((opening * depth + innermost + closing * depth).encode()), type_) in REASONS


ID = Column("id", "INT", "Number.", required=True)
TEXT = Column("log", "STRING", "A line.")
OPENED = Column("n", "INT", "A number.", source=("log", "n"), invalid="null")
ELEMENTS = [replace(ID, source=ParentField("id")), Column("n", "INT", "A number.", required=True)]


@pytest.mark.parametrize("native", [NATIVE, None])
@pytest.mark.parametrize(
    ("table", "value"),
    [
        (StreamTable("t", "t", "T.", [ID], ["id"]), b"{"),
        (StreamTable("t", "t", "T.", [ID], ["id"]), b'{"id": "x"}'),
        (StreamTable("t", "t", "T.", [ID, TEXT, OPENED], ["id"]), b'{"id": 1, "log": "{"}'),
        (StreamTable("t", "t", "T.", ELEMENTS, ["id", "n"], rows_from="items"), b'{"id": 1, "items": [{"n": "x"}]}'),
        (StreamTable("t", "t", "T.", ELEMENTS, ["id", "n"], rows_from="items"), b'{"id": 1, "items": 5}'),
        (StreamTable("t", "t", "T.", [replace(ID, source=RecordKey("json", "id"))], ["id"]), b"{}"),
    ],
)
def test_records_do_not_stay_in_memory_because_one_is_rejected(table, value, native):
    gc.collect()
    gc.disable()
    try:
        decode_values(pa.array([value]), None, table.rules(), native, {"key": pa.array([b"{"])})
        assert not [thing for thing in gc.get_objects() if type(thing) is RecordBatch]
    finally:
        gc.enable()
