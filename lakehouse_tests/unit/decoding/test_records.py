"""Strict decoding of a record: every malformed kind has its own reason, and no other error ever occurs."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.declaration import BrokerTime, Column, RecordHeader, RecordKey, StreamTable
from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.records import decode
from lakehouse.decoding.values import convert
from lakehouse.examples.tables.temperatures import temperatures

settings.register_profile("untimed", deadline=None)  # a busy machine is not a defect of a record
settings.load_profile("untimed")

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
GOOD = b'{"latitude":51.5,"longitude":-0.099990845,"time":"2023-01-01T05:00","temperature_2m":10.4}'
TYPES = ("STRING", "BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL(9,6)", "DATE", "TIMESTAMP")


def field(type_: str, **changes: Any) -> Field:
    pattern = {"DATE": "%Y-%m-%d", "TIMESTAMP": "%Y-%m-%dT%H:%M"}.get(type_)
    return Column("n", type_, "A field.", pattern=pattern, **changes).field


def value_of(text: str, type_: str) -> Any:
    return decode(b'{"n":' + text.encode() + b"}", (field(type_),))["n"]


def rejection_of(value: bytes | None, fields: tuple[Field, ...] = temperatures.fields) -> Rejection:
    with pytest.raises(Rejection) as rejected:
        decode(value, fields)
    return rejected.value


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
        (b"\xef\xbb\xbf" + GOOD, "invalid_json"),
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


@pytest.mark.invariant("8.10")
def test_half_a_surrogate_pair_is_invalid_text() -> None:
    for text in (b"\\ud800", b"x\\udfff"):
        assert rejection_of(b'{"n":"' + text + b'"}', (field("STRING"),)).reason == "invalid_text"
    assert value_of('"\\ud83c\\udf21"', "STRING") == "\U0001f321"


def test_the_detail_names_the_field_and_what_was_expected() -> None:
    assert rejection_of(GOOD.replace(b"51.5", b"90.1")).detail == "'latitude' is '90.1', allowed is -90 to 90"
    assert rejection_of(GOOD.replace(b"10.4", b'"x"')).detail == "'temperature_2m' is text 'x', expected DOUBLE"
    assert rejection_of(b"{}").detail == "'latitude' is required"
    assert rejection_of(b'{"n":1,"n":2}').detail == "'n' occurs more than once"


def test_the_detail_of_a_long_value_is_short() -> None:
    assert len(rejection_of(GOOD.replace(b"10.4", b"9" * 100_000)).detail) <= 500
    assert len(rejection_of(b'{"' + b"n" * 9_000 + b'":1,"' + b"n" * 9_000 + b'":1}').detail) <= 500


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


@pytest.mark.invariant("13.1")
@given(st.decimals(-999, 999, allow_nan=False, places=9))
def test_rounding_equals_decimal_round_half_up(number: Decimal) -> None:
    expected = number.quantize(Decimal("0.000001"), ROUND_HALF_UP)
    assert value_of(f"{number:f}", "DECIMAL(9,6)") == expected


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
    fields = (Column("n", type_, "A field.", source="f", pattern="%Y" if type_ == "TIMESTAMP" else None).field,)
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
        ("20454", "days", "2026-01-01"),
        ("-1", "days", "1969-12-31"),
    ],
)
def test_a_number_with_an_epoch_is_a_time_since_1970(text: str, epoch: Any, expected: str) -> None:
    time_field = Column("n", "DATE" if epoch == "days" else "TIMESTAMP", "A time.", epoch=epoch).field
    assert decode(b'{"n":' + text.encode() + b"}", (time_field,))["n"].isoformat() == expected


@pytest.mark.parametrize(
    ("text", "epoch", "reason"),
    [
        ('"1767225600"', "seconds", "wrong_type"),
        ("true", "seconds", "wrong_type"),
        ("253402300800", "seconds", "out_of_range"),
        ("1767225600000", "seconds", "out_of_range"),
        ("1e99", "microseconds", "out_of_range"),
        ("1.5", "days", "wrong_type"),
        ("2932897", "days", "out_of_range"),
    ],
)
def test_a_value_that_is_not_a_time_since_1970_is_rejected(text: str, epoch: Any, reason: str) -> None:
    time_field = Column("n", "DATE" if epoch == "days" else "TIMESTAMP", "A time.", epoch=epoch).field
    assert rejection_of(b'{"n":' + text.encode() + b"}", (time_field,)).reason == reason


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
        (b"\xff", "invalid_utf8", "'key of the record': byte 0 is not UTF-8"),
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
