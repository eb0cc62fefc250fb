"""Bare NaN and Infinity, which JSON does not have: they reject a record, or are null if the format says so."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse.declaration import Column, Json, Rejection, StreamTable
from lakehouse.declaration.inference.proposal import propose
from lakehouse.decoding.formats.framing import add_frame
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.decoded_rows import count_plain

COLUMNS = [
    Column("id", "INT", "Which.", required=True),
    Column("n", "DOUBLE", "A number.", keep=True, null_erases=True),
    Column("list", "ARRAY<DOUBLE>", "Numbers."),
    Column("rest", "STRING", "JSON.", written="json"),
]
TABLE = StreamTable("t", "t", "T.", COLUMNS, ["id"])
AS_NULL = replace(TABLE, format=Json(not_finite="null"))
RECORDS: list[Any] = [
    b'{"id":1,"n":NaN}',
    b'{"id":1,"n":-Infinity,"list":[1.5,Infinity],"rest":{"a":[NaN,1.50]}}',
    b'{"id":1,"other":{"a":[Infinity]}}',
    b'{"id":NaN}',
    b'{"id":1,"n":nan}',
    b'{"id":1,"n":-NaN}',
    b'{"id":1,"n":+Infinity}',
    b'{"id":1,"n":"NaN"}',
    b'{"id":1,"n":1,"n":NaN}',
    b"NaN",
    b'{"id":1,"n":2.5}',
    b'{"id":1,"n":NaN,"a":"NaN \\" -Infinity","NaN":"\\\\"}',
    b'{"id":1,"n":NaN,"a":"\\',
    b'{"id":1,"n":NaNNaN}',
    b'{"id":1,"n":[NaN,}',
    b'{"id":1,"n":1,"a":InfinityNaN}',
    None,
]


@pytest.mark.invariant("13.3", "8.10")
def test_by_default_each_of_them_rejects_its_record_also_in_a_field_that_no_column_reads() -> None:
    reasons = ["not_finite"] * 4 + ["invalid_json"] * 3 + ["wrong_type", "not_finite", "not_finite", None]
    reasons += ["not_finite"] * 5 + ["tombstone"]
    assert [row["_reason"] for row in rows_twice(RECORDS, TABLE.rules())] == reasons


@pytest.mark.invariant("13.3", "8.10")
def test_they_are_null_if_the_format_says_so() -> None:
    rows = rows_twice(RECORDS, AS_NULL.rules())
    assert [row["_reason"] for row in rows] == [
        *(None, None, None, "null_field", "invalid_json", "invalid_json", "invalid_json"),
        *("wrong_type", "duplicate_name", "not_an_object", None, None),
        *("truncated", "invalid_json", "invalid_json", "invalid_json", "tombstone"),
    ]
    assert [row["n"] for row in rows[:3]] == [None, None, None]
    assert [row["_explicit_null_n"] for row in rows[:3]] == [True, True, False]
    assert (rows[1]["list"], rows[1]["rest"]) == ([1.5, None], '{"a":[null,1.50]}')
    assert count_plain([RECORDS[index] for index in (0, 2, 10, 11)], AS_NULL.rules()) == 4
    framed = replace(TABLE, format=Json(framed=True, not_finite="null"))
    assert framed.decode(add_frame(7, RECORDS[0]))["n"] is None
    with pytest.raises(Rejection, match="not_finite"):
        replace(TABLE, format=Json(framed=True)).decode(add_frame(7, RECORDS[0]))


def test_a_proposal_from_such_records_reads_them_as_null_and_names_the_option() -> None:
    proposal = propose([b'{"id":1,"n":NaN}', b'{"id":2,"n":2.5}', b"{"])
    assert (proposal.form, proposal.unread) == (Json(not_finite="null"), 1)
    assert {column.name: column.required for column in proposal.columns} == {"id": True, "n": False}
    warning = 'Some records have NaN or Infinity, which Json(not_finite="null") reads as null.'
    assert any(text.startswith(warning) for text in proposal.warnings)
    other_proposal = propose([b'{"id":1,"n":1}'])
    assert other_proposal.form == Json()
    assert not any("NaN" in text for text in other_proposal.warnings)
