"""Columns of bytes: the fast path decodes them like the strict path, without exception."""

from base64 import b64encode
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from lakehouse.declaration import Column, RecordHeader, RecordKey
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.written_forms import BYTE_FORMS
from lakehouse_tests.helpers.decoding.both_paths import count_generated, decode_like_strictly, decode_twice, one_column
from lakehouse_tests.helpers.decoding.native import uncertain_records
from lakehouse_tests.helpers.tables.written import EDGES, ODD_VALUES, WrittenBatch

RIGHT_TEXTS = (
    "AQI=",
    "AQI",
    "AQ==",
    "AQ",
    "+/+/",
    "-_-_",
    "00ff",
    "00FF",
    "aBcD",
    "",
    "AAAA",
    b64encode(bytes(99)).decode(),
)
WRONG_TEXTS = ("A", "=", "====", "AQI==", "AR==", "AR", " AQI=", "AQI=\\n", "é", "\\ud800", "\\u0041QI=", "0x00", "00f")
TEXTS = [f'"{text}"' for text in (*RIGHT_TEXTS, *WRONG_TEXTS, "x" * 999, "A" * 10**5, "A" * (10**5 + 1))]
OPTIONS: list[Any] = [
    *({}, {"required": True}, {"null_values": ("", "AQ", "1.5")}, {"default": "0000"}),
    *({"keep": True, "null_erases": True}, {"formerly": "old"}, {"source": ("o", "n"), "null_values": ("00ff",)}),
]


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("options", OPTIONS, ids=repr)
@pytest.mark.parametrize("form", BYTE_FORMS)
def test_every_odd_text_has_equal_results(form: Any, options: Any) -> None:
    column = Column("n", "BINARY", "Bytes.", written=form, **options)
    rows = decode_like_strictly(one_column(column, [*TEXTS, *EDGES, *ODD_VALUES]))
    assert "source" in options or {row["_reason"] is None for row in rows} == {True, False}


@pytest.mark.parametrize("form", BYTE_FORMS)
def test_ordinary_texts_are_plain(form: Any) -> None:
    batch = one_column(Column("n", "BINARY", "Bytes.", written=form), ['"00ff"', '"AAAA"', '""', "null"])
    assert all(row["_reason"] is None for row in decode_like_strictly(batch))
    assert uncertain_records(pa.array(batch.values, pa.binary()), None, batch.rules) == []


@st.composite
def batches(draw: st.DrawFn) -> WrittenBatch:
    sources = st.sampled_from(["a", "b", ("o", "a")])
    columns = [
        Column(f"c{nth}", "BINARY", "Bytes.", written=draw(st.sampled_from(BYTE_FORMS)), source=draw(sources))
        for nth in range(draw(st.integers(1, 3)))
    ]
    columns.append(Column("s", "STRING", "A text.", source=draw(sources)))
    encoded_texts = st.binary(max_size=12).flatmap(
        lambda data: st.sampled_from([b64encode(data).decode(), b64encode(data).decode().rstrip("="), data.hex()])
    )
    texts = encoded_texts.map('"{}"'.format) | st.sampled_from([*TEXTS[:-3], *ODD_VALUES])
    names = st.sampled_from(["a", "b", "o", "x"])
    records: list[bytes | None] = []
    for _ in range(draw(st.integers(1, 6))):
        members = [f'"{draw(names)}":{draw(texts)}' for _ in range(draw(st.integers(0, 3)))]
        members += [f'"o":{{"a":{draw(texts)}}}'] if draw(st.booleans()) else []
        record = f"{{{','.join(members)}}}".encode("utf-8", "surrogatepass")
        records.append(record[: draw(st.integers(0, len(record)))] if draw(st.integers(0, 9)) == 0 else record)
    return WrittenBatch(records, [None] * len(records), Rules(tuple(column.field for column in columns), None))


@pytest.mark.invariant("8.10")
def test_generated_and_damaged_records_have_equal_results() -> None:
    counts = count_generated(batches())
    assert 50 < counts["plain"] <= counts["valid"] < counts["rows"]


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("form", [None, *BYTE_FORMS])
@pytest.mark.parametrize("source", [RecordKey(), RecordHeader("raw")])
def test_a_key_and_a_header_have_equal_results(source: Any, form: Any) -> None:
    field = Column("n", "BINARY", "A part.", source=source, written=form).field
    texts = [None, b"", b"\xff\x00", b"00ff", b"AQI=", b"AQI", b"-_-_", "é".encode(), b"1e99999999999999999999"]
    decoded = decode_twice([b"{}"] * len(texts), Rules((field,), None), {source.part: texts})
    rows = decoded.verdicts.to_pylist()
    assert [row["n"] for row in rows] == texts if form is None else b"" in [row["n"] for row in rows]
