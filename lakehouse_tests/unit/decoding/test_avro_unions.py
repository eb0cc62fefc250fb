"""Unions of several types in Avro: the branch that was written is the value, or a field that is named after it."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Avro, Column, Debezium, StreamTable
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import KNOWN_REASONS
from lakehouse.decoding.formats.avro.schemas import writer_schema
from lakehouse.decoding.formats.format import Schemas, UnusableSchemaError, UnwritableError
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.rules import Rules
from lakehouse_tests.helpers.brokers.registries import body as write
from lakehouse_tests.helpers.decoding.avro_unions import EVENT_A, EVENT_B, written_unions
from lakehouse_tests.helpers.decoding.both_paths import rows_twice

NAMED = Avro(named_branches=True)


def record_of(type_: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "v", "type": type_}]}


def parse(form: Avro, schema: Any, body: bytes) -> Any:
    return form.parser(Schemas({1: writer_schema(json.dumps(schema))}, {}))(add_frame(1, body))


@pytest.mark.invariant("8.13")
@given(written_unions())
def test_a_union_is_read_as_fastavro_reads_it(written: tuple[dict[str, Any], bytes, Any, Any]) -> None:
    schema, body, direct_value, named_value = written
    assert parse(Avro(), schema, body) == {"id": 1, "v": direct_value, "last": 2}
    assert parse(NAMED, schema, body) == {"id": 1, "v": named_value, "last": 2}
    assert fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(schema), None)["v"] == direct_value  # type: ignore[index,call-overload]


COLUMNS = [
    Column("last", "INT", "After the union.", required=True),
    Column("text", "STRING", "A branch.", source=("v", "string")),
    Column("number", "BIGINT", "A branch.", source=("v", "long")),
    Column("day", "DATE", "A branch.", source=("v", "int")),
    Column("id", "STRING", "In a branch.", source=("v", "shop.Placed", "id")),
    Column("moved_to", "BIGINT", "A branch in a branch.", source=("v", "shop.Moved", "to", "long")),
]
DIRECT_COLUMNS = [COLUMNS[0], Column("v", "STRING", "The branch that was written.")]


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize(("form", "columns"), [(Avro(), DIRECT_COLUMNS), (NAMED, COLUMNS)], ids=["direct", "named"])
@given(written=written_unions(), data=st.data())
def test_spoiled_unions_give_the_same_row_or_reason_on_both_paths(
    form: Avro, columns: list[Column], written: tuple[dict[str, Any], bytes, Any, Any], data: st.DataObject
) -> None:
    schema, body, *_ = written
    spoiled = bytearray(body)
    for _ in range(data.draw(st.integers(0, 3))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    bodies = [body, bytes(spoiled), body[: data.draw(st.integers(0, len(body)))], body + b"\x00"]
    parser = form.parser(Schemas({1: writer_schema(json.dumps(schema))}, {}))
    rules = Rules(tuple(column.field for column in columns), None).with_parser(parser)
    rows = rows_twice([add_frame(1, item) for item in bodies], rules)
    assert {row["_reason"] for row in rows} <= {None, *KNOWN_REASONS}
    assert rows[3]["_reason"] == "trailing_bytes"


EVENTS = record_of(["null", EVENT_A, EVENT_B])
PLACED = write(EVENTS, {"v": ("shop.Placed", {"id": "a", "total": 5})})
MOVED = write(EVENTS, {"v": ("shop.Moved", {"id": "b", "to": "Oslo"})})
NOTHING = write(EVENTS, {"v": None})


def rows_of(form: Avro, schema: Any, bodies: list[bytes], *columns: Column) -> list[Any]:
    table = StreamTable("t", "t", "T.", columns, [], format=form)
    schemas = {1: writer_schema(json.dumps(schema))}
    return [tuple(table.decode(add_frame(1, body), schemas=schemas).values()) for body in bodies]


def test_a_path_enters_the_record_that_was_written() -> None:
    columns = [
        Column("id", "STRING", "Of both.", source=("v", "id")),
        Column("n", "INT", "Of A.", source=("v", "total")),
    ]
    assert rows_of(Avro(), EVENTS, [PLACED, MOVED, NOTHING], *columns) == [("a", 5), ("b", None), (None, None)]


def test_with_named_branches_a_path_names_the_record() -> None:
    columns = [
        Column("id", "STRING", "Of A.", source=("v", "shop.Placed", "id")),
        Column("moved", "STRING", "Of B.", source=("v", "shop.Moved", "to", "string")),
    ]
    assert rows_of(NAMED, EVENTS, [PLACED, MOVED, NOTHING], *columns) == [("a", None), (None, "Oslo"), (None, None)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", ("x",)),
        (None, (None,)),
        (("long", 5), "'v' is a number '5', expected STRING"),
        (True, "'v' is true or false"),
    ],
)
def test_a_branch_that_the_column_cannot_represent_is_rejected(value: Any, expected: Any) -> None:
    schema = record_of(["null", "string", "long", "boolean"])
    column = Column("v", "STRING", "A text.")
    if isinstance(expected, tuple):
        assert rows_of(Avro(), schema, [write(schema, {"v": value})], column) == [expected]
        return
    with pytest.raises(Rejection, match=expected) as rejected:
        rows_of(Avro(), schema, [write(schema, {"v": value})], column)
    assert rejected.value.reason == "wrong_type"


def test_branches_of_equal_names_have_their_full_names() -> None:
    first, second = (
        {"type": "record", "name": f"{space}.E", "fields": [{"name": "n", "type": "int"}]} for space in "ab"
    )
    schema = record_of([first, second, "string"])
    assert parse(NAMED, schema, b"\x02\x0a") == {"v": {"b.E": {"n": 5}}}
    assert parse(NAMED, schema, b"\x04\x02x") == {"v": {"string": "x"}}


def test_a_schema_may_be_a_union_of_records() -> None:
    schema = [EVENT_A, EVENT_B]
    placed = write(schema, ("shop.Placed", {"id": "a", "total": 5}))
    assert parse(Avro(), schema, placed) == {"id": "a", "total": 5}
    assert parse(NAMED, schema, placed) == {"shop.Placed": {"id": "a", "total": 5}}
    assert Avro().schema_name(writer_schema(json.dumps(schema))) == "shop.Placed or shop.Moved"


@pytest.mark.parametrize("schema", [[], ["null", EVENT_A], [EVENT_A, "string"]])
def test_a_union_that_is_not_only_records_is_no_schema_of_records(schema: Any) -> None:
    with pytest.raises(UnusableSchemaError):
        writer_schema(json.dumps(schema))


@pytest.mark.parametrize(
    "line",
    [
        b'{"v": {"string": "x"}}',
        b'{"v": {"long": 5}}',
        b'{"v": {"shop.Placed": {"id": "a", "total": 1}}}',
        b'{"v": {"array": ["a"]}}',
        b'{"v": null}',
    ],
)
def test_a_line_that_names_a_branch_is_written_as_it_is_read(line: bytes) -> None:
    schema = writer_schema(
        json.dumps(record_of(["null", "string", "long", EVENT_A, {"type": "array", "items": "string"}]))
    )
    value = NAMED.writer(1, schema)(line)
    assert NAMED.parser(Schemas({1: schema}, {}))(value) == json.loads(line)


@pytest.mark.parametrize("line", [b'{"v": "x"}', b'{"v": {"int": 5}}', b'{"v": {}}', b'{"v": {"long": "x"}}'])
def test_a_line_that_names_no_branch_is_refused(line: bytes) -> None:
    schema = writer_schema(json.dumps(record_of(["null", "string", "long"])))
    with pytest.raises(UnwritableError, match="it does not fit schema 1"):
        NAMED.writer(1, schema)(line)


@pytest.mark.parametrize("form", [Debezium(Avro()), Debezium(Avro(), flattened=True)])
def test_a_union_of_records_is_no_change_of_a_database(form: Debezium) -> None:
    schema = writer_schema(json.dumps([EVENT_A, EVENT_B]))
    assert not form.may_use(schema)
    assert form.fingerprint(schema) == form.fingerprint(schema)
    with pytest.raises(Rejection):
        form.parser(Schemas({1: schema}, {})).read_change(add_frame(1, b"\x00\x02a\x0a"), ())
