"""JSON in base64 within JSON: the text at one declared path is opened, on both paths."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, Compressed, Deletes, FieldIs, Json, Rejection, StreamTable, UnmappedFields
from lakehouse_tests.helpers.decoding.both_paths import decode_twice, spoiled

ID = Column("id", "INT", "Which.", required=True)
AMOUNT = Column("amount", "DECIMAL(20,2)", "Amount.", source=("data", "amount"), formerly=("data_base64", "amount"))
RAW = Column("raw", "STRING", "The text.", source="data_base64")
TABLE = StreamTable("t", "t", "T.", [ID, AMOUNT, RAW], ["id"], format=Json(in_base64="data_base64"))
ROWS = StreamTable(
    "rows",
    "rows",
    "Rows.",
    [
        Column("n", "INT", "Number.", source=("kinesis", "data", "n")),
        Column("k", "STRING", "Key.", source=("kinesis", "k")),
    ],
    [],
    rows_from="Records",
    format=Json(in_base64=["Records[]", "kinesis", "data"]),
)
DELETES = replace(TABLE, deletes=Deletes(when=FieldIs(("data_base64", "gone"), [True])))
REST = replace(TABLE, columns=[ID, AMOUNT, Column("rest", "STRING", "The rest.", source=UnmappedFields())])
FILTERED = replace(TABLE, where=FieldIs(("data_base64", "kind"), ["a"]), format=Json(in_base64=["data_base64"]))


def in_base64(content: Any) -> str:
    return base64.b64encode(content if isinstance(content, bytes) else json.dumps(content).encode()).decode()


def amount_of(content: Any, table: StreamTable = TABLE) -> Any:
    text = content if isinstance(content, str) else in_base64(content)
    row = table.decode(json.dumps({"id": 1, "data_base64": text}).encode())
    assert row["raw"] == text
    return row["amount"]


def test_the_fields_of_a_text_in_base64_are_read_by_their_path_with_every_digit() -> None:
    assert str(amount_of(b'{"amount": 123456789012345678.25}')) == "123456789012345678.25"
    assert amount_of(None) is None and amount_of({}) is None
    assert str(TABLE.decode(b'{"id": 1, "data": {"amount": 5}}')["amount"]) == "5.00"


@pytest.mark.parametrize(
    ("content", "reason", "detail"),
    [
        ('{"amount": 1}', "wrong_type", """the text in 'data_base64': it is '{"amount": 1}', expected base64"""),
        ("e30", "wrong_type", "the text in 'data_base64': it is 'e30', expected base64"),
        (b"\xff", "invalid_utf8", "the text in 'data_base64': the byte at place 0 is not UTF-8"),
        (b"{", "truncated", "the text in 'data_base64': Expecting property name"),
        (5, "wrong_type", "the text in 'data_base64': it holds a number, expected an object"),
        ([], "wrong_type", "'data_base64' is an array of 0, expected an object"),
        (b'{"amount": NaN}', "not_finite", "the text in 'data_base64': NaN"),
    ],
)
def test_a_text_that_holds_no_object_rejects_the_record(content: Any, reason: str, detail: str) -> None:
    with pytest.raises(Rejection) as error:
        amount_of(content)
    assert error.value.reason == reason and error.value.detail.startswith(detail)


def test_without_a_column_that_reads_from_it_the_text_stays_closed() -> None:
    table = replace(TABLE, columns=[ID, RAW])
    assert table.decode(b'{"id": 1, "data_base64": "no base64"}')["raw"] == "no base64"


def test_a_text_in_each_element_of_an_array_is_opened() -> None:
    records = [{"kinesis": {"k": "a", "data": in_base64({"n": n})}} for n in (1, 2)]
    rows = ROWS.decode_rows(json.dumps({"Records": records}).encode())
    assert rows == [{"n": 1, "k": "a"}, {"n": 2, "k": "a"}]


def test_the_option_is_part_of_the_declaration() -> None:
    assert repr(Json(in_base64=["a", "b"])) == "Json(in_base64=('a', 'b'))" == repr(Json(in_base64=("a", "b")))
    assert TABLE.fingerprint != replace(TABLE, format=Json()).fingerprint
    assert Compressed(Json(in_base64="a"), "gzip").in_base64 == "a"


_contents = st.fixed_dictionaries(
    {}, optional={"amount": st.integers(0, 9) | st.sampled_from(["x", 1.005]), "kind": st.sampled_from(["a", 1])}
)
_contents |= st.none() | st.integers(0, 9) | st.just({"gone": True}) | st.just({"n": 1})
_texts = _contents.map(in_base64) | st.sampled_from(["", "x", "e30=", "{}", "null"]) | st.none() | st.integers(0, 1)
_elements = st.fixed_dictionaries({"kinesis": st.fixed_dictionaries({"data": _texts}) | st.none()}) | _texts
_records = st.fixed_dictionaries(
    {"id": st.just(1)}, optional={"data": _contents, "data_base64": _texts, "Records": st.lists(_elements, max_size=3)}
).map(lambda record: json.dumps(record).encode())


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize(
    "table", [TABLE, ROWS, DELETES, REST, FILTERED], ids=["plain", "rows", "deletes", "rest", "filtered"]
)
@given(records=st.lists(_records | spoiled(_records, [b"", b"}", b"e30=", b"\xff"]), max_size=5))
def test_the_fast_path_gives_the_rows_of_the_strict_path(table: StreamTable, records: list[bytes]) -> None:
    decode_twice(records, table.rules())
