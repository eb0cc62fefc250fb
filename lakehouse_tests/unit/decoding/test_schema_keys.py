"""Keys with the id of a schema in front: Avro of any type, Protobuf and JSON, on both paths."""

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse import Deletes, Time, writer_schema
from lakehouse.declaration import (
    Avro,
    Column,
    Delete,
    Json,
    ParentField,
    Protobuf,
    RecordKey,
    Rejection,
    StreamTable,
    Tombstone,
)
from lakehouse.decoding.formats.format import Schemas, UnusableSchemaError
from lakehouse.decoding.formats.framing import add_frame
from lakehouse_tests.helpers.brokers.registries import body
from lakehouse_tests.helpers.decoding.both_paths import rows_of_keys
from lakehouse_tests.helpers.decoding.native import uncertain_records
from lakehouse_tests.helpers.decoding.schema_keys import (
    AVRO_SCHEMAS,
    COLUMNS,
    FIELDS,
    KEY,
    PRICE,
    PROTOBUF_COLUMNS,
    PROTOBUF_KEY,
    SCHEMAS,
    TYPES,
    N,
    avro,
    record_of,
    table_of,
)


@pytest.mark.invariant("8.13")
def test_columns_read_fields_of_a_key_in_avro_by_their_types() -> None:
    (row,) = rows_of_keys([avro(1, KEY)], table_of(*COLUMNS), SCHEMAS)
    values = {name: row[name] for name in TYPES}
    assert values == {**KEY, "price": Decimal("12.4"), "ratio": Decimal("0.100")}
    assert row["_reason"] is None


def test_the_fast_path_reads_keys_with_a_schema() -> None:
    for table, key in ((table_of(*COLUMNS), avro(1, KEY)), (table_of(*PROTOBUF_COLUMNS), PROTOBUF_KEY)):
        rules = table.rules(Schemas(SCHEMAS, {}))
        keys = {"key": pa.array([key, key, b"?"])}
        assert uncertain_records(pa.array([b'{"n":1}'] * 3), None, rules, keys) == [2]


def test_a_key_in_avro_may_be_one_value() -> None:
    number, text = (table_of(Column("k", type_, "Key.", source=RecordKey("avro"))) for type_ in ("BIGINT", "STRING"))
    day = table_of(Column("k", "DATE", "Key.", source=RecordKey("avro")))
    assert [row["k"] for row in rows_of_keys([avro(2, 7), avro(4, 8), avro(4, None), None], number, SCHEMAS)] == [
        7,
        8,
        None,
        None,
    ]
    assert [row["k"] for row in rows_of_keys([avro(3, "a\n"), avro(4, "é")], text, SCHEMAS)] == ["a\n", "é"]
    assert [row["k"] for row in rows_of_keys([avro(6, date(2026, 1, 31))], day, SCHEMAS)] == [date(2026, 1, 31)]


@pytest.mark.invariant("8.13")
def test_columns_read_fields_of_a_key_in_protobuf_by_its_message_indexes() -> None:
    (row,) = rows_of_keys([PROTOBUF_KEY], table_of(*PROTOBUF_COLUMNS), SCHEMAS)
    assert [row[column.name] for column in PROTOBUF_COLUMNS] == [7, "north", 0.5, b"\x00\xff", Decimal("0.100")]
    other_message = add_frame(7, b"\x00\x0a\x01y")
    other_table = table_of(Column("x", "STRING", "X.", source=RecordKey("protobuf", "x")))
    assert rows_of_keys([other_message], other_table, SCHEMAS)[0]["x"] == "y"


def test_a_framed_key_in_json_is_read_behind_its_frame() -> None:
    table = table_of(Column("id", "INT", "Which.", source=RecordKey("framed_json", "id"), required=True))
    rows = rows_of_keys([add_frame(9, b'{"id":7}'), b'{"id":7}', add_frame(9, b""), b"\x00\x00"], table, SCHEMAS)
    assert [(row["id"], row["_reason"]) for row in rows] == [
        (7, None),
        (None, "wrong_magic"),
        (None, "empty_value"),
        (None, "truncated"),
    ]
    unframed = table_of(Column("id", "INT", "Which.", source=RecordKey("json", "id")))
    assert rows_of_keys([add_frame(9, b'{"id":7}')], unframed, SCHEMAS)[0]["_reason"] == "invalid_json"


@pytest.mark.parametrize("form", [Avro(), Json(), Json(framed=True)], ids=repr)
def test_values_and_keys_have_their_own_schemas(form: Any) -> None:
    table = table_of(COLUMNS[0], format=form)
    value = {"Avro()": add_frame(5, b"\x02"), "Json()": b'{"n":1}'}.get(repr(form), b"")
    value = add_frame(5, b'{"n":1}') if form.framed and not form.needs_schemas else value
    (row,) = rows_of_keys([avro(1, KEY)], table, SCHEMAS, value)
    assert (row["id"], row["n"], row["_reason"]) == (7, 1, None)


def test_the_schema_of_a_key_that_is_no_record_reads_no_value() -> None:
    table = table_of(Column("k", "BIGINT", "Key.", source=RecordKey("avro")), format=Avro())
    (row,) = rows_of_keys([avro(2, 7)], table, SCHEMAS, add_frame(2, b"\x0e"))
    assert (row["_reason"], row["_detail"]) == ("unusable_schema", "schema 2: its type is not a record")


def test_a_tombstone_deletes_by_a_key_in_avro() -> None:
    column = Column("id", "BIGINT", "Which.", source=RecordKey("avro", "id"), required=True)
    table = StreamTable("t", "t", "T.", [column, N], ["id"], deletes=Deletes(when=Tombstone()))
    assert table.decode(None, key=avro(1, KEY), schemas=SCHEMAS) == Delete({"id": 7})
    with pytest.raises(Rejection, match="unknown_schema"):
        table.decode(None, key=avro(1, KEY))


def test_every_row_of_a_record_has_the_field_of_its_key() -> None:
    around = Column("shop", "STRING", "Shop.", source=ParentField("shop"))
    table = table_of(*COLUMNS, around, rows_from="items")
    value = b'{"shop":"s","items":[{"n":1},{"n":2}]}'
    verdicts, bad = rows_of_keys([avro(1, KEY), avro(1, KEY)[:-1]], table, SCHEMAS, value)
    assert [(row["id"], row["raw"], row["n"]) for row in verdicts] == [(7, b"\x00\xff", 1), (7, b"\x00\xff", 2)]
    assert [row["_reason"] for row in bad] == ["truncated", "truncated"]


IN_KEY = "'id in the key of the record'"


@pytest.mark.parametrize(
    ("key", "reason", "detail"),
    [
        (None, "missing_field", f"{IN_KEY} is required"),
        (b"", "empty_value", f"{IN_KEY}: the key is empty"),
        (b"seven", "wrong_magic", f"{IN_KEY}: the first byte is 115; a key with a schema id begins with 0"),
        (b"\x00\x00", "truncated", f"{IN_KEY}: the key ends after 2 bytes, within the id of its schema"),
        (add_frame(99, b"\x0e"), "unknown_schema", f"{IN_KEY}: schema 99 is not known"),
        (avro(1, KEY)[:-1], "truncated", f"{IN_KEY}: the key ends after 41 bytes, within a value"),
        (avro(1, KEY) + b"\x00", "trailing_bytes", f"{IN_KEY}: 1 bytes follow the key"),
        (avro(2, 7), "wrong_type", f"{IN_KEY}: the key is a number '7', expected an object"),
        (avro(5, {"n": 7}), "missing_field", f"{IN_KEY} is required"),
        (add_frame(1, b"\x0e\x08"), "invalid_avro", f"{IN_KEY}: branch 4 of a union of 2"),
    ],
)
def test_a_key_in_another_form_rejects_the_record(key: bytes | None, reason: str, detail: str) -> None:
    table = table_of(Column("id", "BIGINT", "Which.", source=RecordKey("avro", "id"), required=True))
    (row,) = rows_of_keys([key], table, SCHEMAS)
    assert (row["_reason"], row["_detail"]) == (reason, detail)


def test_bytes_are_no_text_and_no_number() -> None:
    for type_ in ("STRING", "BIGINT"):
        table = table_of(Column("raw", type_, "Raw.", source=RecordKey("avro", "raw")))
        rows = rows_of_keys([avro(1, KEY), avro(1, {**KEY, "raw": b"12"})], table, SCHEMAS)
        assert [row["_reason"] for row in rows] == ["wrong_type", "wrong_type"]


@pytest.mark.parametrize("text", ['"bytes"', '["null", "bytes"]', json.dumps(PRICE)])
def test_a_key_of_bytes_alone_has_no_certain_form(text: str) -> None:
    with pytest.raises(UnusableSchemaError, match="its type is bytes, which some serializers write without"):
        writer_schema(text, of_key=True)


def test_only_the_schema_of_a_key_may_be_no_record() -> None:
    with pytest.raises(UnusableSchemaError, match="its type is not a record"):
        writer_schema('"long"')


def numbers(*bounds: int) -> st.SearchStrategy[int]:
    return st.integers(*bounds) | st.sampled_from([0, -1, *bounds])


RECORDS = st.fixed_dictionaries(
    {
        "id": numbers(-(2**63), 2**63 - 1),
        "home": st.none() | st.text(max_size=3),
        "share": st.floats(),
        "day": st.integers(-(2**31), 2**31 - 1),
        "at": numbers(-(2**63), 2**63 - 1),
        "price": st.binary(max_size=5),
        "raw": st.binary(max_size=3),
        "ratio": st.floats(width=32),
    }
)
PLAIN = record_of({name: type_["type"] if isinstance(type_, dict) else type_ for name, type_ in FIELDS.items()})


AVRO_KEYS = RECORDS.map(lambda record: add_frame(1, body(PLAIN, record)))  # also with values out of range
OTHER_KEYS = st.sampled_from(
    [avro(2, 7), avro(3, "7"), avro(4, None), avro(6, date(2026, 1, 31)), PROTOBUF_KEY, None, b"", b'{"id":7}']
)


@st.composite
def spoiled(draw: st.DrawFn, keys: st.SearchStrategy[bytes]) -> bytes:
    """A key with some other bytes in it, or without its end."""
    key = bytearray(draw(keys))
    for _ in range(draw(st.integers(0, 2))):
        key[draw(st.integers(0, len(key) - 1))] = draw(st.integers(0, 255))
    return bytes(key[: draw(st.sampled_from([len(key), len(key), len(key) - 1, 5, 3]))])


FORMS = [
    table_of(*COLUMNS),
    table_of(*COLUMNS, rows_from=()),
    table_of(*(Column(column.name, "STRING", "Key.", source=column.source) for column in COLUMNS)),
    table_of(Column("id", "BIGINT", "", source=RecordKey("avro", "id"), between=(-9, 9), null_values=("7", "-1"))),
    table_of(Column("id", "DECIMAL(38,0)", "", source=RecordKey("avro", "id"), default=3)),
    table_of(Column("share", "DECIMAL(38,18)", "", source=RecordKey("avro", "share"), required=True)),
    table_of(Column("at", "TIMESTAMP", "", source=RecordKey("avro", "id"), written=Time(epoch="nanoseconds"))),
    table_of(Column("k", "STRING", "", source=RecordKey("avro"), written="text_or_number")),
    table_of(Column("k", "BIGINT", "", source=RecordKey("avro"), written="text_or_number")),
]


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("table", FORMS, ids=range(len(FORMS)))
@settings(deadline=None, max_examples=60)
@given(keys=st.lists(spoiled(AVRO_KEYS) | OTHER_KEYS | AVRO_KEYS, max_size=4))
def test_any_key_in_avro_is_judged_alike_on_both_paths(table: StreamTable, keys: list[bytes | None]) -> None:
    rows_of_keys(keys, table, AVRO_SCHEMAS, b'[{"n":1}]' if table.has_elements else b'{"n":1}')


@pytest.mark.invariant("8.10")
@given(keys=st.lists(spoiled(st.just(PROTOBUF_KEY)) | OTHER_KEYS, max_size=4))
def test_any_key_in_protobuf_is_judged_alike_on_both_paths(keys: list[bytes | None]) -> None:
    rows_of_keys(keys, table_of(*PROTOBUF_COLUMNS), {7: SCHEMAS[7]})


@pytest.mark.invariant("8.10")
@given(bodies=st.lists(st.binary(max_size=6) | st.sampled_from([b'{"id":7}', b'{"id":7.0}', b"7", b'{"id":1e400}'])))
def test_any_framed_key_in_json_is_judged_alike_on_both_paths(bodies: list[bytes]) -> None:
    table = table_of(Column("id", "INT", "", source=RecordKey("framed_json", "id")))
    rows_of_keys([*(add_frame(9, body) for body in bodies), *bodies], table, SCHEMAS)


def test_keys_in_protobuf_and_values_in_protobuf_share_schemas() -> None:
    table = StreamTable("t", "t", "", [PROTOBUF_COLUMNS[0], Column("home", "STRING", "")], [], format=Protobuf())
    (row,) = rows_of_keys([PROTOBUF_KEY], table, SCHEMAS, PROTOBUF_KEY)
    assert (row["id"], row["home"]) == (7, "north")
