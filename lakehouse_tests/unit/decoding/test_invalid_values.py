"""A value that cannot be read is NULL if the declaration says so, on both paths; another column has its text."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, Element, ParentField, Rejection, StreamTable, Time, UnmappedFields
from lakehouse.decoding.memory import MAX_RECORD_MEMORY
from lakehouse.decoding.values import convert
from lakehouse_tests.helpers.decoding.both_paths import decode_twice, rows_twice, spoiled

ID = Column("id", "INT", "Which.", required=True)
LOG = Column("log", "STRING", "A line.")
COLUMNS = [
    ID,
    LOG,
    Column("level", "STRING", "Level.", source=("log", "level"), invalid="null"),
    Column("n", "BIGINT", "A number.", source=("log", "n"), invalid="null", between=(0, 9)),
    Column("tags", "ARRAY<INT>", "Numbers.", source=("log", "tags"), invalid="null"),
    Column("on", "DATE", "Day.", source=("log", "on"), written=Time("%Y-%m-%d"), invalid="null"),
    Column("price", "DECIMAL(5,2)", "Price.", invalid="null"),
    Column("price_text", "STRING", "The price as it is.", source="price", written="json"),
]
TABLE = StreamTable("lines", "lines", "Lines.", COLUMNS, ["id"])
REST = replace(TABLE, columns=[*COLUMNS, Column("rest", "STRING", "The rest.", source=UnmappedFields())])
ROWS = replace(
    TABLE,
    columns=[
        Column("whole", "STRING", "The element.", source=Element(), written="json"),
        Column("n", "INT", "A number.", invalid="null"),
        Column("of_log", "INT", "A number.", source=ParentField(("log", "n")), invalid="null"),
        Column("log", "STRING", "A line.", source=ParentField("log")),
    ],
    key=[],
    rows_from="items",
)
NO_LOG = {"level": None, "n": None, "tags": None, "on": None, "price": None, "price_text": None}


def row_of(record: dict[str, Any]) -> dict[str, Any]:
    (row,) = rows_twice([json.dumps({"id": 1} | record).encode()], TABLE.rules())
    assert row["_reason"] is None
    return {name: value for name, value in row.items() if name in NO_LOG and value is not None}


@pytest.mark.invariant("8.17")
@pytest.mark.parametrize("text", ["Traceback (most recent call last):", '{"level": "info"', "[1]", "null", ""])
def test_of_a_text_that_holds_no_object_every_column_is_null_and_the_text_stays(text: str) -> None:
    assert row_of({"log": text}) == {}
    assert TABLE.decode(json.dumps({"id": 1, "log": text}).encode())["log"] == text


@pytest.mark.invariant("8.17")
def test_only_the_values_that_cannot_be_read_are_null() -> None:
    log = json.dumps({"level": "info", "n": 10, "tags": [1, "x"], "on": "2026-02-30"})
    assert row_of({"log": log, "price": "free"}) == {"level": "info", "price_text": '"free"'}
    log = json.dumps({"level": 7, "n": 9, "tags": [1], "on": "2026-02-28"})
    assert set(row_of({"log": log, "price": 1.5})) == {"n", "tags", "on", "price", "price_text"}


def test_another_column_still_rejects_the_record() -> None:
    for record in ({"id": "x", "log": "x"}, {"id": 1, "log": 5}):
        (row,) = rows_twice([json.dumps(record).encode()], TABLE.rules())
        assert row["_reason"] == "wrong_type"


def test_a_record_that_needs_too_much_memory_is_rejected_nevertheless() -> None:
    (level,) = [field for field in TABLE.fields if field.name == "level"]
    with pytest.raises(Rejection, match="too_large"):
        convert({"log": {"level": "info"}}, (level,), memory=MAX_RECORD_MEMORY)


_scalars = st.none() | st.booleans() | st.integers(-1, 11) | st.sampled_from(["", "x", "2026-02-28", "{", 1.5, 1e300])
_logs = st.fixed_dictionaries(
    {}, optional={"level": _scalars, "n": _scalars, "on": _scalars, "tags": st.lists(_scalars, max_size=2) | _scalars}
)
_records = st.fixed_dictionaries(
    {"id": st.just(1) | _scalars},
    optional={
        "log": _logs.map(json.dumps) | _logs | _scalars,
        "price": _scalars,
        "items": st.lists(st.fixed_dictionaries({}, optional={"n": _scalars}) | _scalars, max_size=3) | _scalars,
    },
).map(lambda record: json.dumps(record).encode())


@pytest.mark.invariant("8.10", "8.17")
@pytest.mark.parametrize("table", [TABLE, REST, ROWS], ids=["plain", "rest", "rows"])
@given(records=st.lists(_records | spoiled(_records, [b"", b"}", b"NaN", b'"n": 1, ', b"\xff"]), max_size=5))
def test_the_fast_path_gives_the_rows_of_the_strict_path(table: StreamTable, records: list[bytes]) -> None:
    decode_twice(records, table.rules())


def test_half_of_a_surrogate_pair_is_null_if_another_column_has_its_json() -> None:
    columns = [
        Column("name", "STRING", "Name.", invalid="null"),
        Column("name_json", "STRING", "As it was written.", source="name", written="json"),
    ]
    table = StreamTable("t", "t", "T.", columns, [])
    assert table.decode(rb'{"name": "caf\ud83d"}') == {"name": None, "name_json": r'"caf\ud83d"'}
    decode_twice([rb'{"name": "caf\ud83d"}', rb'{"name": "\ud83d\ude00"}', rb'{"name": {"\udc00": 1}}'], table.rules())
