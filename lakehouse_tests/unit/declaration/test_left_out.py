"""Fields that no type fits, and what a proposal says about them: the line that takes them as text."""

import json
import re
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from lakehouse.declaration import Column, StreamTable, TextNumber, Time
from lakehouse_tests.helpers.proposals import infer, types

NAMES = {"Column": Column, "TextNumber": TextNumber, "Time": Time}


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([5, {"$numberLong": "2147483648"}], ["5", '{"$numberLong":"2147483648"}']),
        ([[1, "a"], []], ['[1,"a"]', "[]"]),
        ([[{"a-b": 1}]], ['[{"a-b":1}]']),
        ([{"a": 1}, True, "x"], ['{"a":1}', "true", '"x"']),
        (["12.50", 3, "n/a"], ["12.50", "3", "n/a"]),
        ([1.5, 10**45], ["1.5", str(10**45)]),
    ],
)
def test_a_field_of_several_kinds_gets_the_line_that_takes_its_values(values: list[Any], texts: list[str]) -> None:
    proposal = infer(*({"id": n, "v": value} for n, value in enumerate(values)))
    assert types(proposal) == {"id": "BIGINT"}
    (line,) = [match[1] for text in proposal.warnings if (match := re.search(r"write (Column\(.*\))\.$", text))]
    table = StreamTable("t", "t", "", [*proposal.columns, eval(line, {"Column": Column})], ["id"])  # noqa: S307 - our own
    rows = [table.decode(json.dumps({"id": 0, "v": value}).encode()) for value in values]
    assert [row["v"] for row in rows] == texts


@pytest.mark.parametrize(
    ("values", "options", "decoded_values"),
    [
        (
            ["12.50", 3],
            '"DECIMAL(38,2)", doc="", required=True, written="text_or_number"',
            [Decimal("12.50"), Decimal(3)],
        ),
        (
            ["20260131", 20260201],
            '"DATE", doc="", required=True, written=Time("%Y%m%d", written="text_or_number")',
            [date(2026, 1, 31), date(2026, 2, 1)],
        ),
        (
            ["12,5", 12, 0.25],
            '"DECIMAL(38,2)", doc="", required=True, written=TextNumber(decimal=\',\', or_number=True)',
            [Decimal("12.50"), Decimal(12), Decimal("0.25")],
        ),
        (
            ["1.234,5", 1234.5],
            '"DECIMAL(38,1)", doc="", required=True, '
            "written=TextNumber(decimal=',', thousands='.', or_number=True)",
            [Decimal("1234.5"), Decimal("1234.5")],
        ),
        (
            ["1,234,567", 7.5],
            '"DECIMAL(38,1)", doc="", required=True, written=TextNumber(thousands=\',\', or_number=True)',
            [Decimal(1_234_567), Decimal("7.5")],
        ),
    ],
)
def test_texts_and_numbers_that_mean_the_same_get_the_line_that_reads_both(
    values: list[Any], options: str, decoded_values: list[Any]
) -> None:
    proposal = infer(*({"id": n, "v": value} for n, value in enumerate(values)))
    (line,) = [match[1] for text in proposal.warnings if (match := re.search(r"write (Column\(.*\))\.$", text))]
    assert line == f'Column("v", {options})'
    table = StreamTable("t", "t", "", [*proposal.columns, eval(line, NAMES)], ["id"])  # noqa: S307 - our own
    assert [table.decode(json.dumps({"id": 0, "v": value}).encode())["v"] for value in values] == decoded_values


def test_a_field_whose_values_are_nearly_all_of_one_kind_also_gets_the_line_for_these() -> None:
    proposal = infer(*({"id": n, "v": n / 2} for n in range(99)), {"id": 99, "v": {"amount": 1}})
    (text,) = [text for text in proposal.warnings if text.startswith("Field 'v' is left out")]
    line = 'Column("v", "DOUBLE", doc="", required=True)'
    assert f"For the 99 numbers of 100 values, write {line}: records with another one are rejected." in text


def test_a_version_that_is_a_date_stays_a_text_with_the_line_for_dates() -> None:
    proposal = infer({"id": 1, "api_version": "2022-11-15", "on": "2022-11-15"})
    assert types(proposal) == {"id": "BIGINT", "api_version": "STRING", "on": "DATE"}
    line = 'Column("api_version", "DATE", doc="", required=True, written=Time("%Y-%m-%d"))'
    assert any(text.startswith("api_version has dates.") and line in text for text in proposal.warnings)


def test_rows_are_proposed_for_a_field_that_is_an_array_in_some_records_and_an_object_in_others() -> None:
    proposal = infer({"id": 1, "in": {"parcel": [{"n": 1}]}}, {"id": 2, "in": {"parcel": {"n": 2}}})
    (warning,) = [warning for warning in proposal.warnings if "left out" in warning]
    assert 'it contains arrays and objects. For a row per object, write rows_from=Explode(("in", "parcel"), ' in warning
    proposal = infer({"parcel": [{"n": 1}]}, {"parcel": {"n": 2}})
    assert 'write rows_from=Explode("parcel", single_object=True). ' in proposal.warnings[0]
