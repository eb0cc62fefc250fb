"""Values that are not in JSON's own form are read strictly: as declared, or the record is rejected."""

import subprocess
import sys
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from lakehouse.declaration import Avro, Column, FieldIs, RecordHeader, StreamTable, TextBoolean, TextNumber
from lakehouse.declaration.snapshot import differences, facts_of
from lakehouse.decoding.fast.plain_records import decode_plain
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.avro_schemas import writer_schema
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.judge import Rules
from lakehouse.decoding.records import decode
from lakehouse.decoding.verdicts import decode_values
from lakehouse.ingest.decode import _decoder

GERMAN = TextNumber(decimal=",", thousands=".", prefix="EUR ", trailing_sign=True)
PERCENT = TextNumber(suffix=" %")
FLAG = TextBoolean(true=["Y", "yes", 1], false=["N", "", 0])
WRONG = "wrong_type"


def decode_text(type_: str, text: str, **options: Any) -> Any:
    """The value of a column for a JSON text, or the reason why its record is rejected."""
    field = Column("n", type_, "A field.", **options).field
    try:
        return decode(f'{{"n":{text}}}'.encode(), (field,))["n"]
    except Rejection as rejection:
        return rejection.reason


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
    assert decode_text("TIMESTAMP", '"1769854530.5"', epoch="seconds", written="text") == time
    assert decode_text("TIMESTAMP", '"1769854530500"', epoch="milliseconds", written="text") == time
    assert decode_text("DATE", '"20484"', epoch="days", written="text") == date(2026, 1, 31)
    assert decode_text("TIMESTAMP", '"253402300800"', epoch="seconds", written="text") == "out_of_range"
    assert decode_text("TIMESTAMP", f'"{"9" * 5000}"', epoch="seconds", written="text") == "out_of_range"
    assert decode_text("TIMESTAMP", "1769854530", epoch="seconds", written="text") == WRONG


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
    options: Any = {"pattern": "%Y%m%d", "null_values": ("99991231",)}
    assert decode_text("DATE", text, written="number", **options) == value
    assert decode_text("DATE", text, written="text_or_number", **options) == value
    assert decode_text("DATE", '"20260131"', written="number", **options) == WRONG
    assert decode_text("DATE", '"20260131"', written="text_or_number", **options) == date(2026, 1, 31)
    assert decode_text("DATE", '"99991231"', written="text_or_number", **options) is None


def test_a_time_of_fourteen_digits_may_be_a_number() -> None:
    time = datetime(2026, 1, 31, 10, 15, 30, tzinfo=UTC)
    assert decode_text("TIMESTAMP", "20260131101530", pattern="%Y%m%d%H%M%S", written="number") == time


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
        *(('{"a":"\\ud800"}', "invalid_text"), ('{"\\udc00":1}', "invalid_text"), ('{"a":1,"a":2}', "duplicate_name")),
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
    def default_of(type_: str, written: Any, default: Any, **options: Any) -> Any:
        column = Column("n", type_, "A field.", written=written, default=default, **options)
        table = StreamTable("t", "t", "", [Column("id", "INT", "", required=True), column], ["id"])
        return table.decode(b'{"id":1}')["n"]

    assert default_of("DECIMAL(9,2)", GERMAN, "EUR 1.234,50") == Decimal("1234.50")
    assert default_of("INT", "text_or_number", 5) == 5
    assert default_of("BOOLEAN", FLAG, "N") is False
    assert default_of("DATE", "number", 20260131, pattern="%Y%m%d") == date(2026, 1, 31)
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


KEY = Column("id", "INT", "Which.", required=True, written="text")
COLUMNS = [
    Column("price", "DECIMAL(9,2)", "A number.", written=GERMAN),
    Column("paid", "BOOLEAN", "A flag.", written=FLAG),
    Column("day", "DATE", "A day.", pattern="%Y%m%d", written="number"),
    Column("rest", "STRING", "JSON.", written="json"),
    Column("total", "DECIMAL(9,2)", "A number.", written="connect"),
    Column("share", "DOUBLE", "A number.", source=RecordHeader("share"), written=PERCENT),
]
TABLE = StreamTable("t", "t", "", [KEY, *COLUMNS], ["id"], apply_as_deletes=FieldIs("op", ["d"]))
RECORD = b'{"id":"07","price":"EUR 1.234,50-","paid":"Y","day":20260131,"rest":{"a":[1.0]},"total":"AeJA"}'
ROW = {
    "id": 7,
    "price": Decimal("-1234.50"),
    "paid": True,
    "day": date(2026, 1, 31),
    "rest": '{"a":[1.0]}',
    "total": Decimal("1234.56"),
    "share": 5.5,
}


def test_a_record_becomes_a_row_and_a_delete_has_its_key() -> None:
    assert TABLE.decode(RECORD, headers={"share": b"5.5 %"}) == ROW
    delete = TABLE.decode(b'{"id":"07","op":"d"}')
    assert {name for name, value in delete.items() if value is not None} == {"id"}


WORKER = """
import pickle, sys
sys.modules["lakehouse"] = None  # an import of it fails
decode, values, headers = pickle.load(sys.stdin.buffer)
print([verdicts.to_pylist() for verdicts in decode(iter([(values, headers)]))])
"""


def test_a_worker_without_the_package_decodes_the_same_rows() -> None:
    decode_batches = _decoder(TABLE)
    parts = pa.array([RECORD, RECORD, b"{"], pa.binary()), pa.array([b"5.5 %", b"5.5", None], pa.binary())
    (local,) = decode_batches(iter([parts]))
    pickled_function = cloudpickle.dumps((decode_batches, *parts))
    process = subprocess.run([sys.executable, "-c", WORKER], input=pickled_function, capture_output=True, check=False)
    assert process.returncode == 0, process.stderr.decode()
    assert process.stdout.decode().strip() == repr([local.to_pylist()])
    assert [row["_reason"] for row in local.to_pylist()] == [None, "wrong_type", "truncated"]


def test_a_form_is_part_of_the_fingerprint_and_of_the_snapshot() -> None:
    def with_form(written: Any) -> StreamTable:
        return replace(TABLE, columns=[KEY, replace(COLUMNS[1], written=written)])

    forms: Sequence[Any] = [
        None,
        "text",
        FLAG,
        TextBoolean(["1"], ["0"]),
        TextBoolean([1], ["0"]),
        TextBoolean([True], ["0"]),
    ]
    assert len({with_form(form).fingerprint for form in forms}) == len(forms)
    equal_form = TextBoolean(true=("Y", "yes", 1), false=("N", "", 0))
    assert with_form(equal_form).fingerprint == with_form(FLAG).fingerprint
    assert facts_of(with_form(equal_form)) == facts_of(with_form(FLAG))
    (change,) = differences(facts_of(with_form(None)), facts_of(with_form("text")))
    assert change == ("column paid", "column paid: written was not set, is 'text'")
    assert repr(GERMAN) == "TextNumber(decimal=',', thousands='.', prefix='EUR ', trailing_sign=True)"
    assert repr(FLAG) == "TextBoolean(true=['Y', 'yes', 1], false=['N', '', 0])"


def test_avro_has_the_same_forms() -> None:
    import io
    import json

    import fastavro

    from lakehouse.decoding.formats.framing import add_frame

    inner = {"type": "record", "name": "I", "fields": [{"name": "a", "type": "double"}, {"name": "b", "type": "bytes"}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "string"}, {"name": "o", "type": inner}]}
    values = []
    for number, content in (("1.5", 0.5), ("x", 0.5), ("2", float("nan"))):
        buffer = io.BytesIO()
        record = {"n": number, "o": {"a": content, "b": b"\xff"}}
        fastavro.schemaless_writer(buffer, fastavro.parse_schema(json.loads(json.dumps(schema))), record)
        values.append(add_frame(1, buffer.getvalue()))
    parser = Avro().parser(Schemas({1: writer_schema(json.dumps(schema))}, {}))
    number_field = Column("n", "DECIMAL(9,2)", "", written="text").field
    json_field = Column("a", "STRING", "", source=("o", "a"), written="json").field
    whole_field = Column("o", "STRING", "", written="json").field
    for decoder in (decode_plain, None):
        rules = Rules((number_field, json_field), None, parser)
        rows = decode_values(pa.array(values, pa.binary()), None, rules, decoder).verdicts.to_pylist()
        assert [row["_reason"] for row in rows] == [None, "wrong_type", "not_finite"]
        assert (rows[0]["n"], rows[0]["a"]) == (Decimal("1.50"), "0.5")
        rules = Rules((whole_field,), None, parser)
        rows = decode_values(pa.array(values[:1], pa.binary()), None, rules, decoder).verdicts.to_pylist()
        assert (rows[0]["_reason"], rows[0]["_detail"]) == ("wrong_type", "'o' contains bytes, which JSON cannot write")


@pytest.mark.invariant("8.10")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", ["1" * 10**6, "0." + "0" * 10**6 + "1", "1.234" + ".567" * 10**5, "1e" + "9" * 10**6])
def test_a_megabyte_of_digits_is_read_quickly(text: str) -> None:
    """Time in proportion to the square of its length would stop a table for half an hour, at each new start."""
    for type_ in ("BIGINT", "DOUBLE", "DECIMAL(9,2)"):
        for form in ("text", TextNumber(decimal=",", thousands=".", suffix="x")):
            assert decode_text(type_, f'"{text}"', written=form) in (0, "out_of_range", WRONG)
    assert decode_text("STRING", f"[{text}]", written="json") in (
        "out_of_range",
        "invalid_json",
        f"[{text}]",
        "[1E-1000001]",
    )
    assert decode_text("DECIMAL(9,2)", f'"{text}"', written="connect") in ("out_of_range", WRONG)
