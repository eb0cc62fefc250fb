"""Columns that are parts of texts in fields: the same verdicts in a batch, alone, and as lines of their own."""

import json
import random

import pytest

from lakehouse.declaration import Column, Csv, Cut, ParentField, Regex, StreamTable
from lakehouse.decoding.one_record import judge_record
from lakehouse.errors import DeclarationError
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.unit.decoding.test_cut_texts import PATTERN, random_lines, table_of

PARTS = [
    Column("who", "STRING", source=Cut(("log", "line"), PATTERN), doc=""),
    Column("at", "STRING", source=Cut(("log", "line"), PATTERN), doc=""),
    Column("text", "STRING", source=Cut(("log", "line"), PATTERN), doc=""),
    Column("size", "BIGINT", source=Cut(("log", "line"), PATTERN), null_values=["-"], doc=""),
]


def table(*columns: Column) -> StreamTable:
    return StreamTable("cut", "cut", "", columns, [])


def test_parts_of_100_000_texts_are_those_of_lines() -> None:
    """The reference is the format of lines, which the standard library's own engine checks."""
    lines = [line for line in random_lines(100_000, seed=55) if line and b"\xff" not in line]
    whole_lines = rows_twice(lines, table_of(Regex(PATTERN)).rules())
    records = [json.dumps({"log": {"line": line.decode()}}).encode() for line in lines]
    matched_count = 0
    for line, row, expected_row in zip(lines, rows_twice(records, table(*PARTS).rules()), whole_lines, strict=True):
        names = ("_reason", "who", "at", "text", "size")
        assert [row[name] for name in names] == [expected_row[name] for name in names], line
        matched_count += row["_reason"] is None
    assert matched_count > 20_000


@pytest.mark.parametrize(
    ("raw", "outcome"),
    [
        *(('"ab 12"', 12), ('"ab  "', None), ("null", None), ('"ab x"', "wrong_type"), ("5", "wrong_type")),
        *(('{"a": 1}', "wrong_type"), ('"ab \\ud800"', "invalid_text"), ('"a"', None), ('"ab -"', None)),
    ],
)
def test_two_places_are_cut_like_a_slice(raw: str, outcome: int | str | None) -> None:
    rules = table(Column("n", "INT", source=Cut("t", (3, 5)), null_values=["-"], doc="")).rules()
    (row,) = rows_twice([f'{{"t": {raw}}}'.encode()], rules)
    assert (row["_reason"] or row["n"]) == outcome


def test_a_text_that_is_missing_is_null_and_one_that_does_not_match_is_rejected() -> None:
    column = Column("n", "INT", source=Cut("t", r"n=(?P<n>\d*)"), doc="")
    values = [b"{}", b'{"t": "n=7\\n"}', b'{"t": "n="}', b'{"t": "x"}']
    rows = rows_twice(values, table(column).rules())
    assert [row["_reason"] or row["n"] for row in rows] == [None, 7, None, "no_match"]
    assert rows[3]["_detail"] == "the pattern of n does not match 't', 'x'"
    required = Column("n", "INT", source=Cut("t", r"n=(?P<n>\d*)"), required=True, doc="")
    reasons = [row["_reason"] for row in rows_twice(values, table(required).rules())]
    assert reasons == ["missing_field", None, "null_field", "no_match"]


def test_parts_of_elements_of_arrays_and_of_csv_are_cut() -> None:
    columns = [
        Column("id", "INT", source=ParentField("id"), doc=""),
        Column("n", "INT", source=Cut("t", (0, 2)), doc=""),
    ]
    items = StreamTable("t", "t", "", columns, [], rows_from="items")
    assert items.decode_rows(b'{"id": 1, "items": [{"t": "12x"}, {"t": null}]}') == [
        {"id": 1, "n": 12},
        {"id": 1, "n": None},
    ]
    rows = StreamTable("t", "t", "", [columns[1], Column("t", "STRING", doc="")], [], format=Csv(columns=["t"]))
    assert rows.decode(b"34y") == {"n": 34, "t": "34y"}
    (verdict,) = judge_record(b'{"t": "9"}', table(columns[1]).rules(), {})
    assert verdict.row == {"n": 9}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (Column("n", "INT", source=Cut("t", "(?P<m>.)"), doc=""), r"the pattern of Cut has no group \(\?P<n>"),
        (Column("n", "INT", source=Cut("t", "(?P<n>.)(?=x)"), doc=""), "the pattern of Cut cannot be used"),
        (Column("n", "INT", source=Cut("t", "(?P<n>a)|(?P<n>b)"), doc=""), "the group 'n' of Cut is there twice"),
        (Column("n", "INT", source=Cut("t", r"(?P<n>a)\Q"), doc=""), "the pattern of Cut cannot be used"),
        (Column("n", "INT", source=Cut("t", (5, 3)), doc=""), r"Cut has the places \(5, 3\)"),
        (Column("n", "INT", source=Cut("t", (0, 2.5)), doc=""), r"Cut has the places \(0, 2.5\)"),  # type: ignore[arg-type]
        (Column("n", "ARRAY<INT>", source=Cut("t", (0, 3)), doc=""), "Cut is a text, and the column is ARRAY<INT>"),
        (Column("n", "STRING", source=Cut("t", (0, 3)), written="json", doc=""), "Cut is a text"),
    ],
)
def test_a_part_that_cannot_be_cut_is_refused(column: Column, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        table(column)


def test_random_texts_have_the_same_parts_in_both_ways() -> None:
    rng = random.Random(7)
    texts = ["".join(rng.choices("a1 -é\n\t", k=rng.randrange(7))) for _ in range(2_000)]
    columns = [Column("n", "DECIMAL(4,1)", source=Cut("t", (1, 4)), null_values=["-", "1"], doc="")]
    records = [json.dumps({"t": text}).encode() for text in texts]
    rows = rows_twice(records, table(*columns).rules())
    for text, row in zip(texts, rows, strict=True):
        part = text[1:4].strip()
        assert row["n"] is None or float(part) == float(row["n"])


def test_lines_of_another_program_are_null_if_another_column_has_the_text() -> None:
    part = Column("n", "INT", source=Cut("log", r"n=(?P<n>\d+)"), invalid="null", doc="")
    lines = table(part, Column("log", "STRING", doc=""))
    assert lines.decode(b'{"log": "n=5"}') == {"n": 5, "log": "n=5"}
    assert lines.decode(b'{"log": "started"}') == {"n": None, "log": "started"}
    with pytest.raises(DeclarationError, match='Column."n_text", "STRING", source="log"'):
        table(part, Column("again", "STRING", source=Cut("log", "(?P<again>.*)"), doc=""))
