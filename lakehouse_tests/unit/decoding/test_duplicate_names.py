"""Equal names in one object: they reject a record, or the first or the last value counts if the format says so."""

import json
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, Compressed, Json, RecordKey, Rejection, StreamTable, UnmappedFields
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.formats.unpacking.compression import compress
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.native import uncertain_records

COLUMNS = [
    Column("id", "INT", "Which.", required=True),
    Column("name", "STRING", "A name.", source=("a", "name"), keep=True, null_erases=True),
    Column("counts", "MAP<STRING, INT>", "Counts."),
    Column("rest", "STRING", "What else.", source=UnmappedFields()),
]
TABLE = StreamTable("t", "t", "T.", COLUMNS, ["id"])
LAST, FIRST = (replace(TABLE, format=Json(duplicate_names=name)) for name in ("last", "first"))
ELEMENTS = replace(LAST, rows_from="rows", columns=COLUMNS[:3])
RECORD = (
    b'{"id": 1, "id": 2, "a": {"name": "x", "name": null}, "counts": {"k": 1, "l": 3, "k": 2},'
    b' "z": 1, "z": {"y": 1, "y": 2}}'
)


@pytest.mark.invariant("13.3", "8.10")
def test_by_default_they_reject_the_record() -> None:
    assert [row["_reason"] for row in rows_twice([RECORD], TABLE.rules())] == ["duplicate_name"]


@pytest.mark.invariant("13.3", "8.10")
@pytest.mark.parametrize(
    ("table", "row"),
    [
        (LAST, {"id": 2, "name": None, "counts": [("k", 2), ("l", 3)], "rest": '{"z":{"y":2}}', "null": True}),
        (FIRST, {"id": 1, "name": "x", "counts": [("k", 1), ("l", 3)], "rest": '{"z":1}', "null": False}),
    ],
)
def test_the_first_or_the_last_value_counts_at_every_level(table: StreamTable, row: dict[str, Any]) -> None:
    (verdict,) = rows_twice([RECORD], table.rules())
    assert verdict["_reason"] is None
    names = {"id": "id", "name": "name", "counts": "counts", "rest": "rest", "null": "_explicit_null_name"}
    assert {key: verdict[name] for key, name in names.items()} == row


def test_every_form_of_json_has_the_option() -> None:
    text = b'{"id": 1, "id": 2}'
    framed = replace(TABLE, format=Json(framed=True, duplicate_names="last"))
    in_text = replace(TABLE, format=Json(in_text=True, duplicate_names="first"))
    packed = replace(TABLE, format=Compressed(Json(duplicate_names="last"), "gzip"))
    assert framed.decode(add_frame(7, text))["id"] == 2
    assert in_text.decode(json.dumps(text.decode()).encode())["id"] == 1
    assert packed.decode(compress(text, "gzip"))["id"] == 2
    assert replace(packed, format=Compressed(Json(), "gzip")) == replace(TABLE, format=Compressed(Json(), "gzip"))
    nested = {"id": 1, "a": '{"name": "x", "name": "y"}'}
    assert LAST.decode(json.dumps(nested).encode())["name"] == "y"
    (rows,) = rows_twice([b'{"rows": [], "rows": [{"id": 1, "id": 2}]}'], ELEMENTS.rules())
    assert [row["id"] for row in rows] == [2]


def test_a_value_that_does_not_count_must_be_json() -> None:
    for broken, reason in [(b"NaN", "not_finite"), (b"[1,", "invalid_json"), (b"tru", "invalid_json")]:
        assert [row["_reason"] for row in rows_twice([b'{"id": %s, "id": 1}' % broken], LAST.rules())] == [reason]


def test_a_record_without_such_names_takes_the_fast_path() -> None:
    values = pa.array([b'{"id": 1, "a": {"name": "x"}, "z": {"y": 1}}', b'{"id": 1, "id": 2}'])
    assert uncertain_records(values, None, LAST.rules()) == [1]


def test_keys_stay_strict() -> None:
    table = replace(LAST, columns=[Column("id", "INT", "Which.", required=True, source=RecordKey("json", "id"))])
    with pytest.raises(Rejection, match="occurs more than once"):
        table.decode(b"{}", key=b'{"id": 1, "id": 2}')


_scalars = st.sampled_from(
    ["1", "2", "null", '"x"', "NaN", "1e999999999", "[]", '{"name": "y", "name": 3}', '"{}"', "tru"]
)
_names = st.sampled_from(["id", "a", "counts", "z", "rows", "\\u0069d"])
_pairs = st.lists(st.tuples(_names, _scalars), max_size=5)
_objects = _pairs.map(lambda pairs: "{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}")
_records = st.tuples(_objects, _objects).map(lambda pair: pair[0].replace("[]", f"[{pair[1]}]").encode())


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("table", [LAST, FIRST, ELEMENTS], ids=["last", "first", "elements"])
@given(records=st.lists(_records, min_size=1, max_size=5))
def test_both_paths_give_the_same_verdicts(table: StreamTable, records: list[bytes]) -> None:
    rows_twice(records, table.rules())


@given(record=_records)
def test_the_last_value_is_that_of_pythons_parser(record: bytes) -> None:
    text = re.sub("NaN|1e9+", "0", record.decode())
    try:
        expected = json.loads(text)
    except ValueError:
        return
    assert LAST.format.parser()(text.encode()) == expected
