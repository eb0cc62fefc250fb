"""Keys of records with the id of a schema in front, their schemas, and tables that read them."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from lakehouse import writer_schema
from lakehouse.declaration import Column, RecordKey, StreamTable
from lakehouse.decoding.formats.framing import add_frame
from lakehouse_tests.helpers.brokers.registries import body

DAY = {"type": "int", "logicalType": "date"}
TIME = {"type": "long", "logicalType": "timestamp-micros"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
FIELDS: dict[str, Any] = {
    "id": "long",
    "home": ["null", "string"],
    "share": "double",
    "day": DAY,
    "at": TIME,
    "price": PRICE,
}
FIELDS |= {"raw": "bytes", "ratio": "float"}


def record_of(types: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Key", "fields": [{"name": name, "type": types[name]} for name in types]}


RECORD = record_of(FIELDS)
MESSAGE = """
syntax = "proto3";
message Other { string x = 1; }
message Key { int64 id = 1; string home = 2; double share = 3; bytes raw = 7; optional float ratio = 8; }
"""
SCHEMAS = {
    1: writer_schema(json.dumps(RECORD), of_key=True),
    2: writer_schema('"long"', of_key=True),
    3: writer_schema('{"type": "string"}', of_key=True),
    4: writer_schema('["null", "string", "long"]', of_key=True),
    5: writer_schema(json.dumps({"type": "record", "name": "Value", "fields": [{"name": "n", "type": "int"}]})),
    6: writer_schema(json.dumps({**DAY}), of_key=True),
    7: writer_schema(MESSAGE, kind="PROTOBUF", of_key=True),
}
AVRO_SCHEMAS = {id_: schema for id_, schema in SCHEMAS.items() if schema.kind == "AVRO"}
N = Column("n", "INT", "A field.")
TYPES = {"id": "BIGINT", "home": "STRING", "share": "DOUBLE", "day": "DATE", "at": "TIMESTAMP", "price": "DECIMAL(9,1)"}
TYPES |= {"raw": "BINARY", "ratio": "DECIMAL(6,3)"}
COLUMNS = [Column(name, type_, "Of the key.", source=RecordKey("avro", name)) for name, type_ in TYPES.items()]
PROTOBUF_COLUMNS = [
    Column(name, TYPES[name], "Of the key.", source=RecordKey("protobuf", name))
    for name in ("id", "home", "share", "raw", "ratio")
]
KEY = {
    "id": 7,
    "home": "north",
    "share": 0.5,
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, 30, tzinfo=UTC),
    "price": Decimal("12.35"),
    "raw": b"\x00\xff",
    "ratio": 0.1,
}


def table_of(*columns: Column, **options: Any) -> StreamTable:
    return StreamTable("t", "t", "T.", [*columns, N], [], **options)


def avro(schema_id: int, value: Any) -> bytes:
    """A key as clients of a registry write it."""
    return add_frame(schema_id, body(json.loads(SCHEMAS[schema_id].text), value))


PROTOBUF_BODY = b"\x08\x07\x12\x05north\x19" + bytes(6) + b"\xe0\x3f\x3a\x02\x00\xff\x45\xcd\xcc\xcc\x3d"
PROTOBUF_KEY = add_frame(7, b"\x02\x02" + PROTOBUF_BODY)
