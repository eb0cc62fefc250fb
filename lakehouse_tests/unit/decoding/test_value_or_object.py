"""A field that is a value in some records, and an object with the value in others, on both paths."""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, StreamTable, UnmappedFields, ValueOrObject
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.native import uncertain_records

CUSTOMER = Column("customer", "STRING", "Whose.", source=ValueOrObject("customer", "id"), keep=True, null_erases=True)
NUMBER = Column("n", "BIGINT", "A number.", source=ValueOrObject(("a", "v"), "$numberLong"), written="text_or_number")
DEEP = Column("deep", "DOUBLE", "A number.", source=ValueOrObject("d", ["x", "y"]), null_values=["-1"])
ID = Column("id", "INT", "Which.", required=True)
TABLE = StreamTable("t", "t", "T.", [ID, CUSTOMER, NUMBER, DEEP], ["id"])
REST = replace(TABLE, columns=[*TABLE.columns, Column("rest", "STRING", "Rest.", source=UnmappedFields())])
ROWS = replace(TABLE, rows_from="rows")


def verdicts(table: StreamTable, *records: Any) -> list[Any]:
    return rows_twice([json.dumps(record).encode() for record in records], table.rules())


def test_the_field_is_the_value_or_contains_it() -> None:
    rows = verdicts(
        TABLE,
        {"id": 1, "customer": "c1", "a": {"v": 5}, "d": 1.5},
        {
            "id": 2,
            "customer": {"id": "c2", "name": "Ann"},
            "a": {"v": {"$numberLong": "2147483648"}},
            "d": {"x": {"y": 2}},
        },
        {"id": 3, "customer": {"id": None}, "d": {"x": None}},
        {"id": 4, "customer": None, "d": -1},
        {"id": 5},
    )
    assert [(row["customer"], row["n"], row["deep"]) for row in rows] == [
        ("c1", 5, 1.5),
        ("c2", 2**31, 2.0),
        (None, None, None),
        (None, None, None),
        (None, None, None),
    ]
    assert [row["_explicit_null_customer"] for row in rows] == [False, False, True, True, False]
    assert [row["_reason"] for row in rows] == [None] * 5


@pytest.mark.parametrize(
    ("record", "detail"),
    [
        ({"customer": {"name": "Ann"}}, "'customer' is an object of 1, expected STRING"),
        ({"customer": {}}, "'customer' is an object of 0, expected STRING"),
        ({"customer": ["c1"]}, "'customer' is an array of 1, expected STRING"),
        ({"customer": 5}, "'customer' is a number '5', expected STRING"),
        ({"customer": {"id": 5}}, "'customer' is a number '5', expected STRING"),
        ({"a": {"v": {"$numberDecimal": "1.5"}}}, "'a.v' is an object of 1, expected BIGINT"),
        ({"a": 5}, "'a' is a number '5', expected an object"),
        ({"d": {"x": 5}}, "'x' is a number '5', expected an object"),
    ],
)
def test_an_object_without_the_value_rejects_the_record(record: dict[str, Any], detail: str) -> None:
    (row,) = verdicts(TABLE, {"id": 1, **record})
    assert row["_reason"] == "wrong_type"
    assert row["_detail"].startswith(detail)


def test_a_text_that_holds_the_object_is_opened() -> None:
    rows = verdicts(TABLE, *({"id": 1, "customer": text} for text in ('{"id": "c1"}', "{broken", "null", "[1]")))
    assert [row["customer"] for row in rows] == ["c1", "{broken", "null", "[1]"]
    assert {row["_reason"] for row in rows} == {None}


def test_both_forms_take_the_fast_path() -> None:
    values = pa.array([b'{"id":1,"customer":"c","d":1}', b'{"id":1,"customer":{"id":"c"},"d":{"x":{"y":1}}}'])
    assert uncertain_records(values, None, TABLE.rules()) == []


def test_what_is_left_is_the_rest_of_the_object() -> None:
    rows = verdicts(REST, {"id": 1, "customer": "c1"}, {"id": 2, "customer": {"id": "c2", "name": "Ann"}})
    assert [row["rest"] for row in rows] == [None, '{"customer":{"name":"Ann"}}']


def test_the_field_may_be_in_an_element_that_is_a_row() -> None:
    (rows,) = verdicts(ROWS, {"rows": [{"id": 1, "customer": "c1"}, {"id": 2, "customer": {"id": "c2"}}]})
    assert [row["customer"] for row in rows] == ["c1", "c2"]


_scalars: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, 5, -1, 1.5, "c", "7", "null", "{}", '{"id": "x"}', "[", True]
)
_names = st.sampled_from(["id", "x", "y", "$numberLong", "v", "other"])
_values = st.recursive(_scalars, lambda inner: st.dictionaries(_names, inner, max_size=3) | st.lists(inner, max_size=2))
_records = st.fixed_dictionaries(
    {"id": st.just(1)},
    optional={"customer": _values, "a": st.fixed_dictionaries({"v": _values}) | _values, "d": _values, "more": _values},
)


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("table", [TABLE, REST], ids=["table", "rest"])
@given(records=st.lists(_records, min_size=1, max_size=6))
def test_both_paths_give_the_same_verdicts(table: StreamTable, records: list[Any]) -> None:
    verdicts(table, *records)


@pytest.mark.invariant("8.10")
@given(records=st.lists(st.lists(_records, max_size=3), min_size=1, max_size=4))
def test_both_paths_give_the_same_verdicts_on_elements(records: list[Any]) -> None:
    verdicts(ROWS, *({"rows": rows} for rows in records))
