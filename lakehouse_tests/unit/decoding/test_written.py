"""Values that are not in JSON's own form are read strictly: as declared, or the record is rejected."""

from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakehouse.declaration import Column, StreamTable, TextBoolean, TextNumber, Time
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.records import decode
from lakehouse_tests.helpers.decoding.one_value import decode_text

GERMAN = TextNumber(decimal=",", thousands=".", prefix="EUR ", trailing_sign=True)
PERCENT = TextNumber(suffix=" %")
FLAG = TextBoolean(true=["Y", "yes", 1], false=["N", "", 0])
WRONG = "wrong_type"


@pytest.mark.invariant("13.1")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(('"12.5"', Decimal("12.50")), ('"-0.05"', Decimal("-0.05")), ('"+7"', Decimal("7.00"))),
        *(('"007"', Decimal("7.00")), ('".5"', Decimal("0.50")), ('"1e2"', Decimal("100.00"))),
        *(('"1.005"', Decimal("1.01")), ('"-1.005"', Decimal("-1.01")), ("null", None)),
        *((f'"{text}"', WRONG) for text in ("5.", "", " 5", "5 ", "1,5", "1_0", "0x1", "NaN", "Infinity", "--5", "5-")),
        *((f'"{text}"', WRONG) for text in ("5\\n", "\\u0665", "½", "\\ud800", "1e", "e5", ".", "+", "5 EUR")),
        *(
            ("5", WRONG),
            ("5.5", WRONG),
            ("true", WRONG),
            ("[]", WRONG),
            ("{}", WRONG),
            ("1e9999999999999999999", WRONG),
        ),
        *(
            ('"1e999999999"', "out_of_range"),
            ('"1e9999999999999999999"', "out_of_range"),
            ('"10000000"', "out_of_range"),
        ),
    ],
)
def test_a_number_as_text_is_a_sign_digits_a_fraction_and_an_exponent(text: str, value: Any) -> None:
    assert decode_text("DECIMAL(9,2)", text, written="text") == value
    assert decode_text("DECIMAL(9,2)", text, written=TextNumber()) == value


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        *(("INT", '"5.0"', 5), ("INT", '"5e1"', 50), ("INT", '"5.5"', WRONG), ("INT", '"2147483648"', "out_of_range")),
        *(("BIGINT", '"-9223372036854775808"', -(2**63)), ("BIGINT", '"9223372036854775808"', "out_of_range")),
        *(("DOUBLE", '"1e-400"', 0.0), ("DOUBLE", '"1e400"', "out_of_range"), ("DOUBLE", '"0.1"', 0.1)),
        *(("DECIMAL(38,0)", f'"{"9" * 38}"', Decimal("9" * 38)), ("DECIMAL(38,0)", f'"{"9" * 39}"', "out_of_range")),
        *(("BOOLEAN", '"true"', True), ("BOOLEAN", '"false"', False), ("BOOLEAN", '"True"', WRONG)),
        *(("BOOLEAN", "true", WRONG), ("BOOLEAN", '"1"', WRONG), ("BOOLEAN", "1", WRONG)),
    ],
)
def test_a_text_is_converted_like_a_number_or_a_boolean_of_json(type_: str, text: str, value: Any) -> None:
    assert decode_text(type_, text, written="text") == value


@pytest.mark.invariant("13.2")
def test_an_epoch_may_be_a_text() -> None:
    time = datetime(2026, 1, 31, 10, 15, 30, 500_000, tzinfo=UTC)
    assert decode_text("TIMESTAMP", '"1769854530.5"', written=Time(epoch="seconds", written="text")) == time
    assert decode_text("TIMESTAMP", '"1769854530500"', written=Time(epoch="milliseconds", written="text")) == time
    assert decode_text("DATE", '"20484"', written=Time(epoch="days", written="text")) == date(2026, 1, 31)
    assert decode_text("TIMESTAMP", '"253402300800"', written=Time(epoch="seconds", written="text")) == "out_of_range"
    assert decode_text("TIMESTAMP", f'"{"9" * 5000}"', written=Time(epoch="seconds", written="text")) == "out_of_range"
    assert decode_text("TIMESTAMP", "1769854530", written=Time(epoch="seconds", written="text")) == WRONG


@pytest.mark.parametrize("written", ["text_or_number", TextNumber(or_number=True)])
def test_a_field_may_have_texts_and_numbers(written: Any) -> None:
    for text in ('"2.5"', "2.5", "25e-1"):
        assert decode_text("DECIMAL(9,2)", text, written=written) == Decimal("2.50")
    assert decode_text("DECIMAL(9,2)", "true", written=written) == WRONG
    assert decode_text("DECIMAL(9,2)", "1e9999999999999999999", written=written) == "out_of_range"


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        *(
            (GERMAN, "EUR 1.234.567,891", "1234567.89"),
            (GERMAN, "EUR 1234567,5", "1234567.50"),
            (GERMAN, "EUR ,5", "0.50"),
        ),
        *((GERMAN, "EUR 12,50-", "-12.50"), (GERMAN, "-EUR 12,50", "-12.50"), (GERMAN, "EUR -12,50", "-12.50")),
        *((GERMAN, "EUR 12,50+", "12.50"), (PERCENT, "5 %", "5.00"), (PERCENT, "-1e2 %", "-100.00")),
        *((TextNumber(thousands="'"), "1'234.5", "1234.50"), (TextNumber(thousands="\xa0"), "12\xa0345", "12345.00")),
        *((TextNumber(prefix="$", thousands=","), "-$1,234.50", "-1234.50"), (TextNumber(decimal="·"), "1·5", "1.50")),
        *((GERMAN, text, None) for text in ("1.234,5", "EUR 1.23,5", "EUR 12.34", "EUR 1.234567,8", "EUR 1.234.56")),
        *((GERMAN, text, None) for text in ("EUR -1-", "-EUR -1", "EUR 1,5e3", "EUR 1.5", "eur 1", "EUR  1", "EUR 1 ")),
        *((GERMAN, text, None) for text in ("EUR 1,", "EUR .234", "EUR 1..234", "EUR 1234.567", "EUR ", "EUR -")),
        *(
            (PERCENT, "5", None),
            (PERCENT, "5%", None),
            (PERCENT, "5- %", None),
            (TextNumber(decimal=","), "1,5e3", None),
        ),
    ],
)
def test_a_number_has_the_declared_separators_in_their_places(form: TextNumber, text: str, value: str | None) -> None:
    expected = WRONG if value is None else Decimal(value)
    assert decode_text("DECIMAL(9,2)", f'"{text}"', written=form) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(('"Y"', True), ('"yes"', True), ("1", True), ("1.0", True), ('"N"', False), ('""', False), ("0", False)),
        *(
            ('"y"', WRONG),
            ('"1"', WRONG),
            ('"no"', WRONG),
            ("true", WRONG),
            ("2", WRONG),
            ("[1]", WRONG),
            ("null", None),
        ),
    ],
)
def test_a_boolean_is_one_of_the_listed_values(text: str, value: Any) -> None:
    assert decode_text("BOOLEAN", text, written=FLAG) is value or value == WRONG == decode_text(
        "BOOLEAN", text, written=FLAG
    )


@pytest.mark.invariant("13.2")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("20260131", date(2026, 1, 31)), ("20260230", "no_such_date"), ("2026013", "wrong_time_format")),
        *(
            ("20260131.0", "wrong_time_format"),
            ("2.0260131e7", date(2026, 1, 31)),
            ("-20260131", "wrong_time_format"),
        ),
        *(("99991231", None), ("true", WRONG), ("1e9999999999999999999", "out_of_range")),
    ],
)
def test_a_number_is_matched_against_a_pattern_of_digits(text: str, value: Any) -> None:
    number, either = (Time("%Y%m%d", written=form) for form in ("number", "text_or_number"))
    options: Any = {"null_values": ("99991231",)}
    assert decode_text("DATE", text, written=number, **options) == value
    assert decode_text("DATE", text, written=either, **options) == value
    assert decode_text("DATE", '"20260131"', written=number, **options) == WRONG
    assert decode_text("DATE", '"20260131"', written=either, **options) == date(2026, 1, 31)
    assert decode_text("DATE", '"99991231"', written=either, **options) is None


def test_a_time_of_fourteen_digits_may_be_a_number() -> None:
    time = datetime(2026, 1, 31, 10, 15, 30, tzinfo=UTC)
    assert decode_text("TIMESTAMP", "20260131101530", written=Time("%Y%m%d%H%M%S", written="number")) == time


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *(("5", "5"), ("-5", "-5"), ("9" * 5000, "9" * 5000), ("1.10", "1.10"), ("0.001", "0.001"), ("-0", "0")),
        *(("1e5", "1E+5"), ("1e-7", "1E-7"), ("0.0000001", "1E-7"), ("1.5e3", "1.5E+3"), ("-0.0", "-0.0")),
    ],
)
def test_a_number_becomes_a_text_with_every_digit(number: str, text: str) -> None:
    assert decode_text("STRING", number, written="number") == text
    assert decode_text("STRING", number, written="text_or_number") == text
    assert decode_text("STRING", f"[{number}]", written="json") == f"[{text}]"
    assert Decimal(text) == Decimal(number)


def test_a_text_is_only_kept_next_to_numbers_if_that_is_declared() -> None:
    assert decode_text("STRING", '"x"', written="text_or_number") == "x"
    assert decode_text("STRING", '"5"', written="number") == WRONG
    assert decode_text("STRING", '"\\ud800"', written="text_or_number") == "invalid_text"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('{ "b" : [1, 2.50, null, true] , "a":{} }', '{"b":[1,2.50,null,true],"a":{}}'),
        *(
            ('"x"', '"x"'),
            ("5", "5"),
            ("false", "false"),
            ("[ ]", "[]"),
            ("null", None),
            ('[[],{"a":[]}]', '[[],{"a":[]}]'),
        ),
        ('{"\\u00e9":"\\n\\/\\u0001\\"\\\\ \\ud83d\\ude00"}', '{"é":"\\n/\\u0001\\"\\\\ 😀"}'),
        *(
            ('{"a":"\\ud800"}', '{"a":"\\ud800"}'),
            ('{"\\udc00":1}', '{"\\udc00":1}'),
            ('{"a":1,"a":2}', "duplicate_name"),
        ),
        *(("[1e9999999999999999999]", "out_of_range"), ("[" * 500 + "]" * 500, "[" * 500 + "]" * 500)),
        ("[" * 100_000 + "]" * 100_000, "invalid_json"),
    ],
    ids=lambda text: str(text)[:30],
)
def test_a_json_value_becomes_its_compact_text(value: str, text: str | None) -> None:
    assert decode_text("STRING", value, written="json") == text


def unscaled(units: int, size: int) -> str:
    return b64encode(units.to_bytes(size, "big", signed=True)).decode()


@pytest.mark.invariant("13.1")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((f'"{unscaled(123_456, 3)}"', "1234.56"), (f'"{unscaled(-1, 1)}"', "-0.01"), (f'"{unscaled(0, 1)}"', "0.00")),
        *((f'"{unscaled(5, 16)}"', "0.05"), (f'{{"scale":3,"value":"{unscaled(12_345, 2)}"}}', "12.35")),
        *((f'{{"value":"{unscaled(12, 1)}","scale":-2}}', "1200.00"), (f'"{unscaled(10**9, 4)}"', "out_of_range")),
        *((f'"{unscaled(1, 65)}"', "out_of_range"), ('""', "out_of_range"), ('"12.50"', WRONG), ('"AQ"', WRONG)),
        *(
            ("12.5", WRONG),
            ('{"scale":2}', WRONG),
            ('{"scale":2,"value":5}', WRONG),
            ('{"scale":"2","value":"AQ=="}', WRONG),
        ),
        *(('{"scale":2,"value":"AQ==","x":1}', WRONG), ('{"scale":1.5,"value":"AQ=="}', WRONG), ("[]", WRONG)),
        *(('{"scale":1001,"value":"AQ=="}', WRONG), ('{"scale":2,"value":"?"}', WRONG), ("null", None)),
    ],
)
def test_a_decimal_of_connect_is_its_unscaled_bytes(text: str, value: str | None) -> None:
    expected = value if value in (None, WRONG, "out_of_range") else Decimal(str(value))
    assert decode_text("DECIMAL(9,2)", text, written="connect") == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("7", 7), ("-1", 2**64 - 1), ("-9223372036854775808", 2**63), ("18446744073709551615", 2**64 - 1)),
        *(
            (f'"{unscaled(2**64 - 1, 9)}"', 2**64 - 1),
            ("-0.5", "-1"),
            ("null", None),
            ("-9223372036854775809", -(2**63) - 1),
        ),
        *(('"x"', WRONG), ("true", WRONG), ("{}", WRONG), ("1e30", "out_of_range")),
        *(('"1234"', 1234), ('"-1"', 2**64 - 1), ('"12.5"', 13), ('"1234,1"', WRONG), ('"1230"', 1230)),
        (f'"{unscaled(-7, 2)}"', WRONG),
    ],
)
def test_an_unsigned_number_has_the_bits_of_a_number_with_a_sign(text: str, value: Any) -> None:
    expected = value if value in (None, WRONG, "out_of_range") else Decimal(value)
    assert decode_text("DECIMAL(20,0)", text, written="unsigned") == expected


@pytest.mark.parametrize(
    ("type_", "options", "text"),
    [
        *(("INT", {"written": "text"}, '"0"'), ("INT", {"written": "text_or_number"}, "0")),
        *(
            ("BOOLEAN", {"written": FLAG}, "0"),
            ("STRING", {"written": "number"}, "0"),
            ("STRING", {"written": "json"}, "0"),
        ),
        *(("STRING", {"written": "json"}, '"n/a"'), ("DECIMAL(9,2)", {"written": "connect"}, '"n/a"')),
        ("DECIMAL(9,2)", {"written": GERMAN}, '"n/a"'),
    ],
)
def test_null_values_are_compared_with_the_value_as_it_was_written(type_: str, options: Any, text: str) -> None:
    assert decode_text(type_, text, null_values=("0", "n/a"), **options) is None
    assert decode_text(type_, text, null_values=("0", "n/a"), required=True, **options) == "null_field"


def test_a_default_is_written_as_a_record_would_contain_it() -> None:
    def default_of(type_: str, written: Any, default: Any) -> Any:
        column = Column("n", type_, "A field.", written=written, default=default)
        table = StreamTable("t", "t", "", [Column("id", "INT", "", required=True), column], ["id"])
        return table.decode(b'{"id":1}')["n"]

    assert default_of("DECIMAL(9,2)", GERMAN, "EUR 1.234,50") == Decimal("1234.50")
    assert default_of("INT", "text_or_number", 5) == 5
    assert default_of("BOOLEAN", FLAG, "N") is False
    assert default_of("DATE", Time("%Y%m%d", written="number"), 20260131) == date(2026, 1, 31)
    assert default_of("STRING", "json", "x") == '"x"'
    assert default_of("DECIMAL(9,2)", "connect", "AeJA") == Decimal("1234.56")


def test_bounds_apply_to_the_number_that_a_text_writes() -> None:
    assert decode_text("INT", '"9"', written="text", between=(0, 9)) == 9
    assert decode_text("INT", '"10"', written="text", between=(0, 9)) == "out_of_range"


def test_a_rejection_names_the_field_the_value_and_the_form() -> None:
    field = Column("n", "INT", "A field.", source=("o", "n"), written="text").field
    with pytest.raises(Rejection) as rejected:
        decode(b'{"o":{"n":5}}', (field,))
    assert rejected.value.detail == "'o.n' is a number '5', expected INT with written='text'"
