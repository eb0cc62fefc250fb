"""JSON in another cover: a text that holds the object, or the id of a schema in front of it."""

import json
from dataclasses import replace

import pytest

from lakehouse.declaration import Column, Json, Rejection, StreamTable, Time
from lakehouse.decoding.formats import likely_formats
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.memory import JSON_MEMORY_PER_BYTE, MAX_RECORD_MEMORY
from lakehouse_tests.helpers.decoding.both_paths import rows_twice

COLUMNS = [Column("id", "INT", "Which.", required=True), Column("name", "STRING", "A name.", source=("a", "name"))]
TABLE = StreamTable("t", "t", "T.", COLUMNS, ["id"], format=Json(in_text=True))


def twice(text: str) -> bytes:
    """The text as a JSON text."""
    return json.dumps(text).encode()


def test_the_object_in_the_text_is_read_on_both_paths_also_with_texts_in_it() -> None:
    inner = json.dumps({"name": "é\n"})
    values = [twice('{"id":1,"a":{"name":"x"}}'), twice(json.dumps({"id": 2, "a": inner})), twice(' {"id":3} ')]
    rows = rows_twice(values, TABLE.rules())
    assert [(row["id"], row["name"]) for row in rows] == [(1, "x"), (2, "é\n"), (3, None)]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"id":1}', "wrong_type"),
        (b"1", "wrong_type"),
        (twice("[1]"), "not_an_object"),
        (twice(""), "empty_value"),
        (twice("text"), "invalid_json"),
        (twice('{"id":1'), "truncated"),
        (twice('{"id":NaN}'), "not_finite"),
        (twice(json.dumps('{"id":1}')), "not_an_object"),
        (b'"{\\"id\\":1,\\"x\\":\\"\\ud800\\"}"', "invalid_utf8"),
        (twice('{"id":1}')[:-1], "invalid_json"),
        (None, "tombstone"),
    ],
)
def test_what_is_no_text_with_an_object_rejects_the_record(value: bytes | None, reason: str) -> None:
    (row,) = rows_twice([value], TABLE.rules())
    assert row["_reason"] == reason
    with pytest.raises(Rejection, match=reason):
        TABLE.decode(value)


def test_it_works_with_the_other_options_of_json() -> None:
    for form in (Json(framed=True, in_text=True), Json(in_text=True, encoding="latin-1")):
        table = StreamTable("t", "t", "T.", COLUMNS, ["id"], format=form)
        assert table.decode(form.writer(7)('{"id":1,"a":{"name":"é"}}'.encode())) == {"id": 1, "name": "é"}
    assert TABLE.format.writer()(b'{"id":1}') == twice('{"id":1}')
    framed = StreamTable("t", "t", "T.", COLUMNS, ["id"], format=Json(framed=True, in_text=True))
    assert framed.decode(add_frame(7, twice('{"id":1}')))["id"] == 1


def test_it_is_recognised() -> None:
    assert likely_formats([twice('{"id":1}'), twice('{"id":2}'), b""])[0] == Json(in_text=True)


def test_the_memory_of_the_object_is_limited_like_that_of_others() -> None:
    size = MAX_RECORD_MEMORY // JSON_MEMORY_PER_BYTE * 2
    value = twice('{"id":1,"x":[' + "[]," * (size // 3) + "[]]}")
    (row,) = rows_twice([value], TABLE.rules())
    assert row["_reason"] == "too_large"


def test_a_value_that_is_no_text_is_not_parsed_if_it_takes_too_much_memory() -> None:
    value = b"[" + b"[]," * (MAX_RECORD_MEMORY // JSON_MEMORY_PER_BYTE) + b"[]]"
    (row,) = rows_twice([value], TABLE.rules())
    assert row["_reason"] == "too_large"


def test_framed_json_is_decoded_after_the_id_of_its_schema() -> None:
    values = [add_frame(9, b'{"id": 1}'), b'{"id": 1}', add_frame(9, b""), add_frame(9, b'{"id": 1}}'), None]
    rows = rows_twice(values, replace(TABLE, format=Json(framed=True)).rules())
    assert [row["_reason"] for row in rows] == [None, "wrong_magic", "empty_value", "trailing_bytes", "tombstone"]
    assert rows[0]["id"] == 1


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize(("type_", "pattern"), [("STRING", None), ("TIMESTAMP", "%Y-%m-%d"), ("DATE", "%Y-%m-%d")])
def test_half_of_a_surrogate_pair_in_framed_json_rejects_only_its_record(type_: str, pattern: str | None) -> None:
    column = Column("a", type_, "A text.", written=Time(pattern) if pattern else None)
    table = StreamTable("t", "t", "T.", [column], [], format=Json(framed=True))
    values = [add_frame(1, b'{"a": "\\ud800"}'), add_frame(1, b'{"a": "2026-01-01"}'), add_frame(1, b"{}")]
    reason, *other_reasons = [row["_reason"] for row in rows_twice(values, table.rules())]
    assert other_reasons == [None, None]
    assert reason in ("invalid_text", "wrong_time_format")
