"""Strict decoding of a record: every malformed kind has its own reason, and no other error ever occurs."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.records import decode
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.helpers.decoding.strict_decoding import GOOD, field, rejection_of

VERDICTS = {
    "row",
    "tombstone",
    "empty_value",
    "invalid_utf8",
    "truncated",
    "invalid_json",
    "trailing_bytes",
    "duplicate_name",
    "not_finite",
    "not_an_object",
    "missing_field",
    "null_field",
    "wrong_type",
    "wrong_time_format",
    "no_such_date",
    "out_of_range",
    "invalid_text",
}
TYPES = ("STRING", "BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL(9,6)", "DATE", "TIMESTAMP")


@pytest.mark.invariant("13.1", "13.2")
def test_a_valid_record_gives_exact_keys_and_a_time_in_utc() -> None:
    assert decode(GOOD, temperatures.fields) == {
        "latitude": Decimal("51.500000"),
        "longitude": Decimal("-0.099991"),
        "observed_at": datetime(2023, 1, 1, 5, tzinfo=UTC),
        "temperature_2m": 10.4,
    }


def test_a_missing_and_a_null_field_are_both_none_if_not_required() -> None:
    for text in ("", ',"temperature_2m":null'):
        record = f'{{"latitude":1,"longitude":2,"time":"2023-01-01T05:00"{text}}}'
        assert decode(record.encode(), temperatures.fields)["temperature_2m"] is None


def test_unmapped_fields_are_ignored() -> None:
    assert decode(b'{"n":1,"other":{"deep":[1,"\\ud800"]}}', (field("INT"),)) == {"n": 1}


@pytest.mark.invariant("8.10", "13.3")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "tombstone"),
        (b"", "empty_value"),
        (b" \r\n", "empty_value"),
        (b"\xff\xfe", "invalid_utf8"),
        (b'{"name":"\xc3("}', "invalid_utf8"),
        (GOOD[:-1], "truncated"),
        (GOOD[:-20], "truncated"),
        (b'{"n":tru', "truncated"),
        (b'{"n":"\\u00', "truncated"),
        (b'{"n":1.5e', "truncated"),
        (b"temperature 10.4", "invalid_json"),
        (b"\x00", "invalid_json"),
        (b"\x1e", "invalid_json"),
        (b"\xc2\xa0", "invalid_json"),
        (b"\xef\xbb\xbf" * 2 + GOOD, "invalid_json"),
        (GOOD + b"\xef\xbb\xbf", "trailing_bytes"),
        (b"\xef\xbb\xbf", "empty_value"),
        (b"\xff\xfe" + GOOD.decode().encode("utf-16-le"), "invalid_utf8"),
        (b'{"n":1,}', "invalid_json"),
        (b'{"n":01}', "invalid_json"),
        (b"{'n':1}", "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b'{"n":' * 100_000, "invalid_json"),
        (GOOD + b" {}", "trailing_bytes"),
        (GOOD + b"}", "trailing_bytes"),
        (GOOD + b"\x00", "trailing_bytes"),
        (b'{"latitude":1,"latitude":1}', "duplicate_name"),
        (b'{"other":{"a":1,"a":2}}', "duplicate_name"),
        (GOOD.replace(b"10.4", b"NaN"), "not_finite"),
        (GOOD.replace(b"10.4", b"Infinity"), "not_finite"),
        (GOOD.replace(b"10.4", b"-Infinity"), "not_finite"),
        (b"[" + GOOD + b"]", "not_an_object"),
        (b"null", "not_an_object"),
        (b"42", "not_an_object"),
        (b'"text"', "not_an_object"),
        (b"{}", "missing_field"),
        (GOOD.replace(b'"time"', b'"at"'), "missing_field"),
        (GOOD.replace(b'"2023-01-01T05:00"', b"null"), "null_field"),
        (GOOD.replace(b"51.5", b"null"), "null_field"),
        (GOOD.replace(b"51.5", b"90.1"), "out_of_range"),
        (GOOD.replace(b"51.5", b"1e400"), "out_of_range"),
        (GOOD.replace(b"51.5", b"1e999999999999999999999"), "out_of_range"),
        (GOOD.replace(b"10.4", b"1e400"), "out_of_range"),
        (GOOD.replace(b"10.4", b"70.1"), "out_of_range"),
        (GOOD.replace(b"10.4", b"-100.1"), "out_of_range"),
        (GOOD.replace(b"51.5", b'"51.5"'), "wrong_type"),
        (GOOD.replace(b"51.5", b"true"), "wrong_type"),
        (GOOD.replace(b"51.5", b"[51.5]"), "wrong_type"),
        (GOOD.replace(b"51.5", b'{"degrees":51.5}'), "wrong_type"),
        (GOOD.replace(b'"2023-01-01T05:00"', b"1672549200"), "wrong_type"),
        (GOOD.replace(b"T05:00", b" 05:00"), "wrong_time_format"),
        (GOOD.replace(b"T05:00", b"T05:00:00"), "wrong_time_format"),
        (GOOD.replace(b"T05:00", b"T5:00"), "wrong_time_format"),
        (GOOD.replace(b"T05:00", b"T05:00Z"), "wrong_time_format"),
        (GOOD.replace(b"T05:00", b"T05:00\\n"), "wrong_time_format"),
        (GOOD.replace(b"2023", "\uff12\uff10\uff12\uff13".encode()), "wrong_time_format"),
        (GOOD.replace(b"01-01T", b"02-29T"), "no_such_date"),
        (GOOD.replace(b"01-01T", b"13-01T"), "no_such_date"),
        (GOOD.replace(b"T05:00", b"T24:00"), "no_such_date"),
        (GOOD.replace(b"2023", b"0000"), "no_such_date"),
    ],
)
def test_every_malformed_kind_has_its_own_reason(value: bytes | None, reason: str) -> None:
    assert rejection_of(value).reason == reason


def test_a_byte_order_mark_in_front_of_a_record_is_dropped() -> None:
    assert decode(b"\xef\xbb\xbf" + GOOD, temperatures.fields) == decode(GOOD, temperatures.fields)


def test_the_detail_names_the_field_and_what_was_expected() -> None:
    assert rejection_of(GOOD.replace(b"51.5", b"90.1")).detail == "'latitude' is '90.1', allowed is -90 to 90"
    assert rejection_of(GOOD.replace(b"10.4", b'"x"')).detail == "'temperature_2m' is text 'x', expected DOUBLE"
    assert rejection_of(b"{}").detail == "'latitude' is required"
    assert rejection_of(b'{"n":1,"n":2}').detail == "'n' occurs more than once"


def test_the_detail_of_a_long_value_is_short() -> None:
    assert len(rejection_of(GOOD.replace(b"10.4", b"9" * 100_000)).detail) <= 500
    assert len(rejection_of(b'{"' + b"n" * 9_000 + b'":1,"' + b"n" * 9_000 + b'":1}').detail) <= 500


def json_values(floats: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | floats | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    )


JSON = json_values(st.floats())
FINITE_JSON = json_values(st.floats(allow_nan=False, allow_infinity=False))


def verdict_of(value: bytes, fields: tuple[Field, ...]) -> str:
    """``row`` for a record with a value for each field, else the reason; its detail is valid text."""
    try:
        row = decode(value, fields)
    except Rejection as rejection:
        return rejection.reason if rejection.detail.encode("utf-8") else "no detail"
    return "row" if list(row) == [field.name for field in fields] else "fields are missing"


@pytest.mark.invariant("8.10")
@given(st.binary(max_size=200))
@example(b'{"latitude":1e999999999999999999999}')
def test_any_bytes_are_a_row_or_a_rejection(value: bytes) -> None:
    assert verdict_of(value, temperatures.fields) in VERDICTS


@pytest.mark.invariant("8.10")
@given(st.data())
def test_a_damaged_record_is_a_row_or_a_rejection(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, len(GOOD)))
    assert verdict_of(GOOD[:start] + data.draw(st.binary(max_size=6)) + GOOD[end:], temperatures.fields) in VERDICTS


@pytest.mark.invariant("8.10")
@given(JSON, st.sampled_from(TYPES))
def test_any_value_of_any_type_is_a_row_or_a_rejection(value: Any, type_: str) -> None:
    assert verdict_of(json.dumps({"n": value}).encode(), (field(type_),)) in VERDICTS


@pytest.mark.invariant("8.10")
@given(st.dictionaries(st.text(max_size=5), FINITE_JSON, min_size=1, max_size=3), st.data())
def test_a_record_cut_off_anywhere_is_truncated(record: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(record).encode()
    cut_off = text[: data.draw(st.integers(1, len(text) - 1))]
    assert rejection_of(cut_off).reason == "truncated"
