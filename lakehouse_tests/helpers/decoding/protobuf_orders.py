"""Orders in Protobuf, and small schemas, with readers for tests."""

from functools import cache
from typing import Any

import pytest

from lakehouse import writer_schema
from lakehouse.declaration import Column, Protobuf, StreamTable
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import Schemas, WriterSchema
from lakehouse.decoding.formats.protobuf.reader import reader_of
from lakehouse.decoding.rules import Rules

FIRST = b"\x00"
MAX_VARINT = b"\xff" * 9 + b"\x01"
ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  string id = 1;
  int64 count = 2;
  optional int32 discount = 3;
  google.protobuf.Timestamp at = 4;
  google.protobuf.StringValue note = 5;
  repeated sint32 steps = 6;
  map<int32, Item> items = 7;
  oneof payment { string card = 8; bool cash = 9; }
  Kind kind = 10;
  Order parent = 11;
  message Item { string sku = 1; }
  enum Kind { NONE = 0; OLD = 1; }
}
message Refund { string id = 1; }
"""
LINE = b"""{"id": "a", "count": 5, "discount": 0, "at": "2026-01-31T12:00:00.123456Z", "note": "x", "steps": [1, -1],
    "items": {"5": {"sku": "q"}}, "cash": true, "kind": "OLD", "parent": {"id": "b"}}"""
SCHEMA = writer_schema(ORDER, kind="PROTOBUF")
SCHEMAS = Schemas({7: SCHEMA}, {})
RECORD = Protobuf().writer(7, SCHEMA)(LINE)
COLUMNS = (
    Column("id", "STRING", "An id.", required=True),
    Column("count", "BIGINT", "A number.", between=(0, 100)),
    Column("at", "TIMESTAMP", "A time."),
    Column("kind", "STRING", "An enum."),
    Column("steps", "ARRAY<INT>", "Numbers."),
    Column("items", "MAP<STRING, STRUCT<sku: STRING>>", "Items."),
    Column("parent", "STRING", "Of another.", source=("parent", "id")),
)
TABLE = StreamTable("orders", "orders", "Orders.", COLUMNS, key=["id"], format=Protobuf())
RULES = Rules(TABLE.fields, None, TABLE.format.parser(SCHEMAS))


def proto(*fields: str, syntax: str = "proto3") -> str:
    """The text of a file with a message of these fields."""
    imports = "".join(f'import "google/protobuf/{name}.proto";' for name in ("timestamp", "duration", "struct"))
    return f'syntax = "{syntax}"; {imports} message M {{ {" ".join(fields)} }} enum E {{ ZERO = 0; ONE = 1; }}'


@cache
def compiled(text: str) -> WriterSchema:
    """A schema, which is compiled once."""
    return writer_schema(text, kind="PROTOBUF")


def read(schema: str | WriterSchema, body: bytes, indexes: bytes = FIRST) -> dict[str, Any]:
    return reader_of(compiled(schema) if isinstance(schema, str) else schema)(indexes + body, 0)


def read_or_reason(schema: str | WriterSchema, body: bytes) -> dict[str, Any] | str:
    """The value of a record, or the reason of its rejection."""
    try:
        return read(schema, body)
    except Rejection as rejection:
        return rejection.reason


def rejection_reason(text: str, body: bytes, indexes: bytes = FIRST) -> str:
    with pytest.raises(Rejection) as rejected:
        read(text, body, indexes)
    return rejected.value.reason


def sized(tag: int, *contents: bytes) -> bytes:
    """Contents after their tags and sizes."""
    return b"".join(bytes([tag, len(content)]) + content for content in contents)


def comparable(value: Any) -> Any:
    """A value without the marks of unknown fields, with names in their order; NaN is equal to itself as text."""
    if isinstance(value, dict):
        return {name: comparable(value[name]) for name in sorted(value) if not name.startswith("#")}
    return [comparable(item) for item in value] if isinstance(value, list) else repr(value)


def varint(number: int) -> bytes:
    """A whole number of 64 bits, seven bits in each byte, the lowest first."""
    rest, content = number % 2**64, bytearray()
    while rest >= 0x80:
        content.append((rest & 0x7F) | 0x80)
        rest >>= 7
    return bytes([*content, rest])


def varint_field(tag: int, number: int) -> bytes:
    """A field whose value is a number."""
    return bytes([tag]) + varint(number)
