"""Avro is read as its own library writes it, and strictly: damaged bytes give a reason, and never another error."""

import io
import json
import struct
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Avro, Column, Json, StreamTable
from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.fast.plain_records import decode_plain
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import KNOWN_REASONS, avro_nodes, avro_reader
from lakehouse.decoding.formats.avro_reader import reader_of
from lakehouse.decoding.formats.format import Schemas, WriterSchema
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.judge import Rules
from lakehouse.decoding.memory import MAX_RECORD_MEMORY
from lakehouse.decoding.staged import EXPLICIT_NULL
from lakehouse.decoding.values import convert
from lakehouse.decoding.verdicts import decode_slices, decode_values
from lakehouse_tests.helpers.brokers.registries import body as encode

AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
ALL_TYPES = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "text", "type": ["null", "string"]},
        {"name": "small", "type": "int"},
        {"name": "large", "type": "long"},
        {"name": "half", "type": "float"},
        {"name": "double", "type": "double"},
        {"name": "yes", "type": "boolean"},
        {"name": "amount", "type": ["null", AMOUNT]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "place", "type": ["null", PLACE]},
        {"name": "other", "type": ["null", "Place"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "notes", "type": {"type": "map", "values": ["null", "long"]}},
    ],
}
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
SALES = st.fixed_dictionaries(
    {
        "id": st.uuids(),
        "text": st.none() | st.text(max_size=20),
        "small": st.integers(-(2**31), 2**31 - 1),
        "large": st.integers(-(2**63), 2**63 - 1),
        "half": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "double": st.floats(allow_nan=False, allow_infinity=False),
        "yes": st.booleans(),
        "amount": st.none() | st.decimals(-(10**9), 10**9, places=2),
        "day": st.dates(),
        "at": MOMENTS,
        "seen": st.none() | MOMENTS.map(lambda moment: moment.replace(microsecond=0)),
        "kind": st.sampled_from(["NEW", "OLD"]),
        "place": st.none() | st.fixed_dictionaries({"city": st.text(max_size=8)}),
        "other": st.none() | st.fixed_dictionaries({"city": st.text(max_size=8)}),
        "tags": st.lists(st.text(max_size=5), max_size=4),
        "notes": st.dictionaries(st.text(max_size=5), st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3),
    }
)
A_SALE: dict[str, Any] = {
    "id": UUID(int=5),
    "text": "caf\u00e9",
    "small": -7,
    "large": 2**40,
    "half": 0.5,
    "double": 1.25,
    "yes": True,
    "amount": Decimal("12.30"),
    "day": date(2024, 2, 29),
    "at": datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC),
    "seen": None,
    "kind": "OLD",
    "place": {"city": "Oslo"},
    "other": None,
    "tags": ["a", "b"],
    "notes": {"n": 1, "none": None},
}
COLUMNS = (
    Column("id", "STRING", "A UUID.", required=True),
    Column("text", "STRING", "A text."),
    Column("small", "INT", "A number."),
    Column("large", "BIGINT", "A number."),
    Column("half", "DOUBLE", "A number of 32 bits."),
    Column("double", "DOUBLE", "A number.", between=(-1e300, 1e300)),
    Column("yes", "BOOLEAN", "Whether."),
    Column("amount", "DECIMAL(12,2)", "An amount."),
    Column("day", "DATE", "A day."),
    Column("at", "TIMESTAMP", "A moment."),
    Column("seen", "TIMESTAMP", "A moment."),
    Column("kind", "STRING", "An enum."),
    Column("city", "STRING", "Within another.", source=("place", "city")),
    Column("n", "BIGINT", "Of a map.", source=("notes", "n")),
)
TABLE = StreamTable("sales", "sales", "Sales.", COLUMNS, key=["id"], format=Avro())


def schema_of(schema: Any) -> WriterSchema:
    return WriterSchema(json.dumps(fastavro.parse_schema(schema, _write_hint=False)))


def record_of(*types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": type_} for number, type_ in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


def decode(schema: Any, body: bytes) -> Any:
    return reader_of(schema_of(schema))(body, 0)


def rejection_reason(schema: Any, body: bytes) -> str:
    with pytest.raises(Rejection) as rejected:
        decode(schema, body)
    return rejected.value.reason


SCHEMAS = Schemas({7: schema_of(ALL_TYPES)}, {})
RULES = Rules(TABLE.fields, None, TABLE.format.parser(SCHEMAS))


@pytest.mark.invariant("5.2")
def test_a_null_branch_is_null_and_a_field_not_in_the_schema_is_missing() -> None:
    columns = [
        Column(name, "STRING", "A.", source=path, keep=True, null_erases=True, null_values=("n/a",))
        for name, path in {"present": ("text",), "nested": ("place", "city"), "missing": ("absent",)}.items()
    ]
    place = {"type": "record", "name": "P", "fields": [{"name": "city", "type": "string"}]}
    fields = [{"name": "text", "type": ["null", "string"]}, {"name": "place", "type": ["null", place]}]
    schema = {"type": "record", "name": "S", "fields": fields}
    rules = Rules(tuple(column.field for column in columns), None, Avro().parser(Schemas({1: schema_of(schema)}, {})))
    objects: list[dict[str, Any]] = [
        {"text": None, "place": None},
        {"text": "n/a", "place": {"city": "n/a"}},
        {"text": "a", "place": None},
    ]
    values = pa.array([add_frame(1, encode(schema, obj)) for obj in objects])
    for decoder in (decode_plain, None):
        rows = decode_values(values, None, rules, decoder).verdicts.to_pylist()
        nulls = [[row[f"{EXPLICIT_NULL}{column.name}"] for column in columns] for row in rows]
        assert nulls == [[True, True, False], [False, False, False], [False, True, False]]


@pytest.mark.invariant("8.13")
@given(SALES)
def test_every_type_is_read_as_it_was_written(sale: dict[str, Any]) -> None:
    decoded_value = decode(ALL_TYPES, encode(ALL_TYPES, sale))
    assert decoded_value.pop("half") == pytest.approx(sale["half"], rel=1e-7, abs=1e-45)
    expected = {**sale, "id": str(sale["id"])}
    del expected["half"]
    assert decoded_value == expected


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_number_of_32_bits_is_the_shortest_that_rounds_to_it(number: float) -> None:
    decoded_value = decode(record_of("float"), struct.pack("<f", number))["f0"]
    assert struct.pack("<f", decoded_value) == struct.pack("<f", number)
    assert len(repr(decoded_value)) <= len(repr(number))


def test_a_number_of_32_bits_is_what_its_writer_wrote() -> None:
    assert decode(record_of("float"), struct.pack("<f", 7.1)) == {"f0": 7.1}


@pytest.mark.invariant("8.10")
@given(st.lists(SALES, min_size=1, max_size=5))
def test_many_records_are_decoded_like_single_records(sales: list[dict[str, Any]]) -> None:
    values: list[bytes | None] = [add_frame(7, encode(ALL_TYPES, sale)) for sale in sales]
    encoded_sale = encode(ALL_TYPES, sales[0])
    values += [
        None,
        b"",
        b"\x01abcd",
        b"\x00\x00",
        add_frame(8, b""),
        add_frame(7, encoded_sale[:-1]),
        add_frame(7, encoded_sale + b"\x00"),
    ]
    array = pa.array(values, pa.binary())
    fast, strict = (decode_values(array, None, RULES, decoder) for decoder in (decode_plain, None))
    assert fast.verdicts.to_pylist() == strict.verdicts.to_pylist()
    assert fast.unmapped_counts == strict.unmapped_counts
    fast.verdicts.validate(full=True)
    reasons = [row["_reason"] for row in fast.verdicts.to_pylist()]
    expected = ["tombstone", "empty_value", "wrong_magic", "truncated", "unknown_schema", "truncated", "trailing_bytes"]
    assert reasons[-7:] == expected
    assert fast.verdicts.field("at").type == arrow_type("TIMESTAMP")


def test_values_are_those_of_their_logical_types() -> None:
    row = TABLE.decode(add_frame(7, encode(ALL_TYPES, A_SALE)), schemas=SCHEMAS.by_id)
    assert row["id"] == "00000000-0000-0000-0000-000000000005"
    assert row["amount"] == Decimal("12.30")
    assert (row["day"], row["at"], row["seen"]) == (A_SALE["day"], A_SALE["at"], None)
    assert (row["kind"], row["city"], row["n"]) == ("OLD", "Oslo", 1)


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("end", range(len(encode(ALL_TYPES, A_SALE))))
def test_a_record_that_is_cut_off_anywhere_is_truncated(end: int) -> None:
    assert rejection_reason(ALL_TYPES, encode(ALL_TYPES, A_SALE)[:end]) == "truncated"


@pytest.mark.invariant("8.10")
@given(st.data())
def test_damaged_bytes_give_a_row_or_a_reason_and_never_another_error(data: st.DataObject) -> None:
    body = bytearray(add_frame(7, encode(ALL_TYPES, A_SALE)))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    array = pa.array([bytes(body)], pa.binary())
    decoders = (decode_plain, None)
    fast, strict = (decode_values(array, None, RULES, decoder).verdicts.to_pylist() for decoder in decoders)
    assert repr(fast) == repr(strict)
    assert strict[0]["_reason"] in (None, *KNOWN_REASONS)


MAX_LONG = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # the greatest number of 64 bits


@pytest.mark.invariant("8.10", "13.3")
@pytest.mark.parametrize(
    ("types", "body", "expected"),
    [
        ([["null", "string"]], b"\x01", "invalid_avro"),
        ([["null", "string"]], b"\x04", "invalid_avro"),
        ([{"type": "enum", "name": "E", "symbols": ["A"]}], b"\x01", "invalid_avro"),
        ([{"type": "enum", "name": "E", "symbols": ["A"]}], b"\x02", "invalid_avro"),
        (["boolean"], b"\x02", "invalid_avro"),
        (["long"], b"\xff" * 9 + b"\x02", "invalid_avro"),
        (["long"], b"\x80" * 10 + b"\x00", "invalid_avro"),
        (["int"], b"\x80\x80\x80\x80\x10", "invalid_avro"),
        (["string"], b"\x01", "invalid_avro"),
        (["string"], MAX_LONG, "truncated"),
        (["string"], b"\x04\xff\xfe", "invalid_utf8"),
        (["bytes"], MAX_LONG, "truncated"),
        ([{"type": "array", "items": "long"}], MAX_LONG + b"\x00", "truncated"),
        ([{"type": "array", "items": "long"}], b"\x01\x04\x02\x00", "invalid_avro"),
        ([{"type": "map", "values": "long"}], b"\x04\x02a\x02\x02a\x04\x00", "duplicate_name"),
        ([], b"\x00", "trailing_bytes"),
    ],
)
def test_bytes_that_no_writer_writes_are_rejected(types: list[Any], body: bytes, expected: str) -> None:
    assert rejection_reason(record_of(*types), body) == expected


def test_a_uuid_of_sixteen_bytes_is_read_as_text() -> None:
    schema = record_of({"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"})
    assert decode(schema, UUID(int=5).bytes) == {"f0": "00000000-0000-0000-0000-000000000005"}


def test_blocks_with_a_written_size_are_read() -> None:
    schema = record_of({"type": "array", "items": "long"})
    assert decode(schema, b"\x03\x04\x02\x04\x02\x06\x00") == {"f0": [1, 2, 3]}


@pytest.mark.invariant("8.10")
def test_an_endlessly_nested_record_is_rejected() -> None:
    schema = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    assert decode(schema, b"\x02\x00") == {"next": {"next": None}}
    assert rejection_reason(schema, b"\x02" * 1_000_000 + b"\x00") == "invalid_avro"


def block(*items: bytes) -> bytes:
    """The bytes of an array or a map with these items."""
    return (encode(record_of("long"), {"f0": len(items)}) if items else b"") + b"".join(items) + b"\x00"


@pytest.mark.invariant("8.11")
def test_a_small_record_that_would_take_too_much_memory_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a twentieth of the memory limit, and so in a twentieth of the time."""
    for module in (avro_reader, avro_nodes):
        monkeypatch.setattr(module, "MAX_RECORD_MEMORY", MAX_RECORD_MEMORY // 20)
    inner: Any = {"type": "record", "name": "R0", "fields": [{"name": "ok", "type": "boolean"}]}
    for depth in range(1, 10):
        inner = {"type": "record", "name": f"R{depth}", "fields": [{"name": "in", "type": inner}]}
    array, table = record_of({"type": "array", "items": ["null", inner]}), record_of({"type": "map", "values": inner})
    assert len(decode(array, block(*[b"\x02\x00"] * 100))["f0"]) == 100
    assert rejection_reason(array, block(*[b"\x02\x00"] * 10_000)) == "too_large", "ten each"
    assert rejection_reason(table, block(*(b"\x0c%06d\x00" % n for n in range(10_000)))) == "too_large"
    nested = {"type": "record", "name": "T", "fields": [{"name": "kids", "type": {"type": "array", "items": "T"}}]}
    assert decode(nested, block(block())) == {"kids": [{"kids": []}]}
    assert rejection_reason(nested, block(*[block(*[b"\x00"] * 100)] * 600)) == "too_large"
    recursive: Any = ["null", {"type": "array", "items": "R9"}]  # each record of the chain contains the next one
    inner["fields"].append({"name": "more", "type": recursive})
    assert rejection_reason(record_of({"type": "array", "items": inner}), block(*[b"\x00\x00"] * 10_000)) == "too_large"
    nested_items = b"\x00\x02" + block(*[b"\x00\x00"] * 10_000)
    assert rejection_reason(record_of({"type": "array", "items": inner}), block(nested_items)) == "too_large"


def test_memory_of_absent_values_is_not_counted() -> None:
    optional_fields: Any = [
        {
            "name": f"s{n}",
            "type": ["null", {"type": "record", "name": f"S{n}", "fields": [{"name": "v", "type": "long"}]}],
        }
        for n in range(3)
    ]
    item = {"type": "record", "name": "Each", "fields": optional_fields}
    assert len(decode(record_of({"type": "array", "items": item}), block(*[b"\x00" * 3] * 300_000))["f0"]) == 300_000
    assert len(decode(record_of({"type": "array", "items": "long"}), block(*[b"\x00"] * 1_000_001))["f0"]) == 1_000_001


@pytest.mark.invariant("8.11")
def test_avro_records_are_decoded_in_slices_that_fit_into_memory() -> None:
    """Each takes far more memory than its bytes."""
    nulls = [{"name": f"e{number}", "type": "null"} for number in range(16)]
    item = {"type": "record", "name": "Each", "fields": [{"name": "v", "type": "long"}, *nulls]}
    schema = record_of({"type": "array", "items": item}, "int")
    values = [add_frame(1, block(*[b"\x00"] * 50_000) + bytes([2 * number])) for number in range(12)]
    rules = Rules((Column("f1", "INT", "A.").field,), None, Avro().parser(Schemas({1: schema_of(schema)}, {})))
    slices = [
        decoded_value.verdicts
        for decoded_value in decode_slices(pa.array(values, pa.binary()), None, rules, decode_plain)
    ]
    assert len(slices) > 2
    assert pa.concat_arrays(slices).field("f1").to_pylist() == list(range(12))


def test_a_decimal_without_bytes_is_not_zero() -> None:
    schema = record_of({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1})
    assert str(decode(schema, b"\x00")["f0"]) == "a decimal of 0 bytes"
    column = Column("v", "DECIMAL(4,1)", "A value.", source="f0")
    rules = Rules((column.field,), None, Avro().parser(Schemas({1: schema_of(schema)}, {})))
    for decoder in (decode_plain, None):
        (row,) = decode_values(
            pa.array([add_frame(1, b"\x00")], pa.binary()), None, rules, decoder
        ).verdicts.to_pylist()
        assert row["_reason"] == "out_of_range"


NOTHING = {"type": "record", "name": "Nothing", "fields": [{"name": "none", "type": "null"}]}


@pytest.mark.parametrize("item_type", ["null", NOTHING, {"type": "fixed", "name": "Zero", "size": 0}])
def test_a_schema_with_items_of_no_bytes_is_unusable(item_type: Any) -> None:
    with pytest.raises(Rejection, match="an array whose items have no bytes"):
        reader_of(schema_of(record_of({"type": "array", "items": item_type})))


@pytest.mark.parametrize("schema", ["string", ["null", "string"], {"type": "map", "values": "long"}])
def test_a_schema_that_is_not_a_record_is_unusable(schema: Any) -> None:
    parse = Avro().parser(Schemas({1: WriterSchema(json.dumps(schema))}, {2: "no Avro"}))
    for schema_id, detail in ((1, "schema 1: its type is not a record"), (2, "schema 2: no Avro")):
        with pytest.raises(Rejection) as rejected:
            parse(add_frame(schema_id, b"\x00"))
        assert rejected.value.args == ("unusable_schema", detail)


def test_referenced_schemas_are_used() -> None:
    named_schemas: dict[str, Any] = {}
    place = fastavro.parse_schema({**PLACE, "namespace": "geo"}, named_schemas, _write_hint=False)
    sale = fastavro.parse_schema(record_of("geo.Place", ["null", "geo.Place"]), named_schemas, _write_hint=False)
    buffer = io.BytesIO()
    value = {"f0": {"city": "Oslo"}, "f1": {"city": "Rome"}}
    schema_with_names = fastavro.parse_schema(record_of("geo.Place", ["null", "geo.Place"]), named_schemas)
    fastavro.schemaless_writer(buffer, schema_with_names, value)
    schema = WriterSchema(json.dumps(sale), (json.dumps(place),))
    assert reader_of(schema)(buffer.getvalue(), 0) == value


@pytest.mark.invariant("8.13")
def test_records_of_several_schemas_decode_by_the_names_of_their_fields() -> None:
    first = {"type": "record", "name": "M", "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}]}
    second = {
        "type": "record",
        "name": "M",
        "fields": [
            {"name": "n", "type": "double"},
            {"name": "more", "type": "string"},
            {"name": "id", "type": "string"},
        ],
    }
    columns = [Column("id", "STRING", "Which.", required=True), Column("n", "DOUBLE", "How much.")]
    table = StreamTable("m", "m", "M.", columns, key=["id"], format=Avro())
    schemas = {1: schema_of(first), 2: schema_of(second)}
    values = [
        add_frame(1, encode(first, {"id": "a", "n": 3})),
        add_frame(2, encode(second, {"id": "b", "n": 2.5, "more": "x"})),
    ]
    rules = Rules(table.fields, None, table.format.parser(Schemas(schemas, {})))
    for decoder in (decode_plain, None):
        decoded_value = decode_values(pa.array(values, pa.binary()), None, rules, decoder)
        rows = decoded_value.verdicts.to_pylist()
        assert [(row["id"], row["n"]) for row in rows] == [("a", 3.0), ("b", 2.5)]
        assert decoded_value.unmapped_counts == {"more": 1}


@pytest.mark.invariant("13.3")
@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ({"type": "int", "logicalType": "date"}, 2**31 - 1, "out_of_range"),
        ({"type": "long", "logicalType": "timestamp-millis"}, 2**62, "out_of_range"),
        ({"type": "long", "logicalType": "timestamp-micros"}, -(2**63), "out_of_range"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 1_500, None),
        ("double", float("nan"), "not_finite"),
        ("float", float("inf"), "not_finite"),
        ("bytes", b"x", "wrong_type"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, b"\x7f" * 100_000, "out_of_range"),
    ],
)
def test_a_value_that_its_column_cannot_represent_is_rejected(type_: Any, value: Any, expected: str | None) -> None:
    raw = {"type": type_["type"]} if isinstance(type_, dict) else type_
    body = encode(record_of(raw), {"f0": value})
    kinds = {"date": "DATE", "decimal": "DECIMAL(4,1)"}
    logical = type_.get("logicalType", "") if isinstance(type_, dict) else ""
    kind = kinds.get(logical, "TIMESTAMP" if logical else "DOUBLE")
    column = Column("v", kind, "A value.", source="f0")
    for decoder in (decode_plain, None):
        rules = Rules((column.field,), None, Avro().parser(Schemas({1: schema_of(record_of(type_))}, {})))
        (row,) = decode_values(pa.array([add_frame(1, body)], pa.binary()), None, rules, decoder).verdicts.to_pylist()
        assert row["_reason"] == expected
        assert expected or row["v"] == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=2)


def test_a_timestamp_out_of_range_does_no_harm_if_no_column_reads_it() -> None:
    schema = record_of("string", {"type": "long", "logicalType": "timestamp-millis"})
    body = encode(record_of("string", "long"), {"f0": "a", "f1": 2**62})
    table = StreamTable("t", "t", "T.", [Column("f0", "STRING", "A.", required=True)], key=["f0"], format=Avro())
    assert table.decode(add_frame(1, body), schemas={1: schema_of(schema)}) == {"f0": "a"}


def test_framed_json_is_decoded_after_the_id_of_its_schema() -> None:
    table = replace(TABLE, columns=COLUMNS[:2], format=Json(framed=True))
    rules = Rules(table.fields, None, table.format.parser())
    values = [add_frame(9, b'{"id": "a"}'), b'{"id": "a"}', add_frame(9, b""), add_frame(9, b'{"id": "a"}}'), None]
    for decoder in (decode_plain, None):
        rows = decode_values(pa.array(values, pa.binary()), None, rules, decoder).verdicts.to_pylist()
        reasons = [None, "wrong_magic", "empty_value", "trailing_bytes", "tombstone"]
        assert [row["_reason"] for row in rows] == reasons
        assert rows[0]["id"] == "a"


def test_formats_have_different_fingerprints_and_that_of_json_is_unchanged() -> None:
    columns = (replace(COLUMNS[0]), COLUMNS[1])
    fingerprints = {
        replace(TABLE, columns=columns, format=form).fingerprint for form in (Json(), Json(framed=True), Avro())
    }
    assert len(fingerprints) == 3
    assert repr(Json()) == "Json()"


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ({"type": "fixed", "name": "F", "size": -1}, "size -1"),
        ({"type": "fixed", "name": "F", "size": "3"}, "size 3"),
        ({"type": "fixed", "name": "F", "size": 1.5}, "size 1.5"),
        ({"type": "enum", "name": "E", "symbols": [1]}, "a name in it is not a string: 1"),
        ({"type": "record", "name": "T", "fields": [{"name": 3, "type": "int"}]}, "a name in it is not a string: 3"),
        ({"type": "record", "name": "T", "fields": [{"name": "a", "type": "int"}] * 2}, "two fields of the same name"),
        (
            {"type": "record", "name": "T", "fields": [{"name": f"n{n}", "type": "null"} for n in range(17)]},
            "without a byte",
        ),
    ],
)
def test_an_invalid_schema_is_unusable(type_: Any, message: str) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": type_}]})
    with pytest.raises(Rejection, match=message) as rejected:
        reader_of(WriterSchema(text))
    assert rejected.value.reason == "unusable_schema"


def test_a_schema_that_doubles_empty_values_at_each_level_is_unusable() -> None:
    fields = [{"name": "a", "type": {"type": "record", "name": "R0", "fields": [{"name": "n", "type": "null"}]}}]
    for depth in range(1, 60):
        inner = {"type": "record", "name": f"R{depth}", "fields": [*fields, {"name": "b", "type": f"R{depth - 1}"}]}
        fields = [{"name": "a", "type": inner}]
    with pytest.raises(Rejection, match="values without a byte"):
        reader_of(WriterSchema(json.dumps({"type": "record", "name": "R", "fields": fields})))


@pytest.mark.parametrize(
    "properties",
    [
        {"precision": 5, "scale": None},
        {"precision": 5, "scale": []},
        {"precision": 5, "scale": 10**19},
        {"precision": 5, "scale": -1},
        {"precision": 10**19, "scale": 2},
        {"scale": 2},
        {"precision": True, "scale": 1},
    ],
)
def test_an_invalid_decimal_is_read_as_bytes(properties: dict[str, Any]) -> None:
    text = json.dumps(record_of({"type": "bytes", "logicalType": "decimal", **properties}))
    assert reader_of(WriterSchema(text))(b"\x02\x05", 0) == {"f0": b"\x05"}


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize(("type_", "pattern"), [("STRING", None), ("TIMESTAMP", "%Y-%m-%d"), ("DATE", "%Y-%m-%d")])
def test_half_of_a_surrogate_pair_in_framed_json_rejects_only_its_record(type_: str, pattern: str | None) -> None:
    column = Column("a", type_, "A text.", pattern=pattern)
    rules = Rules((column.field,), None, Json(framed=True).parser())
    values = pa.array(
        [add_frame(1, b'{"a": "\\ud800"}'), add_frame(1, b'{"a": "2026-01-01"}'), add_frame(1, b"{}")], pa.binary()
    )
    decoders = (decode_plain, None)
    fast, strict = (decode_values(values, None, rules, decoder).verdicts.to_pylist() for decoder in decoders)
    assert fast == strict
    assert [row["_reason"] for row in strict][1:] == [None, None]
    assert strict[0]["_reason"] in ("invalid_text", "wrong_time_format")


def test_a_double_that_is_a_null_value_is_null_in_columns_and_in_arrays() -> None:
    options: dict[str, Any] = {"null_values": ("-99.9", "9.96921e+36")}
    fields = (Column("v", "DOUBLE", "", **options).field, Column("l", "ARRAY<DOUBLE>", "", **options).field)
    assert convert({"v": -99.9, "l": [9.96921e36, 1.5]}, fields) == {"v": None, "l": [None, 1.5]}


def wrap(times: int, inner: Any, name: str = "R") -> Any:
    """A schema inside of nested records, each of which contains only the next one."""
    for number in range(times):
        inner = {"type": "record", "name": f"{name}{number}", "fields": [{"name": "in", "type": inner}]}
    return inner


def test_a_schema_with_too_many_wrapper_records_is_unusable() -> None:
    with pytest.raises(Rejection, match="more than 16 nested records in it contain only one value"):
        reader_of(schema_of(record_of({"type": "array", "items": wrap(17, "boolean")})))
    wrapped_union = wrap(12, ["null", wrap(15, "boolean", "I")])
    reader_of(schema_of(record_of({"type": "array", "items": wrapped_union})))
