"""A column of the fields that no other column reads: nothing of a record is lost, on both paths."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.declaration import Column, Csv, FieldIs, Json, Logfmt, StreamTable, UnmappedFields
from lakehouse.decoding.memory import MAX_RECORD_MEMORY
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.decoded_rows import count_plain

REST = Column("rest", "STRING", "Other fields.", source=UnmappedFields())
COLUMNS = [
    Column("id", "BIGINT", "Which.", required=True),
    Column("city", "STRING", "City.", source=("buyer", "city"), formerly="town"),
    Column("size", "STRUCT<w: INT, deep: STRUCT<a: INT>>", "Size."),
    Column("lines", "ARRAY<STRUCT<n: INT>>", "Lines."),
    Column("prices", "MAP<STRING, STRUCT<p: INT>>", "Prices."),
    Column("whole", "STRING", "As text.", written="json"),
    REST,
]
TABLE = StreamTable("t", "t", "T.", COLUMNS, ["id"])


def rest_of(record: dict[str, Any] | bytes, table: StreamTable = TABLE) -> Any:
    """What the column has, parsed; both paths agree."""
    value = record if isinstance(record, bytes) else json.dumps(record).encode()
    (row,) = rows_twice([value], table.rules())
    assert row["_reason"] is None, row
    assert table.decode(value)["rest"] == row["rest"]
    return None if row["rest"] is None else json.loads(row["rest"], parse_float=Decimal)


@pytest.mark.parametrize(
    ("record", "rest"),
    [
        ({"id": 1}, None),
        ({"id": 1, "new": None}, {"new": None}),
        ({"id": 1, "new": {"a": [1, {"b": []}]}, "é": "\n"}, {"new": {"a": [1, {"b": []}]}, "é": "\n"}),
        ({"id": 1, "buyer": {"city": "Oslo"}, "town": "x"}, {"town": "x"}),
        ({"id": 1, "town": "x"}, None),
        ({"id": 1, "buyer": {"zip": 7}, "town": "x"}, {"buyer": {"zip": 7}}),
        ({"id": 1, "buyer": {"city": None}, "town": "x"}, {"town": "x"}),
        ({"id": 1, "buyer": {"city": "Oslo", "zip": 7}}, {"buyer": {"zip": 7}}),
        ({"id": 1, "buyer": None}, None),
        ({"id": 1, "size": {"w": 1, "h": 2, "deep": {"a": 1, "b": 2}}}, {"size": {"h": 2, "deep": {"b": 2}}}),
        ({"id": 1, "lines": [{"n": 1}, {"n": 2, "x": 3}, None]}, {"lines": [{}, {"x": 3}, {}]}),
        ({"id": 1, "lines": [{"n": 1}]}, None),
        ({"id": 1, "prices": {"a": {"p": 1}, "b": {"p": 1, "q": 2}}}, {"prices": {"b": {"q": 2}}}),
        ({"id": 1, "whole": {"a": 1}}, None),
        ({"id": 1, "buyer": '{"city":"Oslo","zip":7}'}, {"buyer": {"zip": 7}}),
        (
            b'{"id":1,"big":12345678901234567890123,"exact":1.10}',
            {"big": 12345678901234567890123, "exact": Decimal("1.10")},
        ),
    ],
)
def test_the_column_has_exactly_what_the_other_columns_leave(record: dict[str, Any] | bytes, rest: Any) -> None:
    assert rest_of(record) == rest


def test_what_is_under_a_former_name_is_left_unless_it_is_read() -> None:
    columns = [Column("x", "BIGINT", "X.", formerly=("old", "x")), REST]
    table = StreamTable("t", "t", "T.", columns, [])
    assert rest_of({"x": 1, "old": '{"x":1,"y":2}'}, table) == {"old": '{"x":1,"y":2}'}
    assert rest_of({"old": '{"x":1,"y":2}'}, table) == {"old": {"y": 2}}
    assert rest_of({"x": 1, "old": 7}, table) == {"old": 7}


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["id", "buyer", "city", "town", "size", "w", "deep", "a", "lines", "n", "prices", "p", "more"])
RECORDS = st.dictionaries(
    NAMES, JSON_VALUES | st.dictionaries(NAMES, JSON_VALUES | st.dictionaries(NAMES, JSON_VALUES))
)


@given(st.lists(RECORDS, max_size=4))
@example([{"id": 1, "more": 1e-7}, {"id": 2, "more": [10**20, 1.5]}])
def test_both_paths_agree_and_a_row_with_its_rest_has_every_leaf(records: list[dict[str, Any]]) -> None:
    values = [json.dumps(record).encode() for record in records]
    for record, row in zip(records, rows_twice(values, TABLE.rules()), strict=True):
        if not row["_reason"] and row["rest"]:
            rest = json.loads(row["rest"])
            assert rest.keys() <= record.keys()
            assert all(rest[name] == record[name] for name in rest.keys() & {"more", "a", "w", "n", "p", "deep"})


def test_records_without_fractions_are_decoded_on_the_fast_path() -> None:
    values = [json.dumps({"id": n, "new": {"a": n}, "text": "x"}).encode() for n in range(5)]
    assert count_plain(values, TABLE.rules()) == 5
    assert count_plain([b'{"id":1,"new":1.5}'], TABLE.rules()) == 0


def test_the_field_that_decides_about_the_table_is_left_if_no_column_reads_it() -> None:
    table = StreamTable("t", "t", "T.", [COLUMNS[0], REST], ["id"], where=FieldIs("type", ["order"]))
    assert rest_of({"id": 1, "type": "order"}, table) == {"type": "order"}


def test_formats_of_texts_leave_texts() -> None:
    csv = StreamTable("t", "t", "T.", [COLUMNS[0], REST], ["id"], format=Csv(["id", "a", "b"]))
    assert rest_of(b"1,x,", csv) == {"a": "x", "b": None}
    logfmt = StreamTable("t", "t", "T.", [COLUMNS[0], REST], ["id"], format=Logfmt())
    assert rest_of(b"id=1 level=info", logfmt) == {"level": "info"}
    framed = StreamTable("t", "t", "T.", [COLUMNS[0], REST], ["id"], format=Json(framed=True))
    assert rest_of(framed.format.writer(7)(b'{"id":1,"a":2.50}'), framed) == {"a": Decimal("2.50")}
    assert count_plain([framed.format.writer(7)(b'{"id":1,"a":2.50}')], framed.rules()) == 1


def test_a_rest_that_takes_too_much_memory_rejects_the_record() -> None:
    table = StreamTable("t", "t", "T.", [COLUMNS[0], REST], ["id"])
    text = "x" * (MAX_RECORD_MEMORY // 5)
    (row,) = rows_twice([json.dumps({"id": 1, "a": text}).encode()], table.rules())
    assert row["_reason"] == "too_large"
