"""JSON in the texts of many records is read on the fast path, exactly as the strict rules read it."""

import base64
import json
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, Deletes, Explode, FieldIs, Json, StreamTable, UnmappedFields, ValueOrObject
from lakehouse.decoding.verdicts import decode_values
from lakehouse_tests.helpers.decoding.both_paths import decode_twice, rows_twice
from lakehouse_tests.helpers.decoding.native import NATIVE, uncertain_records

ID = Column("id", "BIGINT", "Which.")
COLUMNS = [
    ID,
    Column("amount", "DECIMAL(9,2)", "Amount.", source=("payload", "amount")),
    Column("name", "STRING", "Name.", source=("payload", "name")),
    Column("deep", "DOUBLE", "In a text in a text.", source=("payload", "inner", "deep")),
    Column("tags", "ARRAY<STRING>", "Tags.", source=("payload", "tags")),
]
TABLE = StreamTable("t", "t", "T.", COLUMNS, [])
RAW = Column("raw", "STRING", "The text.", source="payload")
TABLES = {
    "plain": TABLE,
    "where": replace(TABLE, where=FieldIs(("payload", "kind"), ["a"])),
    "deletes": replace(TABLE, columns=[replace(ID, required=True), *COLUMNS[1:]], key=["id"],
                       deletes=Deletes(when=FieldIs(("payload", "gone"), [True]))),
    "the whole text": replace(TABLE, columns=[*COLUMNS, RAW]),
    "the rest": replace(TABLE, columns=[*COLUMNS, Column("rest", "STRING", "Others.", source=UnmappedFields())]),
    "an inner text": replace(TABLE, columns=[*COLUMNS, Column("raw", "STRING", "A.", source=("payload", "inner"))]),
    "as JSON": replace(TABLE, columns=[*COLUMNS, Column("raw", "STRING", "A.", source="payload", written="json")]),
    "a struct": replace(TABLE, columns=[ID, COLUMNS[1], Column("s", "STRUCT<name: STRING>", "S.", source="payload")]),
    "a former name": replace(TABLE, columns=[ID, replace(COLUMNS[1], formerly=("former", "amount"))]),
    "a value or an object": replace(TABLE, columns=[ID, COLUMNS[1],
                                    Column("v", "STRING", "V.", source=ValueOrObject("payload", "name"))]),
    "rows": StreamTable("r", "r", "R.", [Column("n", "INT", "Number."), Column("name", "STRING", "Name.")], [],
                        rows_from=("payload", "items")),
    "a single row": StreamTable("r", "r", "R.", [Column("n", "INT", "Number.")], [],
                                rows_from=Explode("items", single_object=True)),
    "NaN": replace(TABLE, format=Json(not_finite="null")),
    "the last name": replace(TABLE, format=Json(duplicate_names="last")),
    "base64": replace(TABLE, format=Json(in_base64="payload")),
}  # fmt: skip
_NAMES = ("amount", "name", "inner", "deep", "tags", "kind", "gone", "items", "n", "more")
_SCALARS = (
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.sampled_from([0.5, 2.25, -0.0])
    | st.text("a\"\\é\u2028/<\n", max_size=4) | st.just("a")
)  # fmt: skip


def in_base64(content: Any) -> str:
    return base64.b64encode(json.dumps(content).encode()).decode()


_CONTENTS = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=5)
        | inner.map(json.dumps)
        | inner.map(in_base64)
    ),
    max_leaves=8,
)
_ENCODERS = (
    json.dumps,
    lambda text: json.dumps(text, ensure_ascii=False),
    lambda text: json.dumps(text).replace("/", "\\/"),
    lambda text: json.dumps(text).replace("a", "\\u0061"),
    lambda text: json.dumps(json.dumps(text)),
)


@st.composite
def _records(draw: st.DrawFn) -> bytes:
    """A record whose texts are written by any encoder, perhaps twice, and perhaps spoiled."""
    shared = draw(_CONTENTS)
    names = draw(st.lists(st.sampled_from(["id", "payload", "former", "items", "other", "payload"]), max_size=4))
    parts = []
    for name in names:
        content = draw(st.just(shared) | _CONTENTS)
        form = draw(st.sampled_from(["object", "text", "base64", "number"]))
        if form == "object":
            written = json.dumps(content)
        elif form == "number":
            written = draw(st.sampled_from(["5", "1.10", "0e999", "1E400", "-0", "NaN"]))
        else:
            text = json.dumps(content) if form == "text" else in_base64(content)
            spoiled_texts = [f" {text}", f'{text},"id":9', text.replace("0", "0e9"), text[:-1]]
            text = draw(st.just(text) | st.sampled_from(spoiled_texts))
            written = draw(st.sampled_from(_ENCODERS))(text)
        parts.append(f"{json.dumps(name)}:{written}")
    return f"{{{','.join(parts)}}}".encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("name", TABLES)
@given(values=st.lists(_records(), min_size=1, max_size=4))
def test_both_paths_read_the_same(name: str, values: list[bytes]) -> None:
    decode_twice(values, TABLES[name].rules())


def written(content: Any, encode: Any = json.dumps) -> bytes:
    return b'{"id":7,"payload":' + encode(json.dumps(content)).encode() + b"}"


@pytest.mark.parametrize("encode", [json.dumps, lambda text: orjson.dumps(text).decode()])
def test_texts_of_usual_encoders_are_read_on_the_fast_path(encode: Any) -> None:
    content = {"amount": 2.5, "name": 'a"ä\n', "inner": json.dumps({"deep": 0.5}), "tags": ["x"], "more": [1]}
    values = pa.array([written(content, encode), b'{"id":8,"payload":null}', b'{"id":9,"payload":{"name":"b"}}'])
    assert uncertain_records(values, None, TABLE.rules()) == []
    rows = decode_values(values, None, TABLE.rules(), NATIVE).verdicts
    assert [rows.field(index).to_pylist() for index in (5, 6)] == [['a"ä\n', None, "b"], [0.5, None, None]]


def test_texts_in_base64_and_arrays_in_texts_are_read_on_the_fast_path() -> None:
    value = json.dumps({"payload": in_base64({"name": "a"})}).encode()
    assert uncertain_records(pa.array([value]), None, TABLES["base64"].rules()) == []
    value = written({"items": [{"n": 1}, {"n": 2}]})
    assert uncertain_records(pa.array([value]), None, TABLES["rows"].rules()) == []


@pytest.mark.parametrize(
    "value",
    [
        rb'{"id":7,"payload":"{\"name\":\"a\"},\"id\":9"}',
        rb'{"id":7,"payload":"{\"name\":\"a\"}","payload":"{\"name\":\"b\"}"}',
        rb'{"id":7,"payload":"{\"name\":\u0022a\"}","other":"{\"name\":\"a\"}"}',
        rb'{"id":7,"payload":"{\"name\":\"a\",\"name\":\"b\"}"}',
        rb'{"id":7,"payload":"null"}',
    ],
)
def test_a_text_that_is_not_certain_is_left_to_the_strict_rules(value: bytes) -> None:
    decode_twice([value], TABLE.rules())
    assert uncertain_records(pa.array([value]), None, TABLE.rules()) == [0]


def test_a_text_that_is_elsewhere_too_is_opened_in_its_own_place_only() -> None:
    value = rb'{"id":7,"payload":"{\"name\":\"a\"}","other":"x\"{\"name\":\"a\"}"}'
    (row,) = rows_twice([value], TABLE.rules())
    assert (row["id"], row["name"]) == (7, "a")
    assert uncertain_records(pa.array([value]), None, TABLE.rules()) == []
