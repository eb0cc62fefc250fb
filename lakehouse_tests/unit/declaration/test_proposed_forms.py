"""Texts that are numbers, and digits that are times: a proposal names the line to write, which reads the records."""

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakehouse.declaration import Column, StreamTable, TextNumber, Time
from lakehouse.declaration.inference.proposal import Proposal, propose

DAY, LEAP_DAY = date(2026, 1, 31), date(2024, 2, 29)
SECOND = datetime(2026, 1, 31, 10, 15, 30, tzinfo=UTC)
HALF, NEXT = (SECOND.replace(microsecond=number) for number in (500_000, 500_001))
LINE = re.compile(r", write (Column\(.*\))\.")


def propose_for(name: str, values: list[Any]) -> Proposal:
    return propose([json.dumps({"id": number, name: value}).encode() for number, value in enumerate(values)])


def line_in(proposal: Proposal) -> str | None:
    """The column that a warning of the proposal says to write."""
    lines = [match[1] for text in proposal.warnings if (match := LINE.search(text))]
    assert len(lines) <= 1
    return lines[0] if lines else None


@pytest.mark.parametrize(
    ("name", "values", "options", "decoded_values"),
    [
        (
            "price",
            ["12.50", "0.5", "-3"],
            '"DECIMAL(38,2)", written="text"',
            [Decimal("12.50"), Decimal("0.50"), Decimal(-3)],
        ),
        ("quantity", ["1", "250"], '"BIGINT", written="text"', [1, 250]),
        ("tiny", [".5", "1"], '"DECIMAL(38,1)", written="text"', [Decimal("0.5"), Decimal("1.0")]),
        ("day", ["20260131", "20240229"], '"DATE", written=Time("%Y%m%d")', [DAY, LEAP_DAY]),
        ("day", [20260131, 20240229], '"DATE", written=Time("%Y%m%d", written="number")', [DAY, LEAP_DAY]),
        ("stamp", [20260131101530], '"TIMESTAMP", written=Time("%Y%m%d%H%M%S", written="number")', [SECOND]),
        ("sent_at", ["1769854530500"], '"TIMESTAMP", written=Time(epoch="milliseconds", written="text")', [HALF]),
        ("time_ns", ["1769854530500000999"], '"TIMESTAMP", written=Time(epoch="nanoseconds", written="text")', [NEXT]),
        (
            "start",
            ["1769854530500000999", "1769854530500001000"],
            '"TIMESTAMP", written=Time(epoch="nanoseconds", written="text")',
            [NEXT] * 2,
        ),
        (
            "begin",
            ["1769854530", ""],
            '"TIMESTAMP", written=Time(epoch="seconds", written="text"), null_values=[""]',
            [SECOND, None],
        ),
        (
            "closed_at",
            [1769854530500, 0],
            '"TIMESTAMP", written=Time(epoch="milliseconds"), null_values=["0"]',
            [HALF, None],
        ),
        (
            "price",
            ["1.234,56", "-12,5", "3"],
            "\"DECIMAL(38,2)\", written=TextNumber(decimal=',', thousands='.')",
            [Decimal("1234.56"), Decimal("-12.50"), Decimal(3)],
        ),
        (
            "price",
            ["1 234,56", "7"],
            "\"DECIMAL(38,2)\", written=TextNumber(decimal=',', thousands=' ')",
            [Decimal("1234.56"), Decimal(7)],
        ),
        ("price", ["12,5"], "\"DECIMAL(38,1)\", written=TextNumber(decimal=',')", [Decimal("12.5")]),
        (
            "price",
            ["1,234.50", "7"],
            "\"DECIMAL(38,2)\", written=TextNumber(thousands=',')",
            [Decimal("1234.50"), Decimal(7)],
        ),
        ("price", ["1,250", "7"], "\"BIGINT\", written=TextNumber(thousands=',')", [1250, 7]),
        ("price", ["1 250", "7"], "\"BIGINT\", written=TextNumber(decimal=',', thousands=' ')", [1250, 7]),
        ("price", ["12.5", "n/a"], '"DECIMAL(38,1)", written="text", null_values=["n/a"]', [Decimal("12.5"), None]),
        ("day", ["20260131", "00000000"], '"DATE", written=Time("%Y%m%d"), null_values=["00000000"]', [DAY, None]),
        ("day", [20260131, 0], '"DATE", written=Time("%Y%m%d", written="number"), null_values=["0"]', [DAY, None]),
        ("on", ["2026-01-31", "-", ""], '"DATE", written=Time("%Y-%m-%d"), null_values=["", "-"]', [DAY, None, None]),
    ],
)
def test_the_line_that_a_proposal_names_reads_its_records(
    name: str, values: list[Any], options: str, decoded_values: list[Any]
) -> None:
    proposal = propose_for(name, values)
    assert {column.name: column.type for column in proposal.columns}[name] in ("STRING", "BIGINT")
    type_, _, further_options = options.partition(", ")
    line = line_in(proposal)
    required = "" if "null_values" in options else ", required=True"
    assert line == f'Column("{name}", {type_}, doc=""{required}, {further_options})'
    column = eval(str(line), {"Column": Column, "TextNumber": TextNumber, "Time": Time})  # noqa: S307 - the line that a user copies
    table = StreamTable("t", "t", "", [Column("id", "INT", "", required=True), column], ["id"])
    rows = [table.decode(json.dumps({"id": 1, name: value}).encode()) for value in values]
    assert [row[name] for row in rows] == decoded_values


def test_a_line_has_the_source_of_the_field_and_may_be_without_a_value() -> None:
    proposal = propose([b'{"id":1,"Order":{"Price":"12.5"}}', b'{"id":2}'])
    line = 'Column("order_price", "DECIMAL(38,1)", doc="", source=("Order", "Price"), written="text")'
    assert line_in(proposal) == line


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *(("price", ["007"]), ("price", ["1234567890123456"]), ("price", ["12.50", "2x"]), ("price", ["1e5"])),
        *(("price", ["1.234.5"]), ("price", ["1 23"]), ("price", ["5."])),
        *(("price", ["5 "]), ("price", [""])),
        *(
            (name, ["12345"])
            for name in ("customer_id", "zipCode", "postal_code", "phone", "order_number", "accountNo")
        ),
        *(
            ("day", ["20260230"]),
            ("day", ["18991231"]),
            ("day", [20260131, 20260230]),
            ("day", [2026]),
            ("id", [20260131]),
        ),
        *(
            ("day_id", ["20260131"]),
            ("account_id", ["1769854530"]),
            ("start", ["1769854530", "1769854530500"]),
            ("amount", [20260131.5]),
            ("amount", [-20260131]),
            ("amount", [99991231]),
        ),
    ],
)
def test_other_texts_and_numbers_have_no_line(name: str, values: list[Any]) -> None:
    assert line_in(propose_for(name, values)) is None


def test_a_comma_that_may_be_either_separates_thousands_and_the_line_names_the_other_form() -> None:
    (warning,) = [text for text in propose_for("price", ["1,250", "12,999"]).warnings if LINE.search(text)]
    assert warning.endswith("If 1,250 has a decimal comma, use a DECIMAL and TextNumber(decimal=',') in its place.")
    (certain,) = [text for text in propose_for("price", ["1,250", "2,50"]).warnings if LINE.search(text)]
    assert "in its place" not in certain


def test_a_line_says_what_it_rounds_or_rejects() -> None:
    prices, counts = propose_for("price", ["12.50"]).warnings, propose_for("views", ["12"]).warnings
    assert any(text.endswith('written="text"). Further decimal places are rounded.') for text in prices)
    assert any(text.endswith('written="text"). A number with a fraction would be rejected.') for text in counts)


@pytest.mark.parametrize(
    ("regular_value", "odd_value", "line"),
    [
        ("2026-01-31T10:15", "soon", '"TIMESTAMP", doc="", required=True, written=Time("%Y-%m-%dT%H:%M")'),
        ("12.50", "free", '"DECIMAL(38,2)", doc="", required=True, written="text"'),
        ("20260131", "20261331", '"DATE", doc="", required=True, written=Time("%Y%m%d")'),
    ],
)
def test_one_odd_value_does_not_hide_what_all_others_are(regular_value: str, odd_value: str, line: str) -> None:
    warnings = propose_for("on", [*[regular_value] * 99, odd_value]).warnings
    (warning,) = [text for text in warnings if "99 of 100 records" in text]
    assert f'write Column("on", {line}).' in warning
    assert f"The others, such as '{odd_value}', are then rejected." in warning.replace(
        '"' + odd_value + '"', f"'{odd_value}'"
    )
    assert not [text for text in propose_for("on", [*[regular_value] * 9, odd_value]).warnings if "of 10" in text]


def test_the_rounding_of_nanoseconds_as_text_is_named_and_an_identifier_is_not_called_a_time() -> None:
    (warning,) = [text for text in propose_for("start", ["1769854530500000999"]).warnings if "start" in text]
    assert warning.startswith("start may be a time, in nanoseconds since 1970. To store times, write Column(")
    assert warning.endswith("Nanoseconds are rounded to microseconds.")
    assert not any("time" in text for text in propose_for("account_id", ["1769854530"]).warnings)
