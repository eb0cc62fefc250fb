"""A proposed declaration fits the records that it is made from, and warns about what they cannot show."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.declaration import Column, StreamTable
from lakehouse.declaration.inference.proposal import propose
from lakehouse.decoding.records import parse
from lakehouse.decoding.values import convert
from lakehouse.examples.samples import TemperatureSamples
from lakehouse_tests.helpers.proposals import infer, types

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
TIMES = st.datetimes().map(lambda time: time.strftime("%Y-%m-%dT%H:%M:%SZ"))
NAMES = (
    st.sampled_from(["id", "eventId", "event_id", "at", "Price", "class", "x y", "_y", "é", "order_id", "1st"])
    | st.text()
)
OBJECTS = st.dictionaries(NAMES, SCALARS | TIMES | st.lists(SCALARS, max_size=2) | st.dictionaries(NAMES, SCALARS))


@example([{"id": 1e300}])
@example([{"at": 5e-324}, {"at": 1.5}])
@example([{"at": 1.0000000000000000000000000000000000001e-30}, {"at": 100.5}])
@example([{"id": 1, "text": "\ud800"}])
@given(st.lists(OBJECTS | SCALARS, max_size=6))
def test_every_object_fits_the_proposed_table(objects: list[Any]) -> None:
    values = [json.dumps(content).encode() for content in objects]
    proposal = propose(values)
    assert proposal.unread == sum(not isinstance(content, dict) for content in objects)
    if not proposal.key:
        return
    table = StreamTable("t", "t", "", proposal.columns, proposal.key)
    for value, content in zip(values, objects, strict=True):
        if isinstance(content, dict):
            table.decode(value)


def test_the_proposal_for_the_sample_weather_is_its_declaration_without_the_key() -> None:
    proposal = propose(TemperatureSamples().stream())
    assert types(proposal) == {
        "latitude": "DOUBLE",
        "longitude": "DOUBLE",
        "time": "TIMESTAMP",
        "temperature_2m": "DOUBLE",
    }
    pattern, required_names = (
        {c.name: c.time.pattern for c in proposal.columns},
        {c.name for c in proposal.columns if c.required},
    )
    assert pattern["time"] == "%Y-%m-%dT%H:%M"
    assert required_names == {"latitude", "longitude", "time"}
    assert (proposal.key, proposal.month_of) == ((), None)
    assert any("No field that every record has is named as an id" in warning for warning in proposal.warnings)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([True, False], "BOOLEAN"),
        ([1, -(2**62)], "BIGINT"),
        ([1, 2**63], "DECIMAL(38,0)"),
        ([1, 2.5], "DOUBLE"),
        (["2026-01-01", "2026-02-28"], "DATE"),
        (["2026-01-01", "2026-02-30"], "STRING"),
        (["2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.123456Z"], "TIMESTAMP"),
        (["2026-01-01T00:00:00Z", "2026-01-01T00:00:00"], "TIMESTAMP"),
        (["a", "1"], "STRING"),
        ([["a"], [], [None]], "ARRAY<STRING>"),
        ([{f"user_{n}": 1.5} for n in range(9)], "MAP<STRING, DOUBLE>"),
        ([[{f"user_{n}": 1} for n in range(3_000)]], "ARRAY<MAP<STRING, BIGINT>>"),
        ([[{"n": 1, "on": "2026-01-01"}], [{"n": None}, None]], "ARRAY<STRUCT<n: BIGINT, on: STRING>>"),
    ],
)
def test_the_type_fits_all_values(values: list[Any], type_: str) -> None:
    assert types(infer(*({"id": n, "it": value} for n, value in enumerate(values))))["it"] == type_


@pytest.mark.parametrize(
    ("field", "values", "warning_part"),
    [
        ("it", [1, "1"], "contains numbers and strings"),
        ("it", [{}, {}], "Field 'it' is left out: it is always empty."),
        ("it", [["a"], [1]], "contains arrays"),
        ("it", [[{"a": 1, "b": None, "A": 2, "c-d": 3}]], "valid in a struct: 'it[].A', 'it[].c-d'."),
        ("it", [[{"a": 1, "b": None, "c": {}}]], "are always null or empty: 'it[].b', 'it[].c'."),
        ("it", [[{"a: INT, b": "secret"}]], "contains arrays"),
        ("it", [json.loads("[" * 400 + "]" * 400)], "contains arrays"),
        ("it", [{"a": 1}, 5], "contains numbers and objects"),
        ("it", [None, None], "always null"),
        ("Ж", [1, 2], "its name cannot become the name of a column"),
        ("seen_at", [1767225600, 1767225601], "in seconds since 1970"),
        ("seen_at", [1767225600123, 1767225601123], "in milliseconds since 1970"),
        ("seen_at", [1767225600123456], "in microseconds since 1970"),
        ("seen_at", [1767225600123456789], "in nanoseconds since 1970, and is rounded to microseconds"),
        ("it", ["2026-01-01T00:00:00.1234567Z"], "it: fractions of more than 6 digits are rounded"),
        ("it", ["2026-01-01T00:00:00"], "it: times without an offset are read as UTC"),
        ("it", ["2026-01-01T00:00:00+02:00", "2026-01-01"], "it: times without an offset are read as UTC"),
        ("it", [1.5, 2.5], "DECIMAL"),
    ],
)
def test_a_proposal_warns_about_what_records_cannot_show(field: str, values: list[Any], warning_part: str) -> None:
    proposal = infer(*({"id": n, field: value} for n, value in enumerate(values)))
    assert any(warning_part in warning for warning in proposal.warnings), proposal.warnings


def test_a_field_whose_name_is_not_a_column_name_is_the_source() -> None:
    (column,) = infer({"eventId": 1}, {"eventId": 2}).columns
    assert (column.name, column.source) == ("event_id", "eventId")


def test_numbers_that_are_present_day_times_and_have_a_name_of_a_time_are_times() -> None:
    numbers = {"id": 1767225600, "at": 1767225600000, "n_ms": 5, "paid_ts": 1767225600, "took_ns": 1767225600}
    numbers |= {"timeUnixNano": 1767225600123456789, "tweet": 1767225600123456789}
    columns = infer(numbers).columns
    assert [(column.name, column.type, column.time.epoch) for column in columns] == [
        ("id", "BIGINT", None),
        ("at", "TIMESTAMP", "milliseconds"),
        ("n_ms", "BIGINT", None),
        ("paid_ts", "TIMESTAMP", "seconds"),
        ("took_ns", "BIGINT", None),
        ("time_unix_nano", "TIMESTAMP", "nanoseconds"),
        ("tweet", "BIGINT", None),
    ]


@pytest.mark.parametrize(
    ("texts", "pattern"),
    [
        (["2026-01-01T10:00:00+02:00", "2026-07-01T10:00:00+02:00"], "iso8601"),
        (["2026-01-01T10:00:00Z", "2026-01-01 10:00", "2026-01-02"], "iso8601"),
        (["2026-01-01T10:00:00.123456789Z"], "iso8601"),
        (["2026-01-01T10:00:00Z", "2026-01-01T10:00:01Z"], "%Y-%m-%dT%H:%M:%SZ"),
        (["2026-01-01 10:00"], "%Y-%m-%d %H:%M"),
        (["2026-01-01"], "%Y-%m-%d"),
    ],
)
def test_iso_8601_is_proposed_if_no_plain_pattern_reads_all_texts(texts: list[str], pattern: str) -> None:
    proposal = infer(*({"id": n, "at": text} for n, text in enumerate(texts)))
    assert {column.name: column.time.pattern for column in proposal.columns} == {"id": None, "at": pattern}
    has_offsets = texts[0].endswith(("Z", "+02:00")) and len(texts) < 3
    hints = [warning for warning in proposal.warnings if 'zone="Europe/Berlin"' in warning]
    assert len(hints) == (not has_offsets and pattern != "%Y-%m-%d")


@pytest.mark.parametrize(
    ("times", "key"),
    [
        (["2026-01-01T10:00Z", "2026-01-01T12:00+01:00"], ("order_id", "at")),
        (["2026-01-01T10:00Z", "2026-01-01T12:00+02:00"], ()),
        (["2026-01-01T10:00:00.1234567Z", "2026-01-01T11:00:00.1234567Z"], ()),
        ([1767225600123456789, 1767225600223456789], ()),
    ],
)
def test_a_time_that_may_be_stored_like_another_is_not_in_the_key(times: list[Any], key: tuple[str, ...]) -> None:
    assert infer(*({"order_id": 1, "at": time} for time in times)).key == key


def test_a_number_finer_than_a_microsecond_is_not_a_time() -> None:
    (column,) = propose([b'{"at": 1767225600.0000001}', b'{"at": 1767225600.0000002}']).columns
    assert (column.type, column.time.epoch) == ("DECIMAL(38,7)", None)
    (column,) = propose([b'{"at": 1767225600.000001}', b'{"at": 1767225600.000002}']).columns
    assert (column.type, column.time.epoch) == ("TIMESTAMP", "seconds")


def test_nested_fields_are_columns_with_their_paths() -> None:
    proposal = infer({"id": 1, "to": {"name": "a", "at": {"Zip": 5}}}, {"id": 2, "to": {"name": "b", "at": {"Zip": 6}}})
    assert [(column.name, column.source, column.type, column.required) for column in proposal.columns] == [
        ("id", None, "BIGINT", True),
        ("to_name", ("to", "name"), "STRING", True),
        ("to_at_zip", ("to", "at", "Zip"), "BIGINT", True),
    ]


def test_the_fields_of_an_object_that_may_be_empty_are_not_required() -> None:
    columns = infer({"id": 1, "g": {"a": 1}}, {"id": 2, "g": {}}, {"id": 3, "g": None}).columns
    assert [(column.name, column.required) for column in columns] == [("id", True), ("g_a", False)]


def test_only_the_first_of_fields_with_the_same_column_name_is_declared() -> None:
    proposal = infer({"a_id": 5, "a": {"id": 1}}, {"a_id": 5, "a": {"id": 2}})
    assert [column.source for column in proposal.columns] == [None]
    assert any("Fields 'a_id', 'a.id' would all be column a_id" in warning for warning in proposal.warnings)
    (text,) = [text for text in infer({"e": 5, "E": "x"}).warnings if "would all be column" in text]
    assert text.endswith('For the others, write Column("e_2", "STRING", doc="", required=True, source="E").')


def test_a_field_with_the_name_of_the_column_comes_first_and_no_second_name_is_used_twice() -> None:
    proposal = infer({"E": "x", "e": 5, "e_2": 7})
    assert [(column.name, column.type) for column in proposal.columns] == [("e", "BIGINT"), ("e_2", "BIGINT")]
    (text,) = [text for text in proposal.warnings if "would all be column" in text]
    assert text.endswith('For the others, write Column("e_3", "STRING", doc="", required=True, source="E").')


@pytest.mark.parametrize(("name", "month_of"), [("month", None), ("moon", "paid_at")])
def test_a_month_whose_name_is_used_does_not_partition_the_table(name: str, month_of: str | None) -> None:
    payments = [{"id": 5, "paid": {"at": f"2026-01-01T00:0{n}", name: n}} for n in (1, 2)]
    assert (infer(*payments).key, infer(*payments).month_of) == (("id", "paid_at"), month_of)


@pytest.mark.parametrize(
    "times",
    [
        *(["2026-01-01T00:00:00+02:00 x"], ["2026-01-01T10:00:00", "2026-02-30T10:00:00"], ["20260131"]),
        *(["31.01.2026"], ["01/31/2026 12:00"], ["Tue, 24 Nov 2026 02:17:17 GMT"], ["1767225600000"]),
    ],
)
def test_a_proposal_warns_about_a_string_that_looks_like_a_time(times: list[str]) -> None:
    proposal = infer(*({"id": n, "at": time} for n, time in enumerate(times)))
    assert types(proposal)["at"] == "STRING"
    assert any("at looks like a time" in warning for warning in proposal.warnings)


def test_a_proposal_warns_about_required_columns_and_integers() -> None:
    warnings = infer({"id": 1, "price": 10}).warnings
    assert any("Remove required=True" in warning for warning in warnings)
    assert any(warning.startswith("price: only integers so far") for warning in warnings)


@pytest.mark.parametrize(
    ("numbers", "type_"),
    [
        (["1" * 38], "DECIMAL(38,0)"),
        (["1" * 40], None),
        (["1" + "0" * 39, "5"], None),
        (["1" * 40, "1.5"], None),
        (["0.1234567890123456789", "12345.5"], "DECIMAL(38,19)"),
        (["1." + "3" * 37], "DECIMAL(38,37)"),
        (["1." + "3" * 38], None),
        (["0.10000000000000001", "0.1", "1e300"], "DOUBLE"),
        (["0.1000000000000000055511151231257827021181583404541015625", "-0.0", "5e-324"], "DOUBLE"),
    ],
)
def test_a_number_keeps_every_digit_or_is_left_out(numbers: list[str], type_: str | None) -> None:
    proposal = propose([f'{{"id": {n}, "n": {number}}}'.encode() for n, number in enumerate(numbers)])
    assert types(proposal).get("n") == type_
    warning = "Field 'n' is left out: it contains numbers with more digits than any type has."
    assert any(text.startswith(warning) for text in proposal.warnings) == (type_ is None)
    for column in proposal.columns if type_ else ():
        values = [decode_number(column, number) for number in numbers] if column.name == "n" else []
        assert values == [Decimal(n) if type_ != "DOUBLE" else float(n) for n in numbers][: len(values)]


def decode_number(column: Column, number: str) -> Any:
    return convert(parse(f'{{"n": {number}}}'.encode()), (column.field,))["n"]


def test_numbers_out_of_range_and_too_many_fields_are_left_out_with_warnings() -> None:
    proposal = propose([b'{"id": 1, "x": 1e400, "y": 1e999999999999999999999}'])
    assert types(proposal) == {"id": "BIGINT"}
    wide = infer({"id": 1} | {f"f{n}": n for n in range(3_000)})
    assert (len(wide.columns), "Only the first 1,000 fields were examined." in wide.warnings) == (1_000, True)


def test_a_deeply_nested_record_does_not_prevent_a_proposal() -> None:
    deep = b'{"id": 1, "x": ' + b"[" * 500 + b"]" * 500 + b"}"
    assert propose([deep, b'{"id": 2}']).key == ("id",)


def test_no_proposed_column_has_the_name_of_a_column_of_the_change_feed() -> None:
    proposal = infer({"n_before": 1, "n": 1}, {"n_before": 2, "n": 1})
    assert {*types(proposal)} == {"n_before_", "n"}
    assert StreamTable("t", "t", "", proposal.columns, proposal.key)


def test_the_warning_about_a_field_that_is_too_deep_has_its_whole_path() -> None:
    path = [f"level_{depth}_of_a_long_path" for depth in range(11)]
    value: Any = 1
    for name in reversed(path[1:]):
        value = [{name: value, f"{name}_id": 2}]
    (warning,) = (text for text in infer({"id": 1, path[0]: value}).warnings if "left out" in text)
    assert "no type with at most 8 levels fits" in warning
    assert f"{path[0]}[].{path[1]}[].{path[2]}[].{path[3]}" in warning
    assert "..." not in warning
