"""JSON after the id of a schema, and its fingerprint next to those of other formats."""

from dataclasses import replace

import pytest

from lakehouse.declaration import Avro, Column, Json, Time
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.rules import Rules
from lakehouse_tests.helpers.decoding.avro_sales import COLUMNS, TABLE
from lakehouse_tests.helpers.decoding.both_paths import rows_twice


def test_framed_json_is_decoded_after_the_id_of_its_schema() -> None:
    table = replace(TABLE, columns=COLUMNS[:2], format=Json(framed=True))
    rules = Rules(table.fields, None, table.format.parser())
    values = [add_frame(9, b'{"id": "a"}'), b'{"id": "a"}', add_frame(9, b""), add_frame(9, b'{"id": "a"}}'), None]
    rows = rows_twice(values, rules)
    assert [row["_reason"] for row in rows] == [None, "wrong_magic", "empty_value", "trailing_bytes", "tombstone"]
    assert rows[0]["id"] == "a"


def test_formats_have_different_fingerprints_and_that_of_json_is_unchanged() -> None:
    columns = (replace(COLUMNS[0]), COLUMNS[1])
    fingerprints = {
        replace(TABLE, columns=columns, format=form).fingerprint for form in (Json(), Json(framed=True), Avro())
    }
    assert len(fingerprints) == 3
    assert repr(Json()) == "Json()"


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize(("type_", "pattern"), [("STRING", None), ("TIMESTAMP", "%Y-%m-%d"), ("DATE", "%Y-%m-%d")])
def test_half_of_a_surrogate_pair_in_framed_json_rejects_only_its_record(type_: str, pattern: str | None) -> None:
    column = Column("a", type_, "A text.", written=Time(pattern))
    rules = Rules((column.field,), None, Json(framed=True).parser())
    values = [add_frame(1, b'{"a": "\\ud800"}'), add_frame(1, b'{"a": "2026-01-01"}'), add_frame(1, b"{}")]
    reason, *other_reasons = [row["_reason"] for row in rows_twice(values, rules)]
    assert other_reasons == [None, None]
    assert reason in ("invalid_text", "wrong_time_format")
