"""The fast path for records with many rows gives the rows of the strict path, or leaves a record to it."""

import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import Deletes, Explode, Time, writer_schema
from lakehouse.declaration import (
    Avro,
    BrokerTime,
    Column,
    Compressed,
    Element,
    ElementIndex,
    FieldExists,
    FieldIs,
    HeaderIs,
    Json,
    Late,
    ParentField,
    Protobuf,
    RecordHeader,
    RecordKey,
    StreamTable,
)
from lakehouse.decoding import exploded_rows
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import Schemas, WriterSchema
from lakehouse.decoding.formats.unpacking.compression import compress
from lakehouse.decoding.one_record import judge_record
from lakehouse.decoding.record_parts import INDEX as PLACE
from lakehouse.decoding.record_parts import KEY, PARSED_KEY, TIME
from lakehouse.decoding.staged import NO_ROWS
from lakehouse.decoding.verdicts import DecodedRecords, decode_slices, decode_values, first_rejected
from lakehouse_tests.helpers.decoding.both_paths import decode_twice
from lakehouse_tests.helpers.decoding.native import NATIVE, uncertain_records

COLUMNS = [
    Column("order_id", "BIGINT", "Number.", required=True, source=ParentField("id")),
    Column("shop", "STRING", "Shop.", source=ParentField(("shop", "name")), formerly="shop_name", keep=True),
    Column("sku", "STRING", "Article.", required=True, formerly="article"),
    Column("pieces", "INT", "How many.", source=("amount", "pieces"), between=(0, 100), null_values=["-1"]),
    Column("price", "DECIMAL(9,2)", "Price.", keep=True, null_erases=True),
    Column("weight", "DOUBLE", "Weight.", default=1.5),
    Column("at", "TIMESTAMP", "When.", written=Time("iso8601")),
    Column("tags", "ARRAY<STRING>", "Tags."),
]
KEYED = StreamTable("items", "orders", "Items.", COLUMNS, ["order_id", "sku"], rows_from="items")
PARTS = [
    Column("shop", "STRING", "Shop.", source=RecordKey()),
    Column("trace", "INT", "Trace.", source=RecordHeader("trace")),
    Column("sent_at", "TIMESTAMP", "When.", source=BrokerTime()),
]
KEY_ID = Column("key_id", "INT", "Number.", source=RecordKey("json", ("a", "id")), null_values=["7"])
BYTES = [
    Column("extra", "BINARY", "Bytes.", written="base64"),
    Column("kind", "BINARY", "Bytes.", source=ParentField("kind"), written="hex", null_values=["-"]),
]
KEYS = [b'{"a": {"id": 1}}', b'{"a": {"id": 7}, "a": 1}', None, b'{"a": {"id": 7}}', b"{", b'{"a": 3}']
INDEX = Column("index", "BIGINT", "Place.", required=True, source=ElementIndex())
WHOLE = Column("element", "STRING", "Its text.", source=Element(), written="json")
TEXT = Column("text", "STRING", "A text.", source=Element(), null_values=["-"])
TABLES = {
    "keyed": KEYED,
    "log": replace(KEYED, columns=[replace(column, keep=False, null_erases=False) for column in COLUMNS], key=[]),
    "path": replace(KEYED, rows_from=("shop", "items")),
    "array": replace(KEYED, columns=COLUMNS[2:], key=["sku"], rows_from=()),
    "deletes": replace(KEYED, deletes=Deletes(when=FieldIs(("amount", "gone"), [True, "yes"]))),
    "where": replace(KEYED, where=FieldIs("kind", ["a", 1])),
    "late": replace(KEYED, late=Late("at", timedelta(days=1))),
    "late order": replace(
        KEYED,
        columns=[*COLUMNS, Column("on", "DATE", "Day.", source=ParentField("on"), written=Time("%Y-%m-%d"))],
        late=Late("on", timedelta(days=1), "accept"),
    ),
    "null": replace(KEYED, format=Json(not_finite="null")),
    "compressed": replace(KEYED, format=Compressed(Json(), "gzip")),
    "framed": replace(KEYED, format=Json(framed=True)),
    "whole": replace(KEYED, columns=[COLUMNS[0], WHOLE], key=[]),
    "text": replace(KEYED, columns=[TEXT, *PARTS], key=[], where=HeaderIs("kind", ["a"])),
    "JSON key": replace(KEYED, columns=[*COLUMNS[2:4], KEY_ID], key=[]),
    "bytes": replace(KEYED, columns=[COLUMNS[2], *BYTES], key=[]),
    "whole bytes": replace(KEYED, columns=[replace(BYTES[0], source=Element())], key=[]),
    "in a text": replace(KEYED, format=Json(in_text=True)),
    "index": replace(KEYED, columns=[*COLUMNS[:3], INDEX], key=["order_id", "index"]),
    "index alone": replace(KEYED, columns=[replace(INDEX, between=(1, 2))], key=[], rows_from=()),
    "index of deletes": replace(
        KEYED,
        columns=[*COLUMNS[:3], INDEX],
        key=["order_id", "index"],
        deletes=Deletes(when=FieldIs(ParentField("kind"), ["a"])),
    ),
    "single object": replace(KEYED, rows_from=Explode("items", single_object=True)),
    "single object at a path": replace(KEYED, rows_from=Explode(("shop", "items"), single_object=True)),
    "single record": replace(KEYED, columns=COLUMNS[2:], key=["sku"], rows_from=Explode((), single_object=True)),
    "single record, whole": replace(KEYED, columns=[WHOLE], key=[], rows_from=Explode((), single_object=True)),
    "single object, framed": replace(KEYED, rows_from=Explode("items", single_object=True), format=Json(framed=True)),
    "where of elements": replace(KEYED, rows_from=Explode("items", where=FieldExists("amount"))),
    "two conditions of elements": replace(
        KEYED,
        rows_from=Explode(("shop", "items"), where=[FieldExists("sku"), FieldIs(("amount", "gone"), [True, "a"])]),
        deletes=Deletes(when=FieldIs("extra", ["a"])),
    ),
    "where of elements of an array": replace(
        KEYED, columns=[WHOLE], key=[], rows_from=Explode((), True, FieldExists(("amount", "pieces")))
    ),
    "text of array": replace(KEYED, columns=[TEXT], key=[], rows_from=()),
}
TIMES = [None, 0, 1_767_225_600_000_000, 2**62]

numbers = st.integers(-2, 101) | st.sampled_from([0.5, 1e300, 10**30, 0.0, 1.005, 12345.675, -1])
texts = st.sampled_from(
    ["", "a", "ü", "-1", "-", 'say "x"', "\\", "null", "{", '{"pieces": 3}', "\ud800", "AQI=", "00ff"]
)
scalars = st.none() | st.booleans() | numbers | texts
times = st.sampled_from(["2026-01-01T00:00:00Z", "2025-12-31", "2026-02-30T00:00:00Z", "noon"])
amounts = st.fixed_dictionaries({}, optional={"pieces": scalars, "gone": scalars}) | scalars
elements = st.fixed_dictionaries(
    {"sku": st.sampled_from(["a", "b"]) | scalars},
    optional={
        "article": scalars,
        "amount": amounts,
        "price": scalars,
        "weight": scalars,
        "at": times | scalars,
        "tags": st.lists(texts, max_size=2) | scalars,
        "extra": scalars,
    },
)
plain_elements = st.fixed_dictionaries({"sku": st.sampled_from(["a", "b"])}, optional={"price": st.integers(0, 9)})
arrays = st.lists(plain_elements, max_size=4) | st.lists(elements | plain_elements | scalars, max_size=4) | scalars
arrays |= st.lists(st.lists(plain_elements, max_size=1), max_size=2) | st.lists(texts, max_size=3)
arrays |= plain_elements | elements
arrays |= arrays.map(json.dumps)
orders = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(0, 9) | scalars,
        "items": arrays,
        "shop": st.fixed_dictionaries({}, optional={"name": scalars, "items": arrays}) | scalars,
        "shop_name": scalars,
        "kind": st.sampled_from(["a", 1]) | scalars,
        "on": times | scalars,
        "extra": scalars,
    },
)
contents = st.lists(plain_elements, max_size=4) | st.lists(elements | plain_elements, max_size=4)
contents |= st.lists(plain_elements | scalars, max_size=3)
whole_orders = st.builds(
    lambda content, order: order | {"id": 1, "kind": "a", "items": content, "shop": {"name": "n", "items": content}},
    contents,
    st.just({}) | orders,
)
encoded = (whole_orders | contents | orders | arrays).map(lambda content: json.dumps(content).encode())
values = encoded | encoded.map(lambda value: value.replace(b'"sku":', b'"sku": "z", "sku":', 1))


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    """A record with a few bytes removed, replaced or repeated: also with duplicate names and unfinished arrays."""
    value = draw(values)
    start = draw(st.integers(0, len(value)))
    end = draw(st.integers(start, min(len(value), start + 12)))
    replacement = draw(st.sampled_from([b"", b"}", b"NaN", b"1e999999999", b'"sku": "a", ', b"\xff", b"[" * 60, b"0"]))
    return value[:start] + replacement + value[start:end] * draw(st.integers(0, 2)) + value[end:]


def encode(table: StreamTable, value: bytes) -> bytes:
    if isinstance(table.format, Compressed):
        return compress(value, "gzip")
    if table.format == Json(in_text=True):
        return json.dumps(value.decode("utf-8", "replace")).encode()
    return table.format.writer(1)(value) if table.format.framed else value


def decode(table: StreamTable, records: list[bytes | None]) -> DecodedRecords:
    """What both paths give for records with some keys, headers and times."""
    places = range(len(records))
    parts: dict[str, list[bytes | None]] = {
        "key": [KEYS[place % 6] if table.rules().key_parser else b"k" * place for place in places],
        "header trace": [b"%d" % place for place in places],
        "header kind": [[b"a", None][place % 2] for place in places],
    }
    needed = {KEY if field.place.part == PARSED_KEY else field.place.part for field in table.fields} - {PLACE}
    needed |= {condition.record_filter.part for condition in table.conditions}
    parts = {part: contents for part, contents in parts.items() if part in needed}
    encoded_records = [None if value is None else encode(table, value) for value in records]
    return decode_twice(encoded_records, table.rules(), parts, [TIMES[place % 4] for place in places])


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@given(records=st.lists(values | spoiled() | st.none(), max_size=6))
def test_the_fast_path_gives_the_rows_of_the_strict_path(table: StreamTable, records: list[bytes | None]) -> None:
    decode(table, records)


@pytest.mark.parametrize("table", [KEYED, TABLES["array"], TABLES["compressed"]], ids=["keyed", "array", "compressed"])
def test_ordinary_records_take_the_fast_path(table: StreamTable) -> None:
    items = [{"sku": "a", "price": 1.25, "amount": {"pieces": 2}, "extra": "x"}, {"sku": "b", "tags": ["t"]}]
    order = {"id": 1, "shop": {"name": "n"}, "items": items}
    record = json.dumps(items if table.rows_from == () else order).encode()
    empty = b"[]" if table.rows_from == () else b'{"id": 1}'
    encoded = pa.array([encode(table, value) for value in (record, empty, record)], pa.binary())
    assert uncertain_records(encoded, None, table.rules()) == []
    rows = decode_values(encoded, None, table.rules(), NATIVE).verdicts.to_pylist()
    places = [[(row["_index"], row["_reason"]) for row in rows_of_record] for rows_of_record in rows]
    assert places == [[(0, None), (1, None)], [(None, "empty")], [(0, None), (1, None)]]


@pytest.mark.parametrize(
    "record",
    [
        b'{"id": 1, "items": [{"sku": "z", "sku": "a"}]}',
        b'{"id": 1, "items": [{"sku": "a"}, {"sku": "b", "extra": {"x": 1, "x": 2}}]}',
        b'{"id": 1, "id": 1, "items": [{"sku": "a"}]}',
        b'{"id": 1, "items": [{"sku": "b"}], "items": [{"sku": "a"}]}',
        b'{"id": 1, "extra": 1, "extra": 2}',
        b'{"id": 1, "items": [{"sku": "a", "weight": 1e-999999999}]}',
        b'{"id": 1, "items": [{"sku": "a", "extra": NaN}]}',
        b'{"id": 1, "items": [{"sku": "a"}, {"sku": "b", "amount": {"pieces": 101}}]}',
    ],
)
def test_a_record_that_a_native_parser_reads_otherwise_takes_the_strict_path(record: bytes) -> None:
    good = b'{"id": 1, "items": [{"sku": "a"}]}'
    records = pa.array([good, record, good], pa.binary())
    assert uncertain_records(records, None, KEYED.rules()) == [1]
    decode(KEYED, [good, record, good])


AVRO_ITEM = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}
AVRO_FIELDS = [{"name": "id", "type": "long"}, {"name": "items", "type": {"type": "array", "items": AVRO_ITEM}}]
AVRO = writer_schema(json.dumps({"type": "record", "name": "Order", "fields": AVRO_FIELDS}))
PROTOBUF = writer_schema(
    'syntax = "proto3"; message Order { int64 id = 1; repeated Item items = 2; } message Item { string sku = 1; }',
    kind="PROTOBUF",
)


@pytest.mark.parametrize(("form", "schema"), [(Avro(), AVRO), (Protobuf(), PROTOBUF)], ids=["Avro", "Protobuf"])
def test_elements_of_typed_formats_are_rows(form: Format, schema: WriterSchema) -> None:
    table = replace(KEYED, columns=[COLUMNS[0], replace(COLUMNS[2], formerly=None)], format=form)
    value = form.writer(7, schema)(b'{"id": 1, "items": [{"sku": "a"}, {"sku": "b"}]}')
    assert table.decode_rows(value, schemas={7: schema}) == [{"order_id": 1, "sku": "a"}, {"order_id": 1, "sku": "b"}]
    rules = table.rules(Schemas({7: schema}, {}))
    records = [value, value[:-2], b"x", None]
    decode_twice(records, rules)


@pytest.mark.invariant("8.11")
@pytest.mark.parametrize("is_fast", [True, False])
@pytest.mark.parametrize("is_text", [[False], [True], [True, False]], ids=["arrays", "texts of arrays", "both"])
def test_records_with_many_rows_are_decoded_in_slices(
    monkeypatch: pytest.MonkeyPatch, is_fast: bool, is_text: list[bool]
) -> None:
    monkeypatch.setattr(exploded_rows, "MAX_SLICE_MEMORY", 100_000)
    items = [{"sku": str(n)} for n in range(30)]
    arrays = [json.dumps(items) if text else items for text in is_text * 20]
    records = pa.array([json.dumps({"id": 1, "items": array, "more": 1}).encode() for array in arrays], pa.binary())
    slices = list(decode_slices(records, None, KEYED.rules(), NATIVE if is_fast else None))
    assert [len(rows) for part in slices for rows in part.verdicts.to_pylist()] == [30] * len(arrays)
    assert max(len(part.verdicts) for part in slices) < 20
    assert sum((part.unmapped_counts for part in slices), Counter()) == {"more": len(arrays)}


@pytest.mark.invariant("8.11")
def test_records_that_the_native_parser_cannot_read_do_not_fill_a_slice() -> None:
    """Else the rest of the slice would be parsed again after each of them."""
    record = b'{"id": 1, "items": [{"sku": "a"}], "extra": "\\ud800' + b"x" * 3_000 + b'"}'
    records = pa.array([record] * 500, pa.binary())
    slices = list(decode_slices(records, None, KEYED.rules(), NATIVE))
    assert [len(part.verdicts) for part in slices] == [250, 250]


@pytest.mark.invariant("8.10")
def test_arrays_in_elements_that_no_column_reads_may_be_too_deep() -> None:
    table = replace(KEYED, columns=[COLUMNS[0]], key=[])
    records: list[bytes | None] = [b'{"id": 1, "items": [' + b"[" * deep + b"]" * deep + b"]}" for deep in (1, 990)]
    assert [row["_reason"] for rows in decode(table, records).verdicts.to_pylist() for row in rows] == [
        None,
        "invalid_json",
    ]


@given(records=st.lists(values | spoiled(), max_size=6))
def test_only_the_first_rejected_row_of_a_record_keeps_its_bytes(records: list[bytes | None]) -> None:
    decoded = decode(KEYED, records)
    flags = first_rejected(decoded.verdicts).to_pylist()
    for rows in decoded.verdicts.to_pylist():
        row_flags, flags = flags[: len(rows)], flags[len(rows) :]
        is_rejected = [row["_reason"] is not None and row["_reason"] not in NO_ROWS for row in rows]
        first = is_rejected.index(True) if any(is_rejected) else None
        assert [index for index, flag in enumerate(row_flags) if flag] == ([] if first is None else [first])
    assert flags == []


def test_the_broker_time_of_a_record_is_that_of_each_row() -> None:
    rules = TABLES["text"].rules()
    parts = {"key": b"k", "header trace": b"1", "header kind": b"a"}
    verdicts = judge_record(b'{"items": ["x", "y"]}', rules, parts | {TIME: 1_000_000})
    assert [verdict.row["sent_at"].second for verdict in verdicts] == [1, 1]
    assert TIME in {field.place.part for field in rules.outer_fields}
