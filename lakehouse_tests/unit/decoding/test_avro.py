"""Avro is read as its own library writes it, and strictly: what is spoiled is a reason, and never another error."""

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
from lakehouse.decoding.formats.framing import framed
from lakehouse.decoding.memory import MOST_OF_ONE
from lakehouse.decoding.staged import NULL_SAID
from lakehouse.decoding.values import convert
from lakehouse.decoding.verdicts import Rules, decode_slices, decode_values
from lakehouse_tests.helpers.brokers.registries import body as written

pytestmark = pytest.mark.invariant(8, 13)

AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
ALL = {
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


def of(*types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


def read(schema: Any, body: bytes) -> Any:
    return reader_of(schema_of(schema))(body, 0)


def reason(schema: Any, body: bytes) -> str:
    with pytest.raises(Rejection) as rejected:
        read(schema, body)
    return rejected.value.reason


SCHEMAS = Schemas({7: schema_of(ALL)}, {})
RULES = Rules(TABLE.fields, None, TABLE.format.parser(SCHEMAS))


def test_a_null_branch_is_a_null_and_a_field_its_schema_lacks_is_missing() -> None:
    columns = [
        Column(name, "STRING", "A.", source=path, keep=True, null_erases=True, null_values=("n/a",))
        for name, path in {"there": ("text",), "within": ("place", "city"), "not_there": ("absent",)}.items()
    ]
    place = {"type": "record", "name": "P", "fields": [{"name": "city", "type": "string"}]}
    fields = [{"name": "text", "type": ["null", "string"]}, {"name": "place", "type": ["null", place]}]
    schema = {"type": "record", "name": "S", "fields": fields}
    rules = Rules(tuple(each.field for each in columns), None, Avro().parser(Schemas({1: schema_of(schema)}, {})))
    told: list[dict[str, Any]] = [
        {"text": None, "place": None},
        {"text": "n/a", "place": {"city": "n/a"}},
        {"text": "a", "place": None},
    ]
    values = pa.array([framed(1, written(schema, each)) for each in told])
    for path in (decode_plain, None):
        rows = decode_values(values, None, rules, path).verdicts.to_pylist()
        found = [[row[f"{NULL_SAID}{each.name}"] for each in columns] for row in rows]
        assert found == [[True, True, False], [False, False, False], [False, True, False]]


@given(SALES)
def test_every_type_is_read_as_it_was_written(sale: dict[str, Any]) -> None:
    found = read(ALL, written(ALL, sale))
    assert found.pop("half") == pytest.approx(sale["half"], rel=1e-7, abs=1e-45)
    expected = {**sale, "id": str(sale["id"])}
    del expected["half"]
    assert found == expected


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_number_of_32_bits_is_the_shortest_that_means_it(number: float) -> None:
    found = read(of("float"), struct.pack("<f", number))["f0"]
    assert struct.pack("<f", found) == struct.pack("<f", number)
    assert len(repr(found)) <= len(repr(number))


def test_a_number_of_32_bits_is_what_its_writer_wrote() -> None:
    assert read(of("float"), struct.pack("<f", 7.1)) == {"f0": 7.1}


@given(st.lists(SALES, min_size=1, max_size=5))
def test_many_records_are_decoded_as_one_by_one(sales: list[dict[str, Any]]) -> None:
    values: list[bytes | None] = [framed(7, written(ALL, sale)) for sale in sales]
    whole = written(ALL, sales[0])
    values += [None, b"", b"\x01abcd", b"\x00\x00", framed(8, b""), framed(7, whole[:-1]), framed(7, whole + b"\x00")]
    array = pa.array(values, pa.binary())
    quickly, strictly = (decode_values(array, None, RULES, path) for path in (decode_plain, None))
    assert quickly.verdicts.to_pylist() == strictly.verdicts.to_pylist()
    assert quickly.others == strictly.others
    quickly.verdicts.validate(full=True)
    told = [row["_reason"] for row in quickly.verdicts.to_pylist()]
    spoiled = ["tombstone", "empty_value", "wrong_magic", "truncated", "unknown_schema", "truncated", "trailing_bytes"]
    assert told[-7:] == spoiled
    assert quickly.verdicts.field("at").type == arrow_type("TIMESTAMP")


def test_values_are_those_of_their_logical_types() -> None:
    row = TABLE.decode(framed(7, written(ALL, A_SALE)), schemas=SCHEMAS.known)
    assert row["id"] == "00000000-0000-0000-0000-000000000005"
    assert row["amount"] == Decimal("12.30")
    assert (row["day"], row["at"], row["seen"]) == (A_SALE["day"], A_SALE["at"], None)
    assert (row["kind"], row["city"], row["n"]) == ("OLD", "Oslo", 1)


@pytest.mark.parametrize("end", range(len(written(ALL, A_SALE))))
def test_a_record_that_is_cut_off_anywhere_is_truncated(end: int) -> None:
    assert reason(ALL, written(ALL, A_SALE)[:end]) == "truncated"


@given(st.data())
def test_spoiled_bytes_are_a_row_or_a_reason_and_never_another_error(data: st.DataObject) -> None:
    body = bytearray(framed(7, written(ALL, A_SALE)))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    array = pa.array([bytes(body)], pa.binary())
    quickly, strictly = (decode_values(array, None, RULES, path).verdicts.to_pylist() for path in (decode_plain, None))
    assert repr(quickly) == repr(strictly)
    assert strictly[0]["_reason"] in (None, *KNOWN_REASONS)


FAR = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # the greatest number of 64 bits


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
        (["string"], FAR, "truncated"),
        (["string"], b"\x04\xff\xfe", "invalid_utf8"),
        (["bytes"], FAR, "truncated"),
        ([{"type": "array", "items": "long"}], FAR + b"\x00", "truncated"),
        ([{"type": "array", "items": "long"}], b"\x01\x04\x02\x00", "invalid_avro"),
        ([{"type": "map", "values": "long"}], b"\x04\x02a\x02\x02a\x04\x00", "duplicate_name"),
        ([], b"\x00", "trailing_bytes"),
    ],
)
def test_what_no_writer_writes_is_refused(types: list[Any], body: bytes, expected: str) -> None:
    assert reason(of(*types), body) == expected


def test_a_uuid_of_sixteen_bytes_is_its_text() -> None:
    schema = of({"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"})
    assert read(schema, UUID(int=5).bytes) == {"f0": "00000000-0000-0000-0000-000000000005"}


def test_blocks_that_say_their_size_are_read() -> None:
    schema = of({"type": "array", "items": "long"})
    assert read(schema, b"\x03\x04\x02\x04\x02\x06\x00") == {"f0": [1, 2, 3]}


def test_a_record_nested_without_end_is_refused() -> None:
    schema = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    assert read(schema, b"\x02\x00") == {"next": {"next": None}}
    assert reason(schema, b"\x02" * 1_000_000 + b"\x00") == "invalid_avro"


def items(*each: bytes) -> bytes:
    """What is written of an array or a map of these items."""
    return (written(of("long"), {"f0": len(each)}) if each else b"") + b"".join(each) + b"\x00"


def test_a_record_whose_few_bytes_would_be_more_than_any_memory_holds_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a twentieth of the memory that a record may take, and so in a twentieth of the time."""
    for module in (avro_reader, avro_nodes):
        monkeypatch.setattr(module, "MOST_OF_ONE", MOST_OF_ONE // 20)
    inner: Any = {"type": "record", "name": "R0", "fields": [{"name": "ok", "type": "boolean"}]}
    for depth in range(1, 10):
        inner = {"type": "record", "name": f"R{depth}", "fields": [{"name": "in", "type": inner}]}
    array, table = of({"type": "array", "items": ["null", inner]}), of({"type": "map", "values": inner})
    assert len(read(array, items(*[b"\x02\x00"] * 100))["f0"]) == 100
    assert reason(array, items(*[b"\x02\x00"] * 10_000)) == "too_large", "ten each"
    assert reason(table, items(*(b"\x0c%06d\x00" % n for n in range(10_000)))) == "too_large"
    nested = {"type": "record", "name": "T", "fields": [{"name": "kids", "type": {"type": "array", "items": "T"}}]}
    assert read(nested, items(items())) == {"kids": [{"kids": []}]}
    assert reason(nested, items(*[items(*[b"\x00"] * 100)] * 600)) == "too_large"
    around: Any = ["null", {"type": "array", "items": "R9"}]  # each record of the chain stands in those before it
    inner["fields"].append({"name": "more", "type": around})
    assert reason(of({"type": "array", "items": inner}), items(*[b"\x00\x00"] * 10_000)) == "too_large"
    within = b"\x00\x02" + items(*[b"\x00\x00"] * 10_000)
    assert reason(of({"type": "array", "items": inner}), items(within)) == "too_large"


def test_what_a_record_could_hold_and_does_not_is_not_counted() -> None:
    some: Any = [
        {
            "name": f"s{n}",
            "type": ["null", {"type": "record", "name": f"S{n}", "fields": [{"name": "v", "type": "long"}]}],
        }
        for n in range(3)
    ]
    each = {"type": "record", "name": "Each", "fields": some}
    assert len(read(of({"type": "array", "items": each}), items(*[b"\x00" * 3] * 300_000))["f0"]) == 300_000
    assert len(read(of({"type": "array", "items": "long"}), items(*[b"\x00"] * 1_000_001))["f0"]) == 1_000_001


def test_records_of_avro_are_decoded_as_many_together_as_fit() -> None:
    """Each takes more memory by far than its bytes tell."""
    nulls = [{"name": f"e{number}", "type": "null"} for number in range(16)]
    each = {"type": "record", "name": "Each", "fields": [{"name": "v", "type": "long"}, *nulls]}
    schema = of({"type": "array", "items": each}, "int")
    values = [framed(1, items(*[b"\x00"] * 50_000) + bytes([2 * number])) for number in range(12)]
    rules = Rules((Column("f1", "INT", "A.").field,), None, Avro().parser(Schemas({1: schema_of(schema)}, {})))
    decoded = [each.verdicts for each in decode_slices(pa.array(values, pa.binary()), None, rules, decode_plain)]
    assert len(decoded) > 2
    assert pa.concat_arrays(decoded).field("f1").to_pylist() == list(range(12))


def test_a_decimal_without_a_byte_is_no_zero() -> None:
    schema = of({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1})
    assert str(read(schema, b"\x00")["f0"]) == "a decimal of 0 bytes"
    column = Column("v", "DECIMAL(4,1)", "A value.", source="f0")
    rules = Rules((column.field,), None, Avro().parser(Schemas({1: schema_of(schema)}, {})))
    for path in (decode_plain, None):
        (row,) = decode_values(pa.array([framed(1, b"\x00")], pa.binary()), None, rules, path).verdicts.to_pylist()
        assert row["_reason"] == "out_of_range"


NOTHING = {"type": "record", "name": "Nothing", "fields": [{"name": "none", "type": "null"}]}


@pytest.mark.parametrize("items", ["null", NOTHING, {"type": "fixed", "name": "Zero", "size": 0}])
def test_a_schema_of_arrays_without_bytes_is_of_no_use(items: Any) -> None:
    with pytest.raises(Rejection, match="takes no byte"):
        reader_of(schema_of(of({"type": "array", "items": items})))


@pytest.mark.parametrize("schema", ["string", ["null", "string"], {"type": "map", "values": "long"}])
def test_a_schema_of_no_record_is_of_no_use(schema: Any) -> None:
    parse = Avro().parser(Schemas({1: WriterSchema(json.dumps(schema))}, {2: "no Avro"}))
    for schema_id, why in ((1, "schema 1: it is the schema of no record"), (2, "schema 2: no Avro")):
        with pytest.raises(Rejection) as rejected:
            parse(framed(schema_id, b"\x00"))
        assert rejected.value.args == ("unusable_schema", why)


def test_schemas_that_others_refer_to_are_read_with_them() -> None:
    named: dict[str, Any] = {}
    place = fastavro.parse_schema({**PLACE, "namespace": "geo"}, named, _write_hint=False)
    sale = fastavro.parse_schema(of("geo.Place", ["null", "geo.Place"]), named, _write_hint=False)
    into = io.BytesIO()
    value = {"f0": {"city": "Oslo"}, "f1": {"city": "Rome"}}
    fastavro.schemaless_writer(into, fastavro.parse_schema(of("geo.Place", ["null", "geo.Place"]), named), value)
    schema = WriterSchema(json.dumps(sale), (json.dumps(place),))
    assert reader_of(schema)(into.getvalue(), 0) == value


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
        framed(1, written(first, {"id": "a", "n": 3})),
        framed(2, written(second, {"id": "b", "n": 2.5, "more": "x"})),
    ]
    rules = Rules(table.fields, None, table.format.parser(Schemas(schemas, {})))
    for path in (decode_plain, None):
        decoded = decode_values(pa.array(values, pa.binary()), None, rules, path)
        rows = decoded.verdicts.to_pylist()
        assert [(row["id"], row["n"]) for row in rows] == [("a", 3.0), ("b", 2.5)]
        assert decoded.others == {"more": 1}


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
def test_a_value_that_its_column_does_not_hold_is_refused(type_: Any, value: Any, expected: str | None) -> None:
    raw = {"type": type_["type"]} if isinstance(type_, dict) else type_
    body = written(of(raw), {"f0": value})
    kinds = {"date": "DATE", "decimal": "DECIMAL(4,1)"}
    logical = type_.get("logicalType", "") if isinstance(type_, dict) else ""
    kind = kinds.get(logical, "TIMESTAMP" if logical else "DOUBLE")
    column = Column("v", kind, "A value.", source="f0")
    for path in (decode_plain, None):
        rules = Rules((column.field,), None, Avro().parser(Schemas({1: schema_of(of(type_))}, {})))
        (row,) = decode_values(pa.array([framed(1, body)], pa.binary()), None, rules, path).verdicts.to_pylist()
        assert row["_reason"] == expected
        assert expected or row["v"] == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=2)


def test_an_unread_moment_beyond_all_calendars_harms_nobody() -> None:
    schema = of("string", {"type": "long", "logicalType": "timestamp-millis"})
    body = written(of("string", "long"), {"f0": "a", "f1": 2**62})
    table = StreamTable("t", "t", "T.", [Column("f0", "STRING", "A.", required=True)], key=["f0"], format=Avro())
    assert table.decode(framed(1, body), schemas={1: schema_of(schema)}) == {"f0": "a"}


def test_framed_json_is_decoded_behind_the_id_of_its_schema() -> None:
    table = replace(TABLE, columns=COLUMNS[:2], format=Json(framed=True))
    rules = Rules(table.fields, None, table.format.parser())
    values = [framed(9, b'{"id": "a"}'), b'{"id": "a"}', framed(9, b""), framed(9, b'{"id": "a"}}'), None]
    for path in (decode_plain, None):
        rows = decode_values(pa.array(values, pa.binary()), None, rules, path).verdicts.to_pylist()
        reasons = [None, "wrong_magic", "empty_value", "trailing_bytes", "tombstone"]
        assert [row["_reason"] for row in rows] == reasons
        assert rows[0]["id"] == "a"


def test_the_fingerprint_tells_formats_and_that_of_plain_json_is_as_it_was() -> None:
    columns = (replace(COLUMNS[0]), COLUMNS[1])
    prints = {replace(TABLE, columns=columns, format=form).fingerprint for form in (Json(), Json(framed=True), Avro())}
    assert len(prints) == 3
    assert repr(Json()) == "Json()"


@pytest.mark.parametrize(
    ("type_", "why"),
    [
        ({"type": "fixed", "name": "F", "size": -1}, "size -1"),
        ({"type": "fixed", "name": "F", "size": "3"}, "size 3"),
        ({"type": "fixed", "name": "F", "size": 1.5}, "size 1.5"),
        ({"type": "enum", "name": "E", "symbols": [1]}, "a name in it is 1"),
        ({"type": "record", "name": "T", "fields": [{"name": 3, "type": "int"}]}, "a name in it is 3"),
        ({"type": "record", "name": "T", "fields": [{"name": "a", "type": "int"}] * 2}, "two fields of one name"),
        ({"type": "record", "name": "T", "fields": [{"name": f"n{n}", "type": "null"} for n in range(17)]}, "no byte"),
    ],
)
def test_a_schema_that_no_writer_has_is_of_no_use(type_: Any, why: str) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": type_}]})
    with pytest.raises(Rejection, match=why) as rejected:
        reader_of(WriterSchema(text))
    assert rejected.value.reason == "unusable_schema"


def test_a_schema_that_doubles_nothing_without_end_is_of_no_use() -> None:
    fields = [{"name": "a", "type": {"type": "record", "name": "R0", "fields": [{"name": "n", "type": "null"}]}}]
    for depth in range(1, 60):
        inner = {"type": "record", "name": f"R{depth}", "fields": [*fields, {"name": "b", "type": f"R{depth - 1}"}]}
        fields = [{"name": "a", "type": inner}]
    with pytest.raises(Rejection, match="take no byte"):
        reader_of(WriterSchema(json.dumps({"type": "record", "name": "R", "fields": fields})))


@pytest.mark.parametrize(
    "said",
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
def test_a_decimal_that_cannot_be_one_is_bytes(said: dict[str, Any]) -> None:
    text = json.dumps(of({"type": "bytes", "logicalType": "decimal", **said}))
    assert reader_of(WriterSchema(text))(b"\x02\x05", 0) == {"f0": b"\x05"}


@pytest.mark.parametrize(("type_", "pattern"), [("STRING", None), ("TIMESTAMP", "%Y-%m-%d"), ("DATE", "%Y-%m-%d")])
def test_half_of_a_surrogate_pair_in_framed_json_rejects_its_record_alone(type_: str, pattern: str | None) -> None:
    column = Column("a", type_, "A text.", pattern=pattern)
    rules = Rules((column.field,), None, Json(framed=True).parser())
    values = pa.array(
        [framed(1, b'{"a": "\\ud800"}'), framed(1, b'{"a": "2026-01-01"}'), framed(1, b"{}")], pa.binary()
    )
    quickly, strictly = (decode_values(values, None, rules, path).verdicts.to_pylist() for path in (decode_plain, None))
    assert quickly == strictly
    assert [row["_reason"] for row in strictly][1:] == [None, None]
    assert strictly[0]["_reason"] in ("invalid_text", "wrong_time_format")


def test_a_double_that_stands_for_null_is_null_by_itself_and_within() -> None:
    said: dict[str, Any] = {"null_values": ("-99.9", "9.96921e+36")}
    fields = (Column("v", "DOUBLE", "", **said).field, Column("l", "ARRAY<DOUBLE>", "", **said).field)
    assert convert({"v": -99.9, "l": [9.96921e36, 1.5]}, fields) == {"v": None, "l": [None, 1.5]}


def wrapped(times: int, inner: Any, name: str = "R") -> Any:
    """A value in so many records, of which each holds the next and nothing else."""
    for number in range(times):
        inner = {"type": "record", "name": f"{name}{number}", "fields": [{"name": "in", "type": inner}]}
    return inner


def test_a_schema_by_which_few_bytes_would_fill_a_memory_is_of_no_use() -> None:
    with pytest.raises(Rejection, match="more than 16 records in it stand around a single value"):
        reader_of(schema_of(of({"type": "array", "items": wrapped(17, "boolean")})))
    beside = wrapped(12, ["null", wrapped(15, "boolean", "I")])
    reader_of(schema_of(of({"type": "array", "items": beside})))
