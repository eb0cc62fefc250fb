"""``lakehouse new-table --from-topic``: the format and the types of the newest records of topics, and their keys."""

import gzip
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakehouse.cli import main
from lakehouse.declaration import Avro, Json, RecordKey
from lakehouse.decoding.formats.avro.schemas import writer_schema
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.kafka import Record
from lakehouse_tests.helpers.brokers.registries import SECOND, Answer, answering_registry, encode_records, schema_answer
from lakehouse_tests.helpers.new_tables import ORDERS, SHOP, declared_table, new_table, new_table_from_topic

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
AVRO_VALUES = encode_records(
    7,
    SECOND,
    [{"id": Decimal(n), "at": NOON, "total": 1.5, "customer": {"name": SHOP}, "channel": "a"} for n in (1, 2)],
)


def test_the_file_for_avro_records_declares_avro_and_decodes_them(
    folder: Path, outside_project: pytest.MonkeyPatch
) -> None:
    with answering_registry({"/schemas/ids/7": schema_answer(SECOND)}) as (url, _):
        outside_project.setenv("LAKEHOUSE_REGISTRY_URL", url)
        output = new_table_from_topic(outside_project, *AVRO_VALUES, AVRO_VALUES[0][:-1])
        assert "from 3 records; 1 of them cannot be read by their schemas: " in output
    text = (folder / "orders.py").read_text()
    assert "from lakehouse import Avro, Column, StreamTable" in text and "    format=Avro(),\n" in text
    table = declared_table("orders")
    assert (table.format, table.key) == (Avro(), ["id"])
    row = table.decode(AVRO_VALUES[1], schemas={7: writer_schema(json.dumps(SECOND))})
    assert (row["id"], row["at"], row["customer_name"]) == (2, NOON, SHOP)


KEY = {
    "type": "record",
    "name": "Key",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "home", "type": {"type": "record", "name": "Home", "fields": [{"name": "region", "type": "string"}]}},
    ],
}
KEY_7 = {"id": 7, "at": NOON, "home": {"region": "north"}}


@pytest.mark.parametrize(
    ("schema", "key", "columns"),
    [
        (KEY, KEY_7, {"key_id": 7, "at": NOON, "home_region": "north"}),
        ("string", "é", {"record_key": "é"}),
        (["null", "long"], 8, {"record_key": 8}),
    ],
)
def test_the_file_has_a_column_for_a_key_whose_schema_is_known(
    outside_project: pytest.MonkeyPatch,
    schema: Any,
    key: Any,
    columns: dict[str, Any],
) -> None:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), key)
    framed_key = add_frame(9, body.getvalue())
    with answering_registry({"/schemas/ids/9": schema_answer(json.dumps(schema))}) as (url, _):
        outside_project.setenv("LAKEHOUSE_REGISTRY_URL", url)
        output = new_table_from_topic(outside_project, b'{"id": 1}', b'{"id": 2}', key=framed_key)
        assert "Every key is Avro, by its schema at the registry" in output
    schemas = {9: writer_schema(json.dumps(schema), any_type=True)}
    row = declared_table("orders").decode(b'{"id": 1}', key=framed_key, schemas=schemas)
    assert row == {**columns, "id": 1}


def test_the_file_for_values_and_keys_in_avro_reads_both(folder: Path, outside_project: pytest.MonkeyPatch) -> None:
    schemas = {"/schemas/ids/7": schema_answer(SECOND), "/schemas/ids/9": schema_answer('"long"')}
    with answering_registry(schemas) as (url, _):
        outside_project.setenv("LAKEHOUSE_REGISTRY_URL", url)
        new_table_from_topic(outside_project, *AVRO_VALUES, key=add_frame(9, b"\x0e"))
    assert declared_table("orders").by_name["record_key"].source == RecordKey("avro")


@pytest.mark.parametrize("key", [add_frame(9, b"\x0e\x0e"), add_frame(8, b"\x0e")])
def test_the_file_has_no_column_for_keys_that_no_schema_reads(
    folder: Path, outside_project: pytest.MonkeyPatch, key: bytes
) -> None:
    with answering_registry({"/schemas/ids/9": schema_answer('"long"')}) as (url, _):
        outside_project.setenv("LAKEHOUSE_REGISTRY_URL", url)
        new_table_from_topic(outside_project, b'{"id": 1}', b'{"id": 2}', key=key)
    assert [column.name for column in declared_table("orders").columns] == ["id"]
    comment = " ".join((folder / "orders.py").read_text().replace("#", "").split())
    assert "Every key seems to begin with the id of a schema" in comment


def test_the_file_for_framed_json_declares_it_without_a_registry(
    folder: Path, outside_project: pytest.MonkeyPatch
) -> None:
    value = add_frame(3, b'{"id": 1, "at": "2026-01-01"}')
    new_table_from_topic(outside_project, value)
    table = declared_table("orders")
    assert table.format == Json(framed=True)
    assert table.decode(value)["id"] == 1


@pytest.mark.parametrize(
    ("values", "line", "row"),
    [
        (
            [gzip.compress(json.dumps(order).encode()) for order in ORDERS],
            '    format=Compressed(Json(), "gzip"),\n',
            {"order_id": 1, "shop": SHOP, "price": 0.5},
        ),
        (
            [b"1,2026-01-31,2.5", b"2,2026-02-01,3"],
            '    format=Csv(columns=["column_1", "column_2", "column_3"]),\n',
            {"column_1": 1, "column_2": date(2026, 1, 31), "column_3": 2.5},
        ),
        ([b'level=info msg="a b"', b"level=warn msg=c"], "    format=Logfmt(),\n", {"level": "info", "msg": "a b"}),
        ([b"21.5", b"22"], "    format=Text(),\n", {"value": 21.5}),
    ],
    ids=["gzip", "csv", "logfmt", "text"],
)
def test_the_file_for_another_format_declares_it_and_says_why(
    folder: Path, outside_project: pytest.MonkeyPatch, values: list[bytes], line: str, row: dict[str, object]
) -> None:
    new_table_from_topic(outside_project, *values)
    text = (folder / "orders.py").read_text()
    table = declared_table("orders")
    assert line in text
    notes = [*table.format.notes(values)]
    assert notes
    for note in notes:
        assert note in " ".join(text.replace("#", " ").split())
    decoded_row = table.decode(values[0])
    assert {name: decoded_row[name] for name in row} == row


def test_a_format_with_many_columns_is_wrapped_in_the_file(folder: Path, outside_project: pytest.MonkeyPatch) -> None:
    values = [",".join(str(number * factor) for number in range(60)).encode() for factor in (1, 2)]
    new_table_from_topic(outside_project, *values)
    assert max(map(len, (folder / "orders.py").read_text().splitlines())) <= 120
    assert declared_table("orders").decode(values[1])["column_60"] == 118


def test_records_that_a_text_format_cannot_read_are_counted(folder: Path, outside_project: pytest.MonkeyPatch) -> None:
    output = new_table_from_topic(outside_project, b"a=1 b=2", b"a=2 b=3", b"a=1 a=2")
    assert "from 3 records; 1 of them cannot be read as Logfmt: " in output


def test_without_a_registry_the_error_names_its_setting(folder: Path, outside_project: pytest.MonkeyPatch) -> None:
    output = new_table_from_topic(outside_project, *AVRO_VALUES, code=main.FAILED)
    assert "Set LAKEHOUSE_REGISTRY_URL to the registry" in output
    outside_project.setenv("LAKEHOUSE_REGISTRY_URL", "http://127.0.0.1:1")
    assert "cannot be reached" in new_table_from_topic(outside_project, *AVRO_VALUES, code=main.FAILED)
    assert not any(folder.iterdir())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((404, '{"error_code": 40403, "message": "no"}'), "schema 7 is not known (2); "),
        (schema_answer("message R {}", schemaType="PROTOBUF"), "the schema has no message with the indexes"),
        (schema_answer("{}", schemaType="JSON"), "schema 7: it is a schema of JSON, not of Avro"),
    ],
)
def test_a_schema_that_reads_no_record_is_named_with_the_reason(
    folder: Path, outside_project: pytest.MonkeyPatch, answer: Answer, message: str
) -> None:
    with answering_registry({"/schemas/ids/7": answer}) as (url, _):
        outside_project.setenv("LAKEHOUSE_REGISTRY_URL", url)
        assert message in new_table_from_topic(outside_project, None, *AVRO_VALUES, code=main.FAILED)
    assert not any(folder.iterdir())


UNION = {
    "type": "record",
    "name": "E",
    "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": ["null", "string", "long"]}],
}


@pytest.mark.parametrize(("condition", "count"), [([], "2 records"), (["--where", "v.long=5"], "1 record")])
def test_the_file_for_a_union_has_a_column_for_each_branch(
    folder: Path, outside_project: pytest.MonkeyPatch, condition: list[str], count: str
) -> None:
    values = [add_frame(7, b"\x02\x02\x02a"), add_frame(7, b"\x04\x04\x0a")]
    with answering_registry({"/schemas/ids/7": schema_answer(UNION)}) as (url, _):
        outside_project.setenv("LAKEHOUSE_REGISTRY_URL", url)
        new_table_from_topic(outside_project, *values, condition=condition)
    table = declared_table("orders")
    assert table.format == Avro(named_branches=True)
    assert [column.source for column in table.columns] == [None, ("v", "string"), ("v", "long")][: len(table.columns)]
    schemas = {7: writer_schema(json.dumps(UNION))}
    assert table.decode(values[1], schemas=schemas)["v_long"] == 5
    assert f"Proposed from {count}." in (folder / "orders.py").read_text()


def test_single_objects_are_refused_with_their_fingerprints(folder: Path, outside_project: pytest.MonkeyPatch) -> None:
    value = b"\xc3\x01" + bytes(range(1, 9)) + b"\x02"
    error = new_table_from_topic(outside_project, value, value, b"{}", code=main.FAILED)
    assert "The fingerprints of their schemas are 0102030405060708" in error
    assert "Avro(schemas=[...])" in error
    assert not list(folder.iterdir())


def comments_in(folder: Path) -> str:
    """The file of the table orders, as one line without signs of comments."""
    return " ".join((folder / "orders.py").read_text().replace("#", "").split())


def test_the_file_has_a_column_for_text_keys_that_the_values_lack(
    folder: Path, outside_project: pytest.MonkeyPatch
) -> None:
    new_table_from_topic(outside_project, b"21.5", b"22", key=b"sensors/a/temp")
    assert "Every key is text, such as 'sensors/a/temp': record_key is the key of the record." in comments_in(folder)
    table = declared_table("orders")
    assert table.by_name["record_key"].source == RecordKey()
    assert table.decode(b"20", key=b"sensors/b") == {"record_key": "sensors/b", "value": 20.0}


def test_a_condition_chooses_the_records_whose_keys_are_compared(
    folder: Path, outside_project: pytest.MonkeyPatch
) -> None:
    values = [b'{"type": "a", "id": "k"}', b'{"type": "b", "no": 1}']
    new_table_from_topic(outside_project, *values, key=b"k", condition=["--where", "type=a"])
    assert "Every key is text, such as 'k', equal to id." in comments_in(folder)


def test_several_topics_become_one_table_of_all_their_records(
    folder: Path, outside_project: pytest.MonkeyPatch
) -> None:
    contents = {"orders.eu": {"order_id": 1, "vat": 19}, "orders.us": {"order_id": 2, "state": "NY"}}
    requests = []

    def newest_records(_: object, topic: str, count: int) -> list[Record]:
        requests.append((topic, count))
        return [Record(0, 0, 0, None, json.dumps(contents[topic]).encode())]

    outside_project.setattr("lakehouse.kafka.newest_records", newest_records)
    options = [part for topic in contents for part in ("--from-topic", topic)]
    new_table("orders", *options, "--records", "10")
    assert requests == [("orders.eu", 5), ("orders.us", 5)]
    table = declared_table("orders")
    assert (table.topics, table.topic) == (["orders.eu", "orders.us"], "")
    assert {column.name for column in table.columns} == {"order_id", "vat", "state"}
    comments = comments_in(folder)
    assert 'source=TopicPattern("orders\\\\..*")' in comments
    assert "source=TopicName()" in comments


def test_a_topic_whose_name_is_invalid_is_refused(folder: Path) -> None:
    assert "b,c is not a valid topic name" in new_table(
        "orders", "--from-topic", "a", "--from-topic", "b,c", code=main.WRONG_USE
    )


def test_framed_json_with_a_schema_at_the_registry_gets_the_line_that_checks_it(
    folder: Path, outside_project: pytest.MonkeyPatch
) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer", "minimum": 1}}, "required": ["id"]}
    values = [add_frame(3, b'{"id": 1}'), add_frame(3, b'{"id": 0}')]
    with answering_registry({"/schemas/ids/3": schema_answer(schema, schemaType="JSON")}) as (url, _):
        outside_project.setenv("LAKEHOUSE_REGISTRY_URL", url)
        new_table_from_topic(outside_project, *values)
    assert "1 of 2 meet it. To reject records that violate it, write format=Json(framed=True, checked=True)." in (
        comments_in(folder)
    )
    assert declared_table("orders").format == Json(framed=True)
