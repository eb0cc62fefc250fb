"""``where=SchemaIs``: the name of its schema decides whether a record belongs to the table, on both paths."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lakehouse import Deletes, writer_schema
from lakehouse.declaration import (
    Avro,
    Column,
    Compressed,
    ConnectJson,
    Protobuf,
    RecordKey,
    Rejection,
    SchemaIs,
    StreamTable,
    Tombstone,
)
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.formats.unpacking.compression import compress
from lakehouse.decoding.staged import FILTERED
from lakehouse_tests.helpers.decoding.both_paths import rows_twice

COLUMNS = [Column("id", "INT", "Which.", required=True), Column("total", "INT", "How much.")]
ORDER = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "int"}]}
REFUND = {"type": "record", "name": "shop.Refund", "fields": [{"name": "number", "type": "string"}]}
PROTO = 'syntax = "proto3"; package shop; message Order { int32 id = 1; } message Refund { string number = 1; }'
ROW, OTHER_ROW = b'{"id": 7}', b'{"number": "a"}'


def table_of(form: Format, **options: Any) -> StreamTable:
    return StreamTable("t", "t", "T.", COLUMNS, ["id"], format=form, where=SchemaIs(["shop.Order"]), **options)


def judge_all(table: StreamTable, values: list[bytes | None], schemas: Schemas) -> list[tuple[Any, Any]]:
    """The ids and the reasons, which both paths give."""
    return [(row["id"], row["_reason"]) for row in rows_twice(values, table.rules(schemas))]


def test_records_of_another_schema_of_a_topic_are_filtered() -> None:
    schemas = {7: writer_schema(json.dumps(ORDER)), 8: writer_schema(json.dumps(REFUND))}
    first, second = Avro().writer(7, schemas[7])(ROW), Avro().writer(8, schemas[8])(OTHER_ROW)
    all_schemas, table = Schemas(schemas, {}), table_of(Avro())
    assert judge_all(table, [first, second, first], all_schemas) == [(7, None), (None, FILTERED), (7, None)]
    assert judge_all(table, [b"\x00\x00\x00\x00\x09a", b"\x01", None], all_schemas) == [
        (None, "unknown_schema"),
        (None, "wrong_magic"),
        (None, "tombstone"),
    ]
    with pytest.raises(Rejection, match=FILTERED):
        table.decode(second, schemas=schemas)


def test_the_branch_of_a_union_of_records_decides() -> None:
    schema = writer_schema(json.dumps([ORDER, REFUND]))
    first, second = (b"\x00\x00\x00\x00\x07\x00\x0e", b"\x00\x00\x00\x00\x07\x02\x02a")
    all_schemas = Schemas({7: schema}, {})
    assert judge_all(table_of(Avro()), [first, second], all_schemas) == [(7, None), (None, FILTERED)]
    assert judge_all(table_of(Avro()), [first[:5], first[:5] + b"\x08"], all_schemas) == [
        (None, "truncated"),
        (None, "invalid_avro"),
    ]


def test_the_place_of_a_message_of_protobuf_decides() -> None:
    schema = writer_schema(PROTO, kind="PROTOBUF")
    frame = b"\x00\x00\x00\x00\x07"
    values: list[bytes | None] = [frame + b"\x00\x08\x07", frame + b"\x02\x02\x0a\x01a", frame + b"\x02\x08"]
    assert judge_all(table_of(Protobuf()), values, Schemas({7: schema}, {})) == [
        (7, None),
        (None, FILTERED),
        (None, "invalid_protobuf"),
    ]


@pytest.mark.parametrize("form", [ConnectJson(), Compressed(ConnectJson(), "gzip")], ids=repr)
def test_the_name_of_the_schema_in_a_record_decides(form: Format) -> None:
    names = ["shop.Order", "shop.Refund", None, 5]
    values = [json.dumps({"schema": {"name": name}, "payload": {"id": 7}}).encode() for name in names]
    values = [compress(value, form.codec) for value in values] if isinstance(form, Compressed) else values
    assert form.names_records
    assert judge_all(table_of(form), [*values], Schemas({}, {})) == [(7, None), *[(None, FILTERED)] * 3]


def test_a_tombstone_has_no_schema_and_deletes() -> None:
    table = table_of(Avro())
    columns = [replace(COLUMNS[0], source=RecordKey()), COLUMNS[1]]
    deleting = replace(table, columns=columns, deletes=Deletes(when=Tombstone()))
    assert deleting.decode(None, key=b"7")["id"] == 7
