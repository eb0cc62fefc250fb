"""Lines of JSON are written as Protobuf by a schema, and read again."""

import json
from decimal import Decimal
from typing import Any

import pytest

from lakehouse import Time, writer_schema
from lakehouse.declaration import Column, Protobuf, StreamTable
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import RegisteredSchema, Schemas, UnusableSchemaError, UnwritableError

COLUMNS = (
    Column("id", "STRING", "Id.", required=True),
    Column("n", "INT", "Number.", source=("box", "n")),
    Column("large", "BIGINT", "Number."),
    Column("price", "DECIMAL(12,2)", "Price."),
    Column("ratio", "DOUBLE", "Ratio."),
    Column("open", "BOOLEAN", "Whether."),
    Column("at", "TIMESTAMP", "Time."),
    Column("day", "DATE", "Day."),
    Column("made", "TIMESTAMP", "Time.", written=Time("%Y-%m-%d")),
    Column("sent", "TIMESTAMP", "Time.", written=Time(epoch="seconds")),
    Column("tags", "ARRAY<STRING>", "Tags."),
    Column("parts", "ARRAY<STRUCT<sku: STRING, n: INT>>", "Parts."),
    Column("notes", "MAP<STRING, BIGINT>", "Notes."),
)
TABLE = StreamTable("orders", "orders", "Orders.", COLUMNS, key=["id"], format=Protobuf())
LINE = b"""{"id": "a", "box": {"n": 3}, "large": 9, "price": 12.3, "ratio": 0.5, "open": true,
    "at": "2026-01-31T12:00:00.5+00:00", "day": "2026-01-31", "made": "2026-01-31", "sent": 0, "tags": ["x", ""],
    "parts": [{"sku": "q", "n": 0}, {"sku": "r"}], "notes": {"k": -1}}"""


def test_a_declaration_gives_a_schema_by_which_lines_are_written_and_read() -> None:
    text = Protobuf().declared_schema(TABLE.name, TABLE.fields)
    schema = Protobuf().writer_schema(RegisteredSchema(text, (), "PROTOBUF"))
    row = TABLE.decode(Protobuf().writer(3, schema)(LINE), schemas={3: schema})
    json_line = LINE.replace(b"2026-01-31T12:00:00.5+00:00", b"2026-01-31T12:00:00.500000")
    patterns = {"at": "%Y-%m-%dT%H:%M:%S.%f", "day": "%Y-%m-%d"}
    columns = [
        Column(c.name, c.type, c.doc, required=c.required, source=c.source, written=c.written)
        if c.name not in patterns
        else Column(c.name, c.type, c.doc, written=Time(patterns[c.name]))
        for c in COLUMNS
    ]
    assert row == StreamTable("orders", "orders", "Orders.", columns, key=["id"]).decode(json_line)
    sparse_record = Protobuf().writer(3, schema)(b'{"id": "a", "large": null}')
    assert TABLE.decode(sparse_record, schemas={3: schema})["large"] is None, "absent, and not 0"


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (Column("a", "DECIMAL(20,2)", "A."), "no number of Protobuf has more than 15 digits"),
        (Column("a", "ARRAY<ARRAY<INT>>", "A."), "no arrays or maps of these"),
        (Column("a", "STRING", "A.", source="a-b"), "'a-b' cannot be a name in Protobuf"),
    ],
)
def test_a_column_that_no_message_can_fill_is_refused(column: Column, message: str) -> None:
    with pytest.raises(UnusableSchemaError, match=message):
        Protobuf().declared_schema("t", [column.field])


WRITTEN = """syntax = "proto3"; import "google/protobuf/struct.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto"; import "confluent/type/decimal.proto";
message M { uint32 n = 1; E e = 2; oneof o { string s = 3; bool b = 4; } google.protobuf.Struct props = 5;
  google.protobuf.Duration took = 6; google.protobuf.Int64Value maybe = 7; confluent.type.Decimal price = 8;
  map<bool, sint64> map = 9; bytes raw = 10; repeated float list = 11; google.protobuf.Value any = 12; M inner = 13;
  fixed64 fixed = 14; optional string text = 15; }
enum E { ZERO = 0; MINUS = -1; }"""
WRITTEN_SCHEMA = writer_schema(WRITTEN, kind="PROTOBUF")


@pytest.mark.parametrize(
    "line",
    [
        b'{"n": 4294967295, "e": "MINUS", "s": "", "took": -1.000000001, "maybe": 0, "price": -12.30, "raw": "YWI="}',
        b'{"props": {"a": [1.5, null, true, {"b": "c"}], "d": {}}, "any": [], "map": {"true": -9, "false": 0}}',
        b'{"inner": {"inner": {"n": 1}}, "list": [0.5, 7.1], "fixed": 18446744073709551615, "text": ""}',
    ],
)
def test_what_a_line_says_is_read_again(line: bytes) -> None:
    parser = Protobuf().parser(Schemas({3: WRITTEN_SCHEMA}, {}))
    value = Protobuf().as_json(parser(Protobuf().writer(3, WRITTEN_SCHEMA)(line)))
    expected = json.loads(line, parse_float=Decimal)
    expected = {**expected, **({"raw": b"ab"} if "raw" in expected else {})}
    assert {name: value[name] for name in expected if name != "inner"} == {
        name: raw for name, raw in expected.items() if name != "inner"
    }


def test_fields_may_have_the_names_of_what_the_library_has() -> None:
    names = ("HasField", "WhichOneof", "IsInitialized", "SetInParent", "DESCRIPTOR", "SerializeToString", "__class__")
    fields = " ".join(f"required string {name} = {number};" for number, name in enumerate(names, 1))
    oneof = "oneof FromString { string ByteSize = 20; M FindInitializationErrors = 21; }"
    text = f'syntax = "proto2"; message M {{ {fields} repeated M Clear = 9; map<string, M> key = 10; {oneof} }}'
    schema = writer_schema(text, kind="PROTOBUF")
    bare_value: dict[str, Any] = dict.fromkeys(names, "x") | {"Clear": [], "key": {}}
    value = {**bare_value, "Clear": [bare_value], "key": {"k": bare_value}, "FindInitializationErrors": bare_value}
    record = Protobuf().writer(3, schema)(json.dumps(value).encode())
    assert Protobuf().parser(Schemas({3: schema}, {}))(record) == value


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"n": -1}', "not a whole number in the range of uint32"),
        (b'{"n": 1.5}', "not a whole number"),
        (b'{"n": "1"}', "'1' is not a number"),
        (b'{"x": 1}', "message M has no field 'x'"),
        (b'{"e": "NO"}', "NO"),
        (b'{"s": "a", "b": true}', "a oneof of message M has two values"),
        (b'{"list": [1e39]}', ""),
        (b'{"took": 1e-10}', "more than nine decimal places"),
        (b'{"price": 1e999}', "too many digits"),
        (b'{"raw": "?"}', ""),
        (b'{"map": {"x": 1}}', ""),
        (b"[]", "not an object"),
        (b"{", ""),
    ],
)
def test_a_line_that_does_not_fit_the_schema_is_refused(line: bytes, message: str) -> None:
    with pytest.raises(UnwritableError, match=f"it does not fit schema 3: .*{message}"):
        Protobuf().writer(3, WRITTEN_SCHEMA)(line)


def test_a_record_of_an_unknown_message_is_rejected_by_a_table() -> None:
    schema = writer_schema(Protobuf().declared_schema(TABLE.name, TABLE.fields), kind="PROTOBUF")
    with pytest.raises(Rejection, match="no message with the indexes"):
        TABLE.decode(b"\x00\x00\x00\x00\x03\x02\x40", schemas={3: schema})
