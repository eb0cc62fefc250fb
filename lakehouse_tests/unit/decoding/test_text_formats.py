"""Bare texts, and what all formats of texts have in common: both paths agree, and so do writer and parser."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.declaration import Column, Csv, Logfmt, Text, Time
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import UnwritableError
from lakehouse.decoding.rules import Rules
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.decoded_rows import count_plain, rows_of, verdict_of
from lakehouse_tests.helpers.tables.written import EDGES, NUMBERS
from lakehouse_tests.helpers.tables.written_texts import NULL_VALUES, ODD_TEXTS, spoiled, text_columns, texts

UNHURRIED = settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck), database=None)


NUMBER = rows_of(Text(), Column("celsius", "DOUBLE", "Degrees.", source="value"))
STATE = rows_of(Text(), Column("value", "STRING", "On or off."))


@pytest.mark.parametrize(
    ("value", "celsius"),
    [(b"21.5", 21.5), (b"-3", -3.0), (b"2e1", 20.0), (b"\xef\xbb\xbf21.5", 21.5), (b"0.1000", 0.1), (b"-0", 0.0)],
)
def test_a_bare_number_is_read_by_the_type_of_its_column(value: bytes, celsius: float) -> None:
    assert verdict_of(NUMBER, value) == {"celsius": celsius}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "tombstone"),
        (b"", "empty_value"),
        (b"\xef\xbb\xbf", "empty_value"),
        (b"\xff", "invalid_utf8"),
        (b" 21.5", "wrong_type"),
        (b"21.5\n", "wrong_type"),
        (b"021", "wrong_type"),
        (b"21,5", "wrong_type"),
        (b"NaN", "wrong_type"),
        (b"on", "wrong_type"),
        (b'"21.5"', "wrong_type"),
        (b"1e400", "out_of_range"),
        (b"1e999999999999999999999", "out_of_range"),
        (b"9" * 1_000_000, "out_of_range"),
    ],
)
def test_a_text_that_is_not_exactly_a_number_is_rejected(value: bytes | None, reason: str) -> None:
    assert verdict_of(NUMBER, value)[0] == reason


def test_a_text_is_the_whole_value_as_it_is() -> None:
    for text in ("on", " on\n", "{", '"on"', "null", "a,b=c", "\x00", "\ufeff\ufeff"[1:] + "x"):
        assert verdict_of(STATE, f"\ufeff{text}".encode()) == {"value": text}


def test_booleans_decimals_and_times_are_read_from_texts() -> None:
    at = Column("at", "TIMESTAMP", "When.", source="value", written=Time(epoch="seconds"))
    assert verdict_of(rows_of(Text(), at), b"1767225600") == {"at": datetime(2026, 1, 1, tzinfo=UTC)}
    day = Column("at", "TIMESTAMP", "When.", source="value", written=Time("%Y"))
    assert verdict_of(rows_of(Text(), day), b"2026") == {"at": datetime(2026, 1, 1, tzinfo=UTC)}
    flag = rows_of(Text(), Column("value", "BOOLEAN", "A flag.", null_values=("n/a",)))
    assert [verdict_of(flag, value) for value in (b"true", b"false", b"n/a")] == [
        {"value": True},
        {"value": False},
        {"value": None},
    ]
    assert verdict_of(flag, b"True")[0] == "wrong_type"


def test_numbers_are_plain() -> None:
    assert count_plain([b"%d.25" % number for number in range(100)], NUMBER.rules()) == 100


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("type_", [*NUMBERS, "STRING", "BOOLEAN", "DATE", "TIMESTAMP"])
@pytest.mark.parametrize("options", [{}, {"required": True}, {"null_values": NULL_VALUES}], ids=str)
def test_every_odd_text_has_equal_results(type_: str, options: dict[str, Any]) -> None:
    formats: dict[str, list[Time | None]] = {
        "DATE": [Time("%Y-%m-%d"), Time(epoch="days")],
        "TIMESTAMP": [Time("%Y-%m-%dT%H:%M"), Time(epoch="seconds"), Time(epoch="microseconds")],
    }
    for time_format in formats.get(type_, [None]):
        column = Column("value", type_, "A text.", written=time_format, **options)
        values: list[bytes | None] = [text.encode() for text in (*EDGES, *ODD_TEXTS)]
        reasons = {row["_reason"] for row in rows_twice(values, rows_of(Text(), column).rules())}
        assert len(reasons) > 1 or type_ == "STRING"


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[bytes | None], Rules]:
    columns = [draw(text_columns(f"c{number}")) for number in range(draw(st.integers(1, 4)))]
    form = draw(st.sampled_from([Text(), Logfmt(), Csv([column.name for column in columns])]))
    if form == Text():
        columns = [replace(columns[0], source="value")]
        values = texts(columns[0]).map(str.encode)
    else:
        rows = st.fixed_dictionaries({column.name: st.none() | texts(column) for column in columns})
        values = rows.map(lambda row: form.writer()(json.dumps(row if any(row.values()) else {"c0": "x"}).encode()))
    fields = tuple(column.field.in_texts(is_text=True) for column in columns)
    return draw(st.lists(spoiled(values), min_size=1, max_size=6)), Rules(fields, None, form.parser())


@pytest.mark.invariant("8.10")
def test_generated_and_damaged_texts_of_every_type_have_equal_results() -> None:
    seen_reasons: set[str | None] = set()

    @UNHURRIED
    @given(batches())
    def compare(batch: tuple[list[bytes | None], Rules]) -> None:
        seen_reasons.update(row["_reason"] for row in rows_twice(*batch))

    compare()
    assert None in seen_reasons and len(seen_reasons) > 5


FIELDS = st.fixed_dictionaries(dict.fromkeys(["id", "name", "price"], st.none() | st.text()))


@UNHURRIED
@given(FIELDS, st.sampled_from(",\t;|x"))
def test_what_a_writer_writes_is_read_again(fields: dict[str, str | None], delimiter: str) -> None:
    line = json.dumps(fields).encode()
    csv = Csv([*fields], delimiter=delimiter)
    assert csv.parser()(csv.writer()(line)) == fields
    present_fields = {name: text for name, text in fields.items() if text is not None}
    if present_fields:
        assert Logfmt().parser()(Logfmt().writer()(line)) == present_fields
    if fields["name"]:
        value = Text().writer()(json.dumps({"value": fields["name"]}).encode())
        assert Text().parser()(value) == {"value": fields["name"]}


@pytest.mark.parametrize(
    ("form", "line", "value"),
    [
        (Text(), b'{"value": 21.50}', b"21.50"),
        (Text(), b'{"value": true}', b"true"),
        (Csv(["a", "b", "c"]), b'{"c": 1.50, "a": "x,y"}', b'"x,y",,1.50'),
        (Csv(["a"], delimiter="\t"), b'{"a": false}', b"false"),
        (Logfmt(), b'{"a": "x y", "b": null, "c": 10, "d": ""}', b'a="x y" c=10 d='),
    ],
)
def test_a_line_of_json_becomes_a_value(form: Format, line: bytes, value: bytes) -> None:
    assert form.writer()(line) == value


@pytest.mark.parametrize(
    ("form", "line", "message"),
    [
        (Text(), b"{}", "'value' is missing, null or empty"),
        (Text(), b'{"value": [1]}', "'value' is an array, expected a text"),
        (Text(), b'{"value": 1, "unit": "C"}', "it has the field 'unit', but the format only has value"),
        (Text(), b"21.5", "the value is a number, not an object"),
        (Csv(["a", "b"]), b'{"d": 1}', "it has the field 'd', but the format only has a, b"),
        (Csv(["a"]), b'{"a": {}}', "'a' is an object"),
        (Csv(["a"], encoding="latin-1"), '{"a": "€"}'.encode(), r"latin-1 cannot write '\\u20ac'"),
        (Logfmt(), b'{"a b": 1}', "'a b' cannot be a key of logfmt"),
        (Logfmt(), b'{"a": null}', "it has no value that is not null"),
        (Logfmt(), b'{"a": "\\ud800"}', r"utf-8 cannot write '\\ud800'"),
    ],
)
def test_a_line_that_a_format_cannot_write_is_refused(form: Format, line: bytes, message: str) -> None:
    with pytest.raises(UnwritableError, match=message):
        form.writer()(line)
