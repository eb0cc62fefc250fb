"""Lines of JSON are written by an Avro schema with the same meaning, or not at all."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakehouse.declaration import Avro, Column, Json, RecordHeader, StreamTable, TextBoolean, TextNumber, Time
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.avro.declared import schema_of_fields
from lakehouse.decoding.formats.avro.schemas import writer_schema
from lakehouse.decoding.formats.avro.writing import line_writer
from lakehouse.decoding.formats.format import Schemas, UnusableSchemaError, UnwritableError
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.errors import TopicError
from lakehouse.kafka.publish import PublishOptions, choose_value_writer, publish
from lakehouse_tests.helpers.brokers.registries import (
    COLUMNS,
    RECORD,
    answering_registry,
    order_table,
    schema_answer,
    settings_of,
)


def schema_of(type_: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": type_}]})


NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


def read_back(schema: str, line: bytes) -> Any:
    writer = writer_schema(schema)
    return Avro().parser(Schemas({1: writer}, {}))(line_writer(1, writer)(line))


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("long", "7", 7),
        ("int", "7.0", 7),
        ("double", "7", 7.0),
        ("boolean", "true", True),
        (["null", "string"], "null", None),
        (["null", "string"], '"a"', "a"),
        (["null", "string", "long"], "5", 5),
        (DECIMAL, "1.25", Decimal("1.25")),
        (DECIMAL, '"1.25"', Decimal("1.25")),
        (MILLIS, "1000", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (MILLIS, '"1970-01-01T00:00:01Z"', datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (MILLIS, '"1970-01-01T00:00:01"', datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ({"type": "int", "logicalType": "date"}, '"1970-01-02"', date(1970, 1, 2)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, '"A"', "A"),
        ({"type": "array", "items": "long"}, "[1, 2]", [1, 2]),
        ({"type": "map", "values": ["null", "long"]}, '{"a": 1, "b": null}', {"a": 1, "b": None}),
    ],
)
def test_a_value_keeps_its_meaning(type_: Any, text: str, value: Any) -> None:
    assert read_back(schema_of(type_), f'{{"v": {text}}}'.encode()) == {"v": value}


@pytest.mark.parametrize(
    ("type_", "line"),
    [
        ("long", b"{"),
        ("long", b"[1]"),
        ("long", b"{}"),
        ("long", b'{"v": 1.5}'),
        ("long", b'{"v": "1"}'),
        ("long", b'{"v": true}'),
        ("long", b'{"v": 9223372036854775808}'),
        ("int", b'{"v": 3000000000}'),
        ("int", b'{"v": 1e99999999}'),
        ("double", b'{"v": 1e400}'),
        (MILLIS, b'{"v": "2026-01-01T00:00:00.0005Z"}'),
        (LOCAL, b'{"v": "2026-01-01T00:00:00+02:00"}'),
        ("long", b'{"v": 1, "more": 2}'),
        ("string", b'{"v": null}'),
        (DECIMAL, b'{"v": 1.255}'),
        (DECIMAL, b'{"v": 12345.67}'),
        (DECIMAL, b'{"v": "much"}'),
        (MILLIS, b'{"v": "tomorrow"}'),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b'{"v": "B"}'),
        (["null", "long"], b'{"v": "text"}'),
        (NODE, b'{"v": ' + b'{"next": ' * 400 + b"null" + b"}" * 400 + b"}"),
    ],
)
def test_a_line_that_does_not_fit_the_schema_is_an_error(type_: Any, line: bytes) -> None:
    writer = writer_schema(schema_of(type_))
    with pytest.raises(UnwritableError, match="it does not fit schema 1: "):
        line_writer(1, writer)(line)


# a column, what a line has for it, and what the declaration reads
WRITTEN: list[tuple[Column, Any, Any]] = [
    (Column("paid", "BOOLEAN", "Whether."), None, None),
    (Column("number", "INT", "A number.", required=True), 1, 1),
    (Column("day", "DATE", "A day."), "2026-01-02", date(2026, 1, 2)),
    (
        Column("hour", "TIMESTAMP", "", written=Time("%Y-%m-%dT%H")),
        "2026-01-01T12",
        datetime(2026, 1, 1, 12, tzinfo=UTC),
    ),
    (Column("seen", "TIMESTAMP", "", written=Time(epoch="seconds")), 3, datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)),
    (
        Column("sent", "TIMESTAMP", "A text.", written=Time("iso8601")),
        "2026-01-01T12:00:00.5+02:00",
        datetime(2026, 1, 1, 10, 0, 0, 500_000, tzinfo=UTC),
    ),
    (
        Column("local", "TIMESTAMP", "A local time.", written=Time(zone="Europe/Berlin")),
        "2026-01-01T12:00:00",
        datetime(2026, 1, 1, 11, tzinfo=UTC),
    ),
    (
        Column("exact", "TIMESTAMP", "", written=Time(epoch="nanoseconds")),
        1500,
        datetime(1970, 1, 1, 0, 0, 0, 2, tzinfo=UTC),
    ),
    (Column("trace", "STRING", "Of a header.", source=RecordHeader("trace")), None, None),
]
ORDER = {"id": 5, "at": "2026-01-01T12:00:00Z", "total": 2.5, "customer": {"name": "Ann", "address": {"city": "Oslo"}}}
ORDER_ROW = {"id": Decimal(5), "ordered_at": datetime(2026, 1, 1, 12, tzinfo=UTC), "total": 2.5, "customer": "Ann"}


def test_a_schema_generated_from_a_declaration_writes_what_the_declaration_reads() -> None:
    city = Column("city", "STRING", "Where.", source=("customer", "address", "city"))
    columns = [*COLUMNS, city, *(column for column, _, _ in WRITTEN)]
    table: StreamTable = replace(order_table(), columns=columns)
    line = ORDER | {column.name: text for column, text, _ in WRITTEN if text is not None}
    writer = writer_schema(schema_of_fields(table.name, table.fields))
    row = table.decode(line_writer(1, writer)(json.dumps(line).encode()), schemas={1: writer})
    assert row == ORDER_ROW | {"city": "Oslo"} | {column.name: value for column, _, value in WRITTEN}


GERMAN = TextNumber(decimal=",", thousands=".")
FORMS = [
    (Column("a", "DECIMAL(9,2)", "", written="text"), "string", '"12.5"', Decimal("12.50")),
    (Column("b", "INT", "", written="text_or_number"), ["string", "int"], '"5"', 5),
    (Column("c", "INT", "", written="text_or_number"), ["string", "int"], "5", 5),
    (Column("d", "DECIMAL(9,2)", "", written=GERMAN), "string", '"1.234,5"', Decimal("1234.50")),
    (Column("e", "BOOLEAN", "", written="text"), "string", '"true"', True),
    (Column("f", "BOOLEAN", "", written=TextBoolean(["Y", 1], ["N", 0])), ["string", "long"], "1", True),
    (Column("g", "BOOLEAN", "", written=TextBoolean([True], ["N"])), ["string", "boolean"], '"N"', False),
    (Column("h", "DATE", "", written=Time("%Y%m%d", written="number")), "long", "20260131", date(2026, 1, 31)),
    (Column("i", "STRING", "", written="number"), "long", "123456789012345678", "123456789012345678"),
    (Column("j", "STRING", "", written="text_or_number"), ["string", "long"], "5", "5"),
    (Column("k", "DECIMAL(9,2)", "", written="connect"), "string", '"AeJA"', Decimal("1234.56")),
    (
        Column("l", "TIMESTAMP", "", written=Time(epoch="seconds", written="text_or_number")),
        ["string", "long"],
        "3",
        datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC),
    ),
    (
        Column("m", "DECIMAL(5,2)", "", written=TextNumber(or_number=True)),
        ["string", DECIMAL],
        "2.5",
        Decimal("2.50"),
    ),
]


@pytest.mark.parametrize("is_required", [False, True])
def test_a_generated_schema_has_the_types_of_values_in_another_form(is_required: bool) -> None:
    columns = [replace(column, required=is_required) for column, *_ in FORMS]
    table = StreamTable("t", "t", "", [Column("id", "INT", "", required=True), *columns], ["id"], format=Avro())
    schema = schema_of_fields(table.name, table.fields)
    types = {field["name"]: field["type"] for field in json.loads(schema)["fields"]}
    for column, type_, *_ in FORMS:
        union = type_ if isinstance(type_, list) else [type_]
        assert types[column.name] == (type_ if is_required else ["null", *union])
    values = ",".join(f'"{column.name}":{text}' for column, _, text, _ in FORMS)
    writer = writer_schema(schema)
    row = table.decode(line_writer(1, writer)(f'{{"id":1,{values}}}'.encode()), schemas={1: writer})
    assert row == {"id": 1} | {column.name: value for column, *_, value in FORMS}


def nested_schema(*columns: Column) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(schema_of_fields("R", order_table(columns=[*COLUMNS, *columns]).fields))
    writer_schema(json.dumps(schema))
    return {field["name"]: field["type"] for field in schema["fields"]}


STREET = Column("street", "STRUCT<street: STRING>", "Where.", source="address")
CITY = Column("city", "STRING", "Where.", source=("address", "city"))


@pytest.mark.parametrize("columns", [(STREET, CITY), (CITY, STREET)])
def test_a_schema_has_the_fields_of_a_struct_and_of_other_columns_of_the_same_object(columns) -> None:
    _, address = nested_schema(*columns)["address"]
    assert {field["name"] for field in address["fields"]} == {"street", "city"}


def test_the_elements_of_arrays_and_maps_in_a_schema_may_be_null() -> None:
    lines = Column("lines", "ARRAY<STRUCT<sku: STRING, by: MAP<STRING, INT>>>", "What.")
    _, array = nested_schema(lines)["lines"]
    _, item = array["items"]
    assert [field["type"] for field in item["fields"]] == [
        ["null", "string"],
        ["null", {"type": "map", "values": ["null", "int"]}],
    ]


def test_a_field_of_two_types_has_no_schema() -> None:
    lines = [Column(f"l{name}", f"ARRAY<STRUCT<{name}: INT>>", "", source="lines") for name in "ab"]
    with pytest.raises(UnusableSchemaError, match="'lines' with two different types"):
        nested_schema(*lines)


@pytest.mark.parametrize("columns", [(0, 1), (1, 0)])
def test_a_field_that_columns_read_whole_and_in_parts_has_no_schema(columns) -> None:
    address_columns = (CITY, Column("all", "MAP<STRING, STRING>", "All.", source="address"))
    with pytest.raises(UnusableSchemaError, match="'address' both as a whole and by its fields"):
        nested_schema(*(address_columns[number] for number in columns))


def test_the_depth_limit_of_a_schema_does_not_depend_on_the_call_stack() -> None:
    deep: Any = "long"
    for number in range(60):
        deep = ["null", {"type": "record", "name": f"R{number}", "fields": [{"name": "in", "type": deep}]}]
    with pytest.raises(UnusableSchemaError, match="its JSON has more than 150 levels"):
        writer_schema(schema_of(deep))


def test_a_schema_of_another_subject_strategy_is_found_by_its_subject() -> None:
    table = StreamTable("t", "orders", "T.", [Column("a", "BIGINT", "A number.", required=True)], ["a"], format=Avro())
    answers = {
        f"/subjects/{subject}/versions/latest": (200, json.dumps({"id": schema_id}))
        for subject, schema_id in {"orders-value": 1, "shop.R": 2, "orders-shop.R": 3}.items()
    }
    answers |= {f"/schemas/ids/{schema_id}": schema_answer(RECORD) for schema_id in (1, 2, 3)}
    with answering_registry(answers) as (url, _):
        for subject, schema_id in ((None, 1), ("shop.R", 2), ("orders-shop.R", 3)):
            write, parse = choose_value_writer(settings_of(url), table, None, subject)
            assert write(b'{"a": 5}') == add_frame(schema_id, b"\x0a")
            assert parse(write(b'{"a": 5}')) == {"a": 5}


@pytest.mark.parametrize("form", [Json(), Avro(schema=RECORD)])
def test_a_format_without_a_registry_has_no_subject(form: Format) -> None:
    table = StreamTable("t", "t", "T.", [Column("a", "BIGINT", "A number.", required=True)], ["a"], format=form)
    for options in (PublishOptions(subject="shop.R"), PublishOptions(schema=RECORD)):
        with pytest.raises(TopicError, match="takes no (subject|schema) from a registry") as raised:
            publish(settings_of("http://127.0.0.1:9"), table, [], options)
        assert raised.value.action in ("Omit the subject.", "Omit the schema.")
