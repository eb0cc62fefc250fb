"""A format that a project adds: decoding, publishing and declaring use it like any other."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from lakehouse.declaration import Avro, Column, Compressed, Csv, Json, Rejection, StreamTable, Text
from lakehouse.declaration.inference.proposal import propose
from lakehouse.declaration.snapshot import facts_of, read_snapshot
from lakehouse.decoding import formats
from lakehouse.decoding.formats import FORMATS, likely_formats
from lakehouse.decoding.formats.format import Format, RegisteredSchema, UnusableSchemaError, WriterSchema
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.verdicts import decode_slices
from lakehouse.errors import DeclarationError, TopicError
from lakehouse.kafka.publish import PublishOptions, _make_value_writer, record_key
from lakehouse.settings import Settings
from lakehouse_tests.helpers.barred_format import Barred
from lakehouse_tests.helpers.decoding.native import NATIVE
from lakehouse_tests.helpers.decoding.workers import rows_of_worker

BARRED = Barred(("id", "city", "visits"))
COLUMNS = [
    Column("id", "INT", "Which.", required=True),
    Column("city", "STRING", "Where."),
    Column("visits", "INT", "How often.", between=(0, 100)),
]
TABLE = StreamTable("visits", "visits", "Visits.", COLUMNS, ["id"], format=BARRED)
VALUES = [b"1|Oslo|3", b"2||", b"3|Rome", None, b"4|Bonn|101", b"x|Bern|1"]
REASONS = [None, None, "truncated", "tombstone", "out_of_range", "wrong_type"]
ROWS = [{"id": 1, "city": "Oslo", "visits": 3}, {"id": 2, "city": None, "visits": None}]


def row_of(verdict: dict[str, object]) -> dict[str, object]:
    return {name: verdict[name] for name in TABLE.by_name}


@pytest.mark.parametrize("decoder", [NATIVE, None])
def test_records_become_rows_or_reasons_on_both_paths(decoder) -> None:
    rules = Rules(TABLE.fields, None, BARRED.parser())
    (decoded_records,) = decode_slices(pa.array(VALUES, pa.binary()), None, rules, decoder)
    verdicts = decoded_records.verdicts.to_pylist()
    assert [verdict["_reason"] for verdict in verdicts] == REASONS
    assert [row_of(verdict) for verdict in verdicts[:2]] == ROWS
    assert TABLE.decode(VALUES[0]) == ROWS[0]


@pytest.mark.parametrize("form", [BARRED, Compressed(BARRED, "gzip"), Compressed(BARRED, "zstd")])
def test_a_worker_without_the_package_and_the_format_decodes_the_same_rows(form: Format) -> None:
    compress = Compressed(Text(), form.codec).writer() if isinstance(form, Compressed) else None
    lines = [value and json.dumps({"value": value.decode()}).encode() for value in VALUES]
    packed_values = [line and compress(line) for line in lines] if compress else VALUES
    rows = rows_of_worker(replace(TABLE, format=form), pa.array(packed_values, pa.binary()))
    assert [row["_reason"] for row in rows] == REASONS


def test_lines_of_json_are_published_as_the_format_writes_them() -> None:
    write, parser = _make_value_writer(Settings(), TABLE, PublishOptions())
    value = write(b'{"id": 1, "city": "Oslo", "visits": 3, "other": null}')
    assert value == VALUES[0]
    assert record_key(value, (TABLE.by_name["id"].field,), parser) == b"1"
    with pytest.raises(TopicError, match="takes no schema from a registry"):
        _make_value_writer(Settings(), TABLE, PublishOptions(schema="{}"))


def test_its_declaration_differs_from_those_of_other_formats() -> None:
    plain = replace(TABLE, format=Json())
    assert len({table.fingerprint for table in (TABLE, plain, replace(TABLE, format=Barred(("id",))))}) == 3
    assert read_snapshot(facts_of(TABLE))["table"]["format"] == repr(BARRED)
    assert BARRED.declared_as == repr(BARRED)
    assert not TABLE.has_schemas and TABLE.schemas_name not in TABLE.tables


def test_a_time_requires_a_pattern_if_values_have_no_types() -> None:
    with pytest.raises(DeclarationError, match="a time requires a pattern"):
        replace(TABLE, columns=[*COLUMNS, Column("at", "TIMESTAMP", "When.")])


@pytest.mark.parametrize("form", [Barred, Avro, "barred"])
def test_a_value_that_is_not_a_format_is_refused(form) -> None:
    with pytest.raises(DeclarationError, match="format must be a Json, an Avro, .* or a Compressed, not "):
        replace(TABLE, format=form)


def test_a_declaration_is_proposed_from_its_records() -> None:
    proposal = propose(VALUES[:3], BARRED)
    assert {column.name: column.type for column in proposal.columns} == {
        "id": "BIGINT",
        "city": "STRING",
        "visits": "BIGINT",
    }
    assert (proposal.unread, proposal.form) == (1, BARRED)


def test_a_listed_format_is_likely_for_values_that_no_earlier_format_reads(monkeypatch) -> None:
    plain = b'{"id": 1}'
    assert likely_formats(VALUES) == (Csv(["column_1", "column_2", "column_3"], "|"),)
    monkeypatch.setattr(formats, "FORMATS", (*FORMATS, BARRED))
    assert likely_formats(VALUES) == (BARRED,)
    assert likely_formats([plain, plain, VALUES[0]]) == (Json(), BARRED)
    assert likely_formats([None, b""]) == (Json(),)


def test_a_format_without_schemas_uses_and_registers_none() -> None:
    with pytest.raises(UnusableSchemaError, match="a schema of AVRO, but Barred uses no schemas"):
        BARRED.writer_schema(RegisteredSchema("{}", (), "AVRO"))
    with pytest.raises(UnusableSchemaError, match="visits has no schema"):
        BARRED.declared_schema(TABLE.name, TABLE.fields)
    assert BARRED.schema_fields([WriterSchema("{}")], 9) is None


def test_a_listed_format_that_needs_schemas_is_framed_and_names_their_kind() -> None:
    assert all(form.framed and form.schema_kind for form in FORMATS if form.needs_schemas)
    assert any(form.needs_schemas for form in FORMATS)


def test_a_parser_rejects_a_missing_value() -> None:
    for form in (*FORMATS, BARRED):
        with pytest.raises(Rejection, match="the record has no value"):
            form.parser()(None)
