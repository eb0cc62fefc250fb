"""Changes of a database: each record becomes a row, a delete or a rejection with its reason."""

import json
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.declaration import Avro, Column, Debezium, Delete, Rejection, StreamTable, TextBoolean, TextNumber
from lakehouse.declaration.inference.proposal import propose
from lakehouse.decoding.formats.avro.nodes import KIND
from lakehouse.decoding.formats.debezium.position import source_position
from lakehouse.decoding.formats.debezium.values import converter_of
from lakehouse.decoding.formats.format import NO_SCHEMAS, RegisteredSchema, Schemas, WriterSchema
from lakehouse.decoding.rules import Rules
from lakehouse_tests.helpers.change_records import UNAVAILABLE, avro_change, change, with_schema
from lakehouse_tests.helpers.decoding.both_paths import decode_twice, rows_twice
from lakehouse_tests.helpers.decoding.native import uncertain_records

COLUMNS = [
    Column("id", "BIGINT", "Number.", required=True),
    Column("at", "TIMESTAMP", "When."),
    Column("day", "DATE", "Day."),
    Column("price", "DECIMAL(10,2)", "Price."),
    Column("note", "STRING", "Note."),
    Column("large", "STRING", "Text that is stored outside of the row.", keep=True, null_erases=True),
]
ROW = {"id": 1, "at": None, "day": None, "price": None, "note": "x", "large": "y"}
TIME = datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
MICROSECONDS = 1704164645678901


def table(form: Debezium | None = None, **changes: Any) -> StreamTable:
    return StreamTable("t", "t", "", COLUMNS, ["id"], format=form or Debezium(), **changes)


def verdict_of(value: bytes | None, form: Debezium | None = None, schemas: Schemas = NO_SCHEMAS) -> dict[str, Any]:
    stream_table = table(form)
    rules = Rules(stream_table.fields, None, stream_table.format.parser(schemas), stream_table.delete_rule)
    (verdict,) = rows_twice([value], rules)
    return dict(verdict)


def reason_of(value: bytes | None, form: Debezium | None = None) -> tuple[str, str]:
    verdict = verdict_of(value, form)
    return verdict["_reason"], verdict["_detail"]


@pytest.mark.parametrize(("op", "snapshot"), [("c", None), ("u", None), ("r", "whole")])
def test_a_row_has_the_values_after_the_change_and_the_position_of_its_source(op: str, snapshot: str | None) -> None:
    verdict = verdict_of(change(op, 7, ROW))
    assert {name: verdict[name] for name in ROW} == ROW
    assert (verdict["_sequence"], verdict["_snapshot"], verdict["_deleted"], verdict["_rowless"]) == (
        7,
        snapshot,
        False,
        False,
    )


@pytest.mark.parametrize("marker", ["last", "last_in_data_collection"])
def test_the_last_record_of_a_snapshot_says_that_it_ends(marker: str) -> None:
    assert verdict_of(change("r", 7, ROW, source={"snapshot": marker}))["_snapshot"] == "last"


@pytest.mark.parametrize("snapshot", ["incremental", None, "false", 2])
def test_only_a_record_that_says_so_is_of_a_snapshot_of_the_whole_table(snapshot: Any) -> None:
    assert verdict_of(change("r", 7, ROW, source={"snapshot": snapshot}))["_snapshot"] == "part"


def test_a_delete_has_only_its_key_and_its_other_values_may_be_anything() -> None:
    verdict = verdict_of(change("d", 9, {**ROW, "at": 0, "price": "", "large": UNAVAILABLE}))
    assert (verdict["_deleted"], verdict["_sequence"], verdict["_reason"]) == (True, 9, None)
    assert {name: verdict[name] for name in ROW} == {**dict.fromkeys(ROW), "id": 1}


def test_a_tombstone_is_about_no_row() -> None:
    verdict = verdict_of(None)
    assert (verdict["_rowless"], verdict["_deleted"], verdict["_reason"], verdict["id"]) == (True, False, None, None)
    assert table().decode(None) == Delete()


def test_a_truncate_is_about_no_row_and_has_a_position() -> None:
    verdict = verdict_of(change("t", 7, None))
    assert (verdict["_rowless"], verdict["_sequence"], verdict["_reason"], verdict["id"]) == (True, 7, None, None)


PLACEHOLDERS = [
    UNAVAILABLE,
    [UNAVAILABLE],
    {UNAVAILABLE: UNAVAILABLE},
    json.dumps({UNAVAILABLE: UNAVAILABLE}, separators=(",", ":")),
    b64encode(UNAVAILABLE.encode()).decode(),
    UNAVAILABLE.encode().hex(),
    list(UNAVAILABLE.encode()),
]


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_an_unavailable_value_is_missing_and_a_null_is_not(placeholder: Any) -> None:
    unavailable = verdict_of(change("u", 7, {**ROW, "large": placeholder}))
    assert (unavailable["large"], unavailable["_explicit_null_large"], unavailable["_reason"]) == (None, False, None)
    erased = verdict_of(change("u", 7, {**ROW, "large": None}))
    assert (erased["large"], erased["_explicit_null_large"]) == (None, True)


@pytest.mark.invariant("15.4")
@pytest.mark.parametrize(
    ("value", "reason", "detail"),
    [
        (change("u", 7, {**ROW, "note": UNAVAILABLE}), "unavailable_value", "declare keep=True and null_erases=True"),
        (change("c", 7, {**ROW, "large": UNAVAILABLE}), "unavailable_value", "set REPLICA IDENTITY FULL"),
        (change("m", 7, None), "unknown_operation", "'op' is 'm'"),
        (change("t", None, None), "no_source_position", "gives neither"),
        (change("c", None, ROW), "no_source_position", "the connector 'postgresql' gives neither an LSN"),
        (change("c", -1, ROW), "no_source_position", "gives neither"),
        (change("c", 2**63, ROW), "no_source_position", "gives neither"),
        (change("c", 7, None), "invalid_change", "'after' is null"),
        (change("d", 7, None), "invalid_change", "set a replica identity"),
        (change("c", 7, {**ROW, "price": "AYY="}), "wrong_type", "decimal.handling.mode=string"),
        (change("c", 7, {**ROW, "id": None}), "null_field", "'id' is required"),
        (change("d", 7, {"note": "x"}), "missing_field", "'id' is required"),
        (change("c", 7, {**ROW, "at": 1}), "wrong_type", "expected TIMESTAMP"),
        (b'{"id": 1}', "invalid_change", "declare flattened=True"),
        (b'{"op": "c", "after": {"id": 1}}', "invalid_change", "'source' is null"),
        (b'{"op": ["c"], "source": {}}', "unknown_operation", "'op' is"),
        (b'{"schema": {}, "payload": null}', "invalid_change", "'payload' is null"),
        (b"", "empty_value", "empty"),
    ],
)
def test_what_is_not_a_change_is_rejected_with_the_reason(value: bytes, reason: str, detail: str) -> None:
    found_reason, found_detail = reason_of(value)
    assert found_reason == reason
    assert detail in found_detail


def test_the_position_of_mysql_is_the_file_of_its_log_and_the_place_in_it() -> None:
    def position(file: Any, pos: Any) -> Any:
        return verdict_of(change("c", None, ROW, source={"file": file, "pos": pos}))["_sequence"]

    positions = [position("bin.000001", 900), position("bin.000002", 4), position("bin.1000000", 4)]
    assert positions == sorted(positions)
    assert len({*positions}) == 3
    assert position("bin", 4) is position("bin.000001", None) is position("bin.000001", 2**32) is None


def test_texts_are_times_and_numbers_where_columns_say_so() -> None:
    form = Debezium(decimal_handling_mode="string")
    verdict = verdict_of(change("c", 7, {**ROW, "at": "2024-01-02T04:04:05.678901+01:00", "price": "12.345"}), form)
    assert (verdict["at"], verdict["price"]) == (TIME, Decimal("12.35"))
    assert reason_of(change("c", 7, {**ROW, "price": "NaN"}), form)[0] == "wrong_type"
    assert reason_of(change("c", 7, {**ROW, "at": "2024-01-02"}), form)[0] == "wrong_type"
    assert verdict_of(change("c", 7, {**ROW, "at": "2024-01-02T03:04:05.6789014Z"}))["at"] == TIME
    assert reason_of(change("c", 7, {**ROW, "at": "2024-02-31T03:04:05Z"}))[0] == "out_of_range"


@pytest.mark.parametrize(
    ("type_", "raw", "expected"),
    [
        ("io.debezium.time.MicroTimestamp", MICROSECONDS, TIME),
        ("io.debezium.time.NanoTimestamp", MICROSECONDS * 1000, TIME),
        ("io.debezium.time.Timestamp", 1704164645678, TIME.replace(microsecond=678000)),
        ("org.apache.kafka.connect.data.Timestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
        ("io.debezium.time.ZonedTimestamp", "2024-01-02T03:04:05.678901Z", TIME),
    ],
)
def test_the_schema_in_a_record_says_the_unit_of_a_time(type_: str, raw: Any, expected: datetime) -> None:
    schema = {"type": "int64", "name": type_, "version": 1, "field": "at"}
    assert verdict_of(with_schema(change("c", 7, {**ROW, "at": raw}), schema))["at"] == expected


def test_the_schema_in_a_record_says_the_scale_of_a_decimal_and_the_unit_of_a_date() -> None:
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    day = {"type": "int32", "name": "io.debezium.time.Date", "field": "day"}
    row = {**ROW, "price": b64encode((-1234).to_bytes(3, signed=True)).decode(), "day": 19724}
    verdict = verdict_of(with_schema(change("c", 7, row), {**decimal, "field": "price"}, day))
    assert (verdict["price"], verdict["day"]) == (Decimal("-12.34"), date(2024, 1, 2))
    variable = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "field": "price"}
    price = {"scale": 1, "value": b64encode((55).to_bytes(1)).decode()}
    assert verdict_of(with_schema(change("c", 7, {**row, "price": price}), variable, day))["price"] == Decimal("5.5")


@pytest.mark.parametrize("schema", [None, [], {"fields": 1}, {"fields": [{"field": "after", "fields": [[], {}]}]}])
def test_a_schema_that_is_not_understood_converts_nothing(schema: Any) -> None:
    payload = json.loads(change("c", 7, ROW))
    assert verdict_of(json.dumps({"schema": schema, "payload": payload}).encode())["note"] == "x"


def test_a_former_name_does_not_hide_an_unavailable_value() -> None:
    columns = [COLUMNS[0], Column("note", "STRING", "Note.", formerly="old")]
    stream_table = StreamTable("t", "t", "", columns, ["id"], format=Debezium())
    with pytest.raises(Rejection, match="unavailable_value"):
        stream_table.decode(change("u", 7, {"id": 1, "old": UNAVAILABLE}))
    assert stream_table.decode(change("u", 7, {"id": 1, "old": "x"}))["note"] == "x"


@pytest.mark.invariant("15.4")
@pytest.mark.parametrize("number", [Decimal("NaN"), Decimal("Infinity"), Decimal("-Infinity"), Decimal("1e999999")])
def test_a_position_or_a_time_that_is_no_finite_number_is_rejected(number: Decimal) -> None:
    with pytest.raises(Rejection, match="no_source_position"):
        source_position({"lsn": number})
    convert = converter_of("io.debezium.time.MicroTimestamp", None)
    assert convert
    assert not isinstance(convert(number), datetime)


@pytest.mark.parametrize("raw", [2**70, 1e300, True, "x", 1.5, [1], {"a": 1}])
def test_a_number_that_is_no_time_is_rejected(raw: Any) -> None:
    schema = {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "field": "at"}
    assert reason_of(with_schema(change("c", 7, {**ROW, "at": raw}), schema))[0] in ("wrong_type", "out_of_range")


def test_a_flattened_change_has_its_operation_and_position_as_fields() -> None:
    form = Debezium(flattened=True)

    def verdict(**fields: Any) -> dict[str, Any]:
        return verdict_of(json.dumps({**ROW, **fields}).encode(), form)

    row = verdict(__op="u", __source_lsn=7, __deleted="false", large=UNAVAILABLE)
    assert (row["note"], row["_sequence"], row["_deleted"], row["_explicit_null_large"]) == ("x", 7, False, False)
    delete = verdict(__op="d", __lsn=8, __deleted="true")
    assert (delete["id"], delete["note"], delete["_sequence"], delete["_deleted"]) == (1, None, 8, True)
    assert "add.fields=op,source.lsn" in str(verdict(__deleted="false", __lsn=8)["_detail"])
    assert "add source.lsn" in str(verdict(__op="u")["_detail"])
    reason, detail = reason_of(None, form)
    assert (reason, "handling.mode=rewrite" in detail) == ("tombstone", True)


def test_fields_of_the_envelope_are_not_unmapped_fields() -> None:
    stream_table = table(Debezium(flattened=True))
    rules = Rules(stream_table.fields, None, stream_table.format.parser(), stream_table.delete_rule)
    values = [json.dumps({**ROW, "__op": "c", "__source_lsn": 7, "other": 1}).encode()]
    assert decode_twice(values, rules).unmapped_counts == {"other": 1}


def test_a_schema_of_avro_says_the_types_of_connect() -> None:
    time = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    types = {"id": "long", "at": ["null", time], "price": ["null", decimal], "note": "string"}
    form = Debezium(Avro())
    after = {"id": 1, "at": MICROSECONDS, "price": Decimal("12.34"), "note": "x"}
    schema, value = avro_change(types, after)
    schemas = Schemas({3: form.writer_schema(RegisteredSchema(schema, (), KIND))}, {})
    verdict = verdict_of(value, form, schemas)
    assert (verdict["at"], verdict["price"], verdict["_sequence"]) == (TIME, Decimal("12.34"), 7)
    assert verdict_of(value, form)["_reason"] == "unknown_schema"


MONGODB_CHANGE = {
    "before": None,
    "after": '{"_id": {"$oid": "65a000000000000000000001"}, "qty": {"$numberLong": "3000000000"}}',
    "source": {"connector": "mongodb", "ts_ms": 1, "snapshot": "false", "collection": "orders", "ord": 1},
    "op": "u",
}


@pytest.mark.parametrize("op", ["c", "u", "d", "r"])
def test_a_change_of_mongodb_says_what_to_set_in_the_connector(op: str) -> None:
    value = json.dumps({**MONGODB_CHANGE, "op": op}).encode()
    reason, detail = reason_of(value)
    assert (reason, detail.split(",")[0]) == ("invalid_change", "the change is of MongoDB")
    assert "declare format=Debezium(documents=True)" in detail
    (warning,) = [text for text in propose([value]).warnings if "MongoDB" in text]
    assert warning.startswith("The change is of MongoDB")
    assert not [text for text in propose([change("u", 7, ROW)]).warnings if "MongoDB" in text]


NUMBER = {
    "type": "record",
    "name": "io.debezium.data.VariableScaleDecimal",
    "connect.name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}


@pytest.mark.parametrize("before", ["a row", "an array"])
def test_a_type_of_avro_that_is_named_again_is_the_same_type(before: str) -> None:
    type_name = "io.debezium.data.VariableScaleDecimal"
    numbers = {"type": "array", "items": NUMBER} if before == "an array" else ["null", NUMBER]
    types = {"id": "long", "numbers": numbers, "note": "string", "price": ["null", type_name], "cost": type_name}
    number = {"scale": 3, "value": (1502).to_bytes(2)}
    after = {"id": 1, "numbers": [number] if before == "an array" else number, "note": "x"}
    schema, value = avro_change(types, {**after, "price": number, "cost": number})
    form = Debezium(Avro())
    schemas = Schemas({3: form.writer_schema(RegisteredSchema(schema, (), KIND))}, {})
    cost = Column("cost", "DECIMAL(10,3)", "Cost.", required=True)
    rules = replace(table(form), columns=[*COLUMNS, cost]).rules(schemas)
    (verdict,) = rows_twice([value], rules)
    assert (verdict["_reason"], verdict["price"], verdict["cost"]) == (None, Decimal("1.50"), Decimal("1.502"))


def test_the_types_of_connect_are_in_the_fingerprint_of_a_schema_of_avro() -> None:
    fields = [{"name": "at", "type": {"type": "long", "connect.name": name}} for name in ("a", "b")]
    schemas = [WriterSchema(json.dumps({"type": "record", "name": "r", "fields": [field]})) for field in fields]
    assert len({Debezium(Avro()).fingerprint(schema) for schema in schemas}) == 2


def test_a_table_decodes_a_change_like_a_batch() -> None:
    assert table().decode(change("c", 7, ROW)) == ROW
    assert table().decode(change("d", 7, ROW)) == Delete({"id": 1})
    with pytest.raises(Rejection, match="invalid_change"):
        table().decode(b"{}")


def test_schemas_with_equal_numbers_give_a_decimal_the_same_scale() -> None:
    def record(scale: str) -> bytes:
        field = {"type": "bytes", "field": "price", "name": "org.apache.kafka.connect.data.Decimal"}
        row = {"id": 1, "price": "AQ=="}
        value = with_schema(change("c", 1, row), {**field, "parameters": {"scale": "SCALE"}})
        return value.replace(b'"SCALE"', scale.encode())

    values = [record(scale) for scale in ('"2"', "2", "2.0", "2e0", "2")]
    for batch in ([values[2], values[1]], *([value] for value in values)):
        rows = rows_twice(batch, table().rules())
        assert {row["price"] for row in rows} == {Decimal("0.01")}


CONNECT_TIME = {"type": "int64", "field": "at", "name": "io.debezium.time.MicroTimestamp"}


def test_ordinary_changes_are_read_natively_with_and_without_schemas() -> None:
    changes = [change("c", 1, ROW), change("u", 2, ROW, before=ROW), change("r", 3, ROW), change("d", 4, ROW), None]
    with_schemas = [with_schema(value, CONNECT_TIME) if value else None for value in changes]
    for values in (changes, with_schemas):
        decode_twice(values, table().rules())
        assert uncertain_records(pa.array(values, pa.binary()), None, table().rules()) == []


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize(
    ("text", "replacement"),
    [
        ('"lsn": 2', '"lsn": 2.0'),
        ('"lsn": 2', '"file": "log.1", "pos": 7, "server_id": 3e0'),
        ('"lsn": 2', '"lsn": 1e0, "file": "log.1", "pos": 7'),
        ('"lsn": 2', '"lsn": 2, "lsn": 3'),
        ('"at": ', '"at": 1e15, "old": '),
        ('"op": "u"', '"op": "u", "op": "d"'),
        ("}}", '}, "schema": null}'),
        ("}}", '}, "payload": null}'),
        ("}}", "}}}"),
    ],
)
@pytest.mark.parametrize("has_schema", [True, False])
def test_a_change_that_a_native_parser_reads_otherwise_is_read_strictly(
    has_schema: bool, text: str, replacement: str
) -> None:
    good = change("u", 2, {**ROW, "at": 1_767_225_600_000_000}, before=ROW)
    good = with_schema(good, CONNECT_TIME) if has_schema else good
    bad = good.decode().replace(text, replacement).encode()
    rows = rows_twice([good, bad, good], table().rules())
    assert rows[0] == rows[2]


@pytest.mark.invariant("8.10")
def test_a_number_that_is_only_nearly_a_marker_is_none() -> None:
    snapshot = change("r", 2, ROW, source={"snapshot": 1})
    placeholder = change("u", 3, {**ROW, "large": list(UNAVAILABLE.encode())})
    nearly_values = [
        snapshot.replace(b'"snapshot": 1', b'"snapshot": 1.00000000000000000001'),
        placeholder.replace(b"[95,", b"[95.00000000000000000001,"),
    ]
    assert not {snapshot, placeholder} & set(nearly_values)
    rows = rows_twice([snapshot, placeholder, *nearly_values], table().rules())
    assert [row["_snapshot"] for row in rows] == ["whole", None, "part", None]
    assert [row["_reason"] for row in rows] == [None, None, None, "wrong_type"]


def test_values_in_two_forms_are_read_as_columns_declare_them() -> None:
    columns = [
        COLUMNS[0],
        Column("open", "BOOLEAN", "A boolean of MySQL.", written=TextBoolean([1, "true", True], [0, "false", False])),
        Column("price", "DECIMAL(10,2)", "A price.", written=TextNumber(or_number=True)),
        Column("large", "DECIMAL(20,0)", "A number without a sign.", written="unsigned"),
    ]
    for form in (Debezium(), Debezium(decimal_handling_mode="string")):
        rules = replace(table(form), columns=columns).rules()
        values = [
            change("r", 7, {"id": 1, "open": 1, "price": "2.50", "large": -1}),
            change("u", 8, {"id": 1, "open": False, "price": 3, "large": 5}),
            change("u", 9, {"id": 1, "open": "true", "price": None, "large": b64encode(b"\0" + b"\xff" * 8).decode()}),
        ]
        rows = [(row["open"], row["price"], row["large"]) for row in rows_twice(values, rules)]
        assert rows == [(True, Decimal("2.50"), 2**64 - 1), (False, 3, 5), (True, None, 2**64 - 1)]
