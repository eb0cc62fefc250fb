"""A declaration is proposed from the changes of a database: key, types, format and long texts."""

import json
from typing import Any

import pytest

from lakehouse.cli.proposals import declaration_text
from lakehouse.declaration import Avro, Debezium
from lakehouse.declaration.inference.proposed_changes import KeyedValue, propose_changes
from lakehouse.decoding.formats import likely_formats
from lakehouse.decoding.formats.format import WriterSchema
from lakehouse_tests.helpers.change_records import UNAVAILABLE, change, with_schema

ROW = {
    "shop": "a",
    "id": 1,
    "price": "12.50",
    "made": 1704164645678901,
    "sold": "2024-01-02T03:04:05Z",
    "flag": True,
    "day": "2024-01-02",
    "note": "x",
    "large": "y",
    "none": None,
}
DAY = {"type": "int32", "name": "io.debezium.time.Date", "field": "day"}


def keyed(*values: bytes | None) -> list[KeyedValue]:
    return [KeyedValue(b'{"shop": "a", "id": 1}', value) for value in values]


def types(*values: bytes | None) -> dict[str, tuple[str, Any]]:
    return {
        column.name: (column.type, column.time.epoch) for column in propose_changes(keyed(*values), Debezium()).columns
    }


def test_the_key_is_that_of_the_records_and_only_it_is_required() -> None:
    values = (change("r", 1, ROW), change("d", 2, {"shop": "a", "id": 1, "price": None}), None, b"x")
    proposal = propose_changes(keyed(*values), Debezium())
    assert proposal.key == ("shop", "id")
    assert [column.name for column in proposal.columns if column.required] == ["shop", "id"]
    assert (proposal.records, proposal.unread) == (4, 1)


def test_a_boolean_of_mysql_that_is_a_number_in_a_snapshot_is_named() -> None:
    place = {"connector": "mysql", "lsn": None, "file": "binlog.000001"}
    rows = [{"shop": "a", "id": 1, "open": open_, "pieces": pieces} for open_, pieces in ((1, 0), (0, 7), (True, 1))]
    values = [change("u", None, row, source={**place, "pos": pos}) for pos, row in enumerate(rows, 4)]
    assert (
        'Column("open", "BOOLEAN", doc="", written=TextBoolean(true=[1, True], false=[0, False]))'
        in declaration_text("t", ["t"], propose_changes(keyed(*values), Debezium()))
    )
    (note,) = [text for text in propose_changes(keyed(*values[:2]), Debezium()).warnings if "only 0 and 1" in text]
    assert note.startswith("open: only 0 and 1.")
    of_postgres = [change("u", 7, row) for row in rows[:2]]
    assert not any("only 0 and 1" in text for text in propose_changes(keyed(*of_postgres), Debezium()).warnings)


def test_types_follow_from_the_form_of_all_values() -> None:
    expected = {
        "shop": ("STRING", None),
        "id": ("BIGINT", None),
        "price": ("DECIMAL(38,2)", None),
        "made": ("TIMESTAMP", "microseconds"),
        "sold": ("TIMESTAMP", None),
        "flag": ("BOOLEAN", None),
        "day": ("STRING", None),
        "note": ("STRING", None),
        "large": ("STRING", None),
    }
    assert types(change("r", 1, ROW)) == expected
    assert types(change("r", 1, ROW), change("u", 2, {**ROW, "price": "1.5"}))["price"] == ("STRING", None)
    assert types(with_schema(change("r", 1, {**ROW, "day": 19724}), DAY))["day"] == ("DATE", None)


def test_bytes_are_proposed_by_the_schema_of_a_record() -> None:
    row = {"shop": "a", "id": 1, "photo": "AQI=", "price": "AeJA", "note": "AQI="}
    price = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    fields: list[dict[str, Any]] = [{"type": "bytes", "field": name} for name in ("photo", "shop")]
    fields.append({**price, "field": "price"})
    records = keyed(with_schema(change("r", 1, row), *fields, {"type": "string", "field": "note"}), b"x", None)
    proposal = propose_changes(records, Debezium())
    columns = {column.name: (column.type, column.written) for column in proposal.columns}
    assert (columns["photo"], columns["note"]) == (("BINARY", "base64"), ("STRING", None))
    assert columns["price"] == ("DOUBLE", None)
    assert columns["shop"] == ("STRING", None), "no key has bytes"
    text = declaration_text("items", ["shop.public.items"], proposal)
    assert 'Column("photo", "BINARY", doc="", written="base64")' in text
    assert any(warning.startswith("photo, note: texts or bytes.") for warning in proposal.warnings)
    names: dict[str, Any] = {"__file__": ""}
    exec(text, names)  # noqa: S102 - the file that a user gets
    assert names["items"].decode(records[0].value)["photo"] == b"\x01\x02"


def test_bytes_without_a_schema_are_texts() -> None:
    assert types(change("r", 1, {**ROW, "note": "AQI="}))["note"] == ("STRING", None)


def test_the_file_reads_the_records_as_they_are() -> None:
    records = keyed(change("r", 1, ROW), change("u", 2, {**ROW, "large": UNAVAILABLE}))
    text = declaration_text("items", ["shop.public.items"], propose_changes(records, Debezium()))
    assert 'format=Debezium(decimal_handling_mode="string")' in text
    assert 'Column("large", "STRING", doc="", keep=True, null_erases=True)' in text
    assert "from lakehouse import Column, Debezium, StreamTable, Time\n" in text
    names: dict[str, Any] = {"__file__": ""}
    exec(text, names)  # noqa: S102 - the file that a user gets
    assert names["items"].decode(change("c", 3, ROW))["note"] == "x"


def test_a_change_stream_is_recognised_before_the_json_that_it_is_written_in() -> None:
    assert likely_formats([change("r", 1, ROW), change("d", 2, ROW), None])[0] == Debezium()
    plain = [json.dumps(ROW).encode()] * 3
    assert not any(form.has_changes for form in likely_formats([*plain, change("r", 1, ROW)]))


def test_the_schema_of_avro_shows_a_change_stream() -> None:
    fields = [{"name": name, "type": "string"} for name in ("before", "after", "source", "op")]
    envelope = WriterSchema(json.dumps({"type": "record", "name": "e", "fields": fields}))
    assert Debezium(Avro()).may_use(envelope)
    assert not Debezium(Avro()).may_use(WriterSchema(json.dumps({"type": "record", "name": "e", "fields": fields[1:]})))


@pytest.mark.parametrize("key", [None, b"7", b"\x00\x00\x00\x00\x01", '{"код": 1, "id": 1}'.encode()])
def test_a_key_that_names_no_column_is_guessed_with_a_warning(key: bytes | None) -> None:
    proposal = propose_changes([KeyedValue(key, change("r", 1, ROW))], Debezium())
    assert proposal.key == ("id",)
    assert any("Declare the primary key of the database in place of id" in warning for warning in proposal.warnings)
