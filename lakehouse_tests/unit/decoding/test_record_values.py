"""Strict decoding of one value: numbers, times and texts are exact, or their record is rejected."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, Time
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.records import decode
from lakehouse.decoding.values import convert
from lakehouse_tests.helpers.decoding.strict_decoding import field, rejection_of, value_of


@pytest.mark.invariant("8.10")
def test_half_a_surrogate_pair_is_invalid_text() -> None:
    for text in (b"\\ud800", b"x\\udfff"):
        assert rejection_of(b'{"n":"' + text + b'"}', (field("STRING"),)).reason == "invalid_text"
    assert value_of('"\\ud83c\\udf21"', "STRING") == "\U0001f321"


@pytest.mark.invariant("13.1")
@pytest.mark.parametrize(
    ("text", "rounded_text"),
    [
        ("-0.099990845", "-0.099991"),
        ("77.600006", "77.600006"),
        ("0.0000005", "0.000001"),
        ("-0.0000005", "-0.000001"),
        ("0.0000015", "0.000002"),
        ("0.00000049999999999999999999999999999999999", "0.000000"),
        ("1e-6", "0.000001"),
        ("5e-7", "0.000001"),
        ("1e-999999999", "0.000000"),
        ("13", "13.000000"),
        ("-0.0", "0.000000"),
        ("-0.0000001", "0.000000"),
    ],
)
def test_decimals_are_rounded_half_up_away_from_zero(text: str, rounded_text: str) -> None:
    assert str(value_of(text, "DECIMAL(9,6)")) == rounded_text


@pytest.mark.invariant("13.1")
def test_a_decimal_that_rounds_beyond_its_precision_is_out_of_range() -> None:
    assert value_of("999.9999994", "DECIMAL(9,6)") == Decimal("999.999999")
    assert rejection_of(b'{"n":999.9999995}', (field("DECIMAL(9,6)"),)).reason == "out_of_range"


@pytest.mark.parametrize(
    ("type_", "minimum", "maximum"), [("INT", -(2**31), 2**31 - 1), ("BIGINT", -(2**63), 2**63 - 1)]
)
def test_whole_numbers_end_at_the_bounds_of_their_type(type_: str, minimum: int, maximum: int) -> None:
    assert value_of(str(minimum), type_) == minimum
    assert value_of(str(maximum), type_) == maximum
    for outside_value in (minimum - 1, maximum + 1, "9" * 5_000):
        assert rejection_of(f'{{"n":{outside_value}}}'.encode(), (field(type_),)).reason == "out_of_range"


def test_a_whole_number_may_be_written_with_a_fraction_of_zero_only() -> None:
    assert [value_of(text, "BIGINT") for text in ("1.0", "1e2", "-0.0")] == [1, 100, 0]
    assert rejection_of(b'{"n":1.5}', (field("BIGINT"),)).reason == "wrong_type"


@pytest.mark.parametrize("type_", ["INT", "BIGINT", "DOUBLE", "DECIMAL(9,6)"])
def test_true_is_not_a_number_and_one_is_not_true(type_: str) -> None:
    assert rejection_of(b'{"n":true}', (field(type_),)).reason == "wrong_type"
    assert rejection_of(b'{"n":1}', (field("BOOLEAN"),)).reason == "wrong_type"
    assert value_of("true", "BOOLEAN") is True


def test_zero_has_no_sign() -> None:
    assert str(value_of("-0.0", "DOUBLE")) == "0.0"


@pytest.mark.invariant("13.1", "13.2")
def test_values_of_base_files_pass_the_same_rules() -> None:
    day = datetime(2023, 1, 1, 5)
    assert convert({"n": day}, (field("TIMESTAMP"),))["n"] == day.replace(tzinfo=UTC)
    assert convert({"n": date(2023, 1, 1)}, (field("DATE"),))["n"] == date(2023, 1, 1)
    assert convert({"n": -0.099990845}, (field("DECIMAL(9,6)"),))["n"] == Decimal("-0.099991")
    for raw, type_, reason in [
        (float("nan"), "DOUBLE", "not_finite"),
        (Decimal("Infinity"), "DECIMAL(9,6)", "not_finite"),
        (day, "DATE", "wrong_type"),
        (date(2023, 1, 1), "TIMESTAMP", "wrong_type"),
        (b"bytes", "STRING", "wrong_type"),
    ]:
        with pytest.raises(Rejection) as rejected:
            convert({"n": raw}, (field(type_),))
        assert rejected.value.reason == reason


@pytest.mark.invariant("13.3")
def test_a_date_is_parsed_by_its_pattern() -> None:
    assert value_of('"2023-02-28"', "DATE") == date(2023, 2, 28)
    assert rejection_of(b'{"n":"2023-02-29"}', (field("DATE"),)).reason == "no_such_date"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_decoded_unchanged(number: float) -> None:
    assert value_of(repr(number), "DOUBLE") == number


@pytest.mark.invariant("13.2")
@given(st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)))
def test_every_minute_is_decoded_unchanged(time: datetime) -> None:
    minute = time.replace(second=0, microsecond=0)
    decoded_time = value_of(json.dumps(minute.strftime("%Y-%m-%dT%H:%M")), "TIMESTAMP")
    assert decoded_time == minute.replace(tzinfo=UTC)
    assert decoded_time.utcoffset() == timedelta(0)


@pytest.mark.parametrize("number", ["1e99999999999999999999", "-1e99999999999999999999", "1e-99999999999999999999"])
@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        *[(type_, "out_of_range") for type_ in ("INT", "BIGINT", "DOUBLE", "DECIMAL(9,6)")],
        *[(type_, "wrong_type") for type_ in ("STRING", "BOOLEAN", "TIMESTAMP")],
    ],
)
def test_a_huge_exponent_is_ignored_in_an_unmapped_field_and_reported_in_a_declared_one(
    number: str, type_: str, reason: str
) -> None:
    fields = (Column("n", type_, "A field.", source="f", written=Time("%Y" if type_ == "TIMESTAMP" else None)).field,)
    for value in (number, f"[{number}]", f'{{"f":{number}}}'):
        assert decode(f'{{"other":{value}}}'.encode(), fields) == {"n": None}
    with pytest.raises(Rejection) as rejected:
        decode(f'{{"f":{number}}}'.encode(), fields)
    assert rejected.value.reason == reason
    assert "'f'" in rejected.value.detail
    assert number in rejected.value.detail


@pytest.mark.invariant("13.2")
@pytest.mark.parametrize(
    ("text", "epoch", "expected"),
    [
        ("1767225600", "seconds", "2026-01-01T00:00:00+00:00"),
        ("1767225600.1234565", "seconds", "2026-01-01T00:00:00.123457+00:00"),
        ("1767225600000", "milliseconds", "2026-01-01T00:00:00+00:00"),
        ("1767225600000.5", "milliseconds", "2026-01-01T00:00:00.000500+00:00"),
        ("1767225600000001", "microseconds", "2026-01-01T00:00:00.000001+00:00"),
        ("-1.5e-6", "seconds", "1969-12-31T23:59:59.999998+00:00"),
        ("1767225600123456789", "nanoseconds", "2026-01-01T00:00:00.123457+00:00"),
        ("1767225600123456499", "nanoseconds", "2026-01-01T00:00:00.123456+00:00"),
        ("-500", "nanoseconds", "1969-12-31T23:59:59.999999+00:00"),
        ("253402300799999999499", "nanoseconds", "9999-12-31T23:59:59.999999+00:00"),
        ("20454", "days", "2026-01-01"),
        ("-1", "days", "1969-12-31"),
    ],
)
def test_a_number_with_an_epoch_is_a_time_since_1970(text: str, epoch: Any, expected: str) -> None:
    time_field = Column("n", "DATE" if epoch == "days" else "TIMESTAMP", "A time.", written=Time(epoch=epoch)).field
    assert decode(b'{"n":' + text.encode() + b"}", (time_field,))["n"].isoformat() == expected


@pytest.mark.parametrize(
    ("text", "epoch", "reason"),
    [
        ('"1767225600"', "seconds", "wrong_type"),
        ("true", "seconds", "wrong_type"),
        ("253402300800", "seconds", "out_of_range"),
        ("1767225600000", "seconds", "out_of_range"),
        ("1e99", "microseconds", "out_of_range"),
        ("253402300799999999500", "nanoseconds", "out_of_range"),
        ("1e999999999", "nanoseconds", "out_of_range"),
        ("1.5", "days", "wrong_type"),
        ("2932897", "days", "out_of_range"),
    ],
)
def test_a_value_that_is_not_a_time_since_1970_is_rejected(text: str, epoch: Any, reason: str) -> None:
    time_field = Column("n", "DATE" if epoch == "days" else "TIMESTAMP", "A time.", written=Time(epoch=epoch)).field
    assert rejection_of(b'{"n":' + text.encode() + b"}", (time_field,)).reason == reason


@pytest.mark.parametrize("text", ['"n/a"', '""', "-999", "-999.0", '"-999"'])
def test_a_null_value_is_null(text: str) -> None:
    null_values = ("", "n/a", "-999")
    assert decode(f'{{"n":{text}}}'.encode(), (field("DOUBLE", null_values=null_values),)) == {"n": None}
    assert decode(f'{{"n":{text}}}'.encode(), (field("INT", null_values=null_values, default=5),)) == {"n": 5}
    required_field = field("INT", null_values=null_values, required=True)
    assert rejection_of(f'{{"n":{text}}}'.encode(), (required_field,)).reason == "null_field"


@pytest.mark.parametrize("text", ['"N/A"', "999", "true", "[]", '" "'])
def test_a_value_that_is_not_a_null_value_is_kept(text: str) -> None:
    rejection = rejection_of(f'{{"n":{text}}}'.encode(), (field("DATE", null_values=("n/a", "1")),))
    assert rejection.reason in ("wrong_type", "wrong_time_format")


@pytest.mark.parametrize("value", [b"{}", b'{"n":null}'])
def test_a_default_replaces_a_missing_or_null_value(value: bytes) -> None:
    assert decode(value, (field("INT", default=5),))["n"] == 5
    assert decode(value, (field("DECIMAL(9,6)", default=0.1),))["n"] == Decimal("0.100000")
    assert decode(value, (field("DATE", default="2026-01-01"),))["n"] == date(2026, 1, 1)
    assert decode(b'{"n":7}', (field("INT", default=5),))["n"] == 7


def test_a_double_that_is_a_null_value_is_null_in_columns_and_in_arrays() -> None:
    options: dict[str, Any] = {"null_values": ("-99.9", "9.96921e+36")}
    fields = (Column("v", "DOUBLE", "", **options).field, Column("l", "ARRAY<DOUBLE>", "", **options).field)
    assert convert({"v": -99.9, "l": [9.96921e36, 1.5]}, fields) == {"v": None, "l": [None, 1.5]}
