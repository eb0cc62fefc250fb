"""What ``doctor`` says about the connector of a change stream, from its declaration and real records."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lakehouse.cli.doctor import contradictions, examine_connectors
from lakehouse.declaration import Avro, Column, Debezium, Json, StreamTable
from lakehouse.decoding.formats.format import NO_SCHEMAS
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.kafka import Record
from lakehouse.settings import Settings
from lakehouse_tests.helpers.change_records import change, with_schema

COLUMNS = [Column("id", "BIGINT", "Number.", required=True), Column("price", "DECIMAL(10,2)", "Price.")]
ITEMS = StreamTable("items", "shop.public.items", "", COLUMNS, ["id"], format=Debezium())
PRECISE = {
    "type": "bytes",
    "field": "price",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": 2},
}
ENVELOPE = change("c", 7, {"id": 1, "price": None})
ROW = json.dumps({"id": 1, "price": None, "__op": "c", "__source_lsn": 7, "__source_snapshot": "false"}).encode()


def problems(form: Debezium, *values: bytes | None) -> list[str]:
    records = [Record(2, 30 + number, 1, None, value) for number, value in enumerate(values)]
    return [*contradictions(replace(ITEMS, format=form), records, NO_SCHEMAS)]


@pytest.mark.parametrize(
    ("form", "value", "detail"),
    [
        (Debezium(), change("c", 7, {"id": 1, "price": "12.50"}), "set decimal.handling.mode=string in the connector"),
        (Debezium(flattened=True), ENVELOPE, "the record has its envelope: use the transform ExtractNewRecordState"),
        (Debezium(), ROW, "declare flattened=True"),
        (Debezium(flattened=True), b'{"id": 1}', "add.fields=op,source.lsn,source.snapshot"),
        (Debezium(flattened=True), None, "set delete.tombstone.handling.mode=rewrite"),
        (Debezium(), add_frame(3, b"x"), "invalid_json"),
        (Debezium(Avro()), ENVELOPE, "wrong_magic"),
        (Debezium(Json(framed=True)), ENVELOPE, "wrong_magic"),
    ],
)
def test_a_record_that_contradicts_its_declaration_is_named(form: Debezium, value: bytes | None, detail: str) -> None:
    (problem,) = problems(form, value)
    assert problem.startswith("partition 2, offset 30, ")
    assert detail in problem


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (Debezium(), with_schema(change("c", 7, {"id": 1, "price": "BNI="}), PRECISE)),
        (Debezium(decimal_handling_mode="string"), change("c", 7, {"id": 1, "price": "12.50"})),
        (Debezium(), None),
        (Debezium(), change("t", 7, None)),
        (Debezium(flattened=True), ROW),
    ],
)
def test_a_record_that_fits_its_declaration_is_not_named(form: Debezium, value: bytes | None) -> None:
    assert problems(form, value) == []


def test_a_record_whose_schema_is_not_stored_yet_is_named_as_not_decoded() -> None:
    (problem,) = problems(Debezium(Avro()), add_frame(3, b"x"))
    assert problem.endswith("unknown_schema: no merge has stored its schema yet, so it was not decoded")


def test_of_records_with_the_same_problem_the_first_one_is_named() -> None:
    other_problem = change("m", 7, None)
    first, second = problems(Debezium(flattened=True), ENVELOPE, ENVELOPE, other_problem.replace(b"op", b"__op"))
    assert "offset 30, " in first
    assert "offset 32, " in second


def test_without_a_broker_the_settings_are_named() -> None:
    settings = Settings(_env_file=None)
    (part,) = examine_connectors(settings, ITEMS, can_read=False)
    assert (part.part, part.version, part.state) == ("connector of items", "Debezium()", "note")
    assert "value.converter.schemas.enable=true; value.converter.replace.null.with.default=false" in part.detail
    assert part.detail.endswith("skipped.operations=none. No record was read.")


def test_a_table_without_a_connector_has_no_part() -> None:
    table: Any = replace(ITEMS, format=Json())
    assert [*examine_connectors(Settings(_env_file=None), table, can_read=False)] == []
