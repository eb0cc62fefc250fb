"""Records with values in another form become rows: on both paths, in a worker and in Avro."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.declaration import (
    Avro,
    Column,
    Deletes,
    FieldIs,
    RecordHeader,
    StreamTable,
    TextBoolean,
    TextNumber,
    Time,
)
from lakehouse.declaration.snapshot import differences, facts_of
from lakehouse.decoding.formats.avro.schemas import writer_schema
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.rules import Rules
from lakehouse_tests.helpers.brokers.registries import body as encode
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.one_value import decode_text
from lakehouse_tests.helpers.decoding.workers import rows_of_worker

GERMAN = TextNumber(decimal=",", thousands=".", prefix="EUR ", trailing_sign=True)
PERCENT = TextNumber(suffix=" %")
FLAG = TextBoolean(true=["Y", "yes", 1], false=["N", "", 0])
WRONG = "wrong_type"


KEY = Column("id", "INT", "Which.", required=True, written="text")
COLUMNS = [
    Column("price", "DECIMAL(9,2)", "A number.", written=GERMAN),
    Column("paid", "BOOLEAN", "A flag.", written=FLAG),
    Column("day", "DATE", "A day.", written=Time("%Y%m%d", written="number")),
    Column("rest", "STRING", "JSON.", written="json"),
    Column("total", "DECIMAL(9,2)", "A number.", written="connect"),
    Column("share", "DOUBLE", "A number.", source=RecordHeader("share"), written=PERCENT),
]
TABLE = StreamTable("t", "t", "", [KEY, *COLUMNS], ["id"], deletes=Deletes(when=FieldIs("op", ["d"])))
RECORD = b'{"id":"07","price":"EUR 1.234,50-","paid":"Y","day":20260131,"rest":{"a":[1.0]},"total":"AeJA"}'
ROW = {
    "id": 7,
    "price": Decimal("-1234.50"),
    "paid": True,
    "day": date(2026, 1, 31),
    "rest": '{"a":[1.0]}',
    "total": Decimal("1234.56"),
    "share": 5.5,
}


def test_a_record_becomes_a_row_and_a_delete_has_its_key() -> None:
    assert TABLE.decode(RECORD, headers={"share": b"5.5 %"}) == ROW
    delete = TABLE.decode(b'{"id":"07","op":"d"}')
    assert {name for name, value in delete.items() if value is not None} == {"id"}


def test_a_worker_without_the_package_decodes_the_same_rows() -> None:
    parts = pa.array([RECORD, RECORD, b"{"], pa.binary()), pa.array([b"5.5 %", b"5.5", None], pa.binary())
    assert [row["_reason"] for row in rows_of_worker(TABLE, parts)] == [None, "wrong_type", "truncated"]


def test_a_form_is_part_of_the_fingerprint_and_of_the_snapshot() -> None:
    def with_form(written: Any) -> StreamTable:
        return replace(TABLE, columns=[KEY, replace(COLUMNS[1], written=written)])

    forms: Sequence[Any] = [
        None,
        "text",
        FLAG,
        TextBoolean(["1"], ["0"]),
        TextBoolean([1], ["0"]),
        TextBoolean([True], ["0"]),
    ]
    assert len({with_form(form).fingerprint for form in forms}) == len(forms)
    equal_form = TextBoolean(true=("Y", "yes", 1), false=("N", "", 0))
    assert with_form(equal_form).fingerprint == with_form(FLAG).fingerprint
    assert facts_of(with_form(equal_form)) == facts_of(with_form(FLAG))
    (change,) = differences(facts_of(with_form(None)), facts_of(with_form("text")))
    assert change == ("column paid", "column paid: written was not set, is 'text'")
    assert repr(GERMAN) == "TextNumber(decimal=',', thousands='.', prefix='EUR ', trailing_sign=True)"
    assert repr(FLAG) == "TextBoolean(true=['Y', 'yes', 1], false=['N', '', 0])"


def test_avro_has_the_same_forms() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "a", "type": "double"}, {"name": "b", "type": "bytes"}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "string"}, {"name": "o", "type": inner}]}
    records = [
        {"n": number, "o": {"a": content, "b": b"\xff"}}
        for number, content in (("1.5", 0.5), ("x", 0.5), ("2", float("nan")))
    ]
    values = [add_frame(1, encode(schema, record)) for record in records]
    parser = Avro().parser(Schemas({1: writer_schema(json.dumps(schema))}, {}))
    number_field = Column("n", "DECIMAL(9,2)", "", written="text").field
    json_field = Column("a", "STRING", "", source=("o", "a"), written="json").field
    rows = rows_twice(values, Rules((number_field, json_field), None, parser))
    assert [row["_reason"] for row in rows] == [None, "wrong_type", "not_finite"]
    assert (rows[0]["n"], rows[0]["a"]) == (Decimal("1.50"), "0.5")
    (row,) = rows_twice(values[:1], Rules((Column("o", "STRING", "", written="json").field,), None, parser))
    assert (row["_reason"], row["_detail"]) == ("wrong_type", "'o' contains bytes, which JSON cannot write")


@pytest.mark.invariant("8.10")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", ["1" * 10**6, "0." + "0" * 10**6 + "1", "1.234" + ".567" * 10**5, "1e" + "9" * 10**6])
def test_a_megabyte_of_digits_is_read_quickly(text: str) -> None:
    """Time in proportion to the square of its length would stop a table for half an hour, at each new start."""
    for type_ in ("BIGINT", "DOUBLE", "DECIMAL(9,2)"):
        for form in ("text", TextNumber(decimal=",", thousands=".", suffix="x")):
            assert decode_text(type_, f'"{text}"', written=form) in (0, "out_of_range", WRONG)
    assert decode_text("STRING", f"[{text}]", written="json") in (
        "out_of_range",
        "invalid_json",
        f"[{text}]",
        "[1E-1000001]",
    )
    assert decode_text("DECIMAL(9,2)", f'"{text}"', written="connect") in ("out_of_range", WRONG)
