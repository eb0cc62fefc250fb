"""Damaged and oversized Avro: any bytes give a row or a reason, and never another error."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Avro, Column
from lakehouse.decoding import batch, memory
from lakehouse.decoding.formats import KNOWN_REASONS
from lakehouse.decoding.formats.avro import reader
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.memory import MAX_RECORD_MEMORY
from lakehouse.decoding.record_filter import RecordFilter
from lakehouse.decoding.record_parts import SCHEMA
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.verdicts import decode_slices
from lakehouse_tests.helpers.brokers.registries import body as encode
from lakehouse_tests.helpers.decoding.avro_bodies import block, decode, record_of, rejection_reason, schema_of
from lakehouse_tests.helpers.decoding.avro_sales import A_SALE, ALL_TYPES, RULES
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.native import NATIVE


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
    (row,) = rows_twice([bytes(body)], RULES)
    assert row["_reason"] in (None, *KNOWN_REASONS)


@pytest.mark.parametrize("where", [(), (RecordFilter(SCHEMA, (), ("Sale",)),)])
def test_a_rejected_record_after_one_that_fills_its_slice_gets_its_verdict_in_the_next(monkeypatch, where) -> None:
    monkeypatch.setattr(batch, "MAX_SLICE_MEMORY", 1)
    good = add_frame(7, encode(ALL_TYPES, A_SALE))
    values = pa.array([good, b"bad", good, b"bad"])
    slices = list(decode_slices(values, None, RULES._replace(where=where), None))
    reasons = [verdict["_reason"].as_py() for decoded in slices for verdict in decoded.verdicts]
    assert reasons[1::2] == ["wrong_magic"] * 2
    assert len(reasons) == 4


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


@pytest.mark.invariant("8.10")
def test_an_endlessly_nested_record_is_rejected() -> None:
    schema = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    assert decode(schema, b"\x02\x00") == {"next": {"next": None}}
    assert rejection_reason(schema, b"\x02" * 1_000_000 + b"\x00") == "invalid_avro"


@pytest.mark.invariant("8.11")
def test_a_small_record_that_would_take_too_much_memory_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a twentieth of the memory limit, and so in a twentieth of the time."""
    for module in (reader, memory):
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
        decoded_value.verdicts for decoded_value in decode_slices(pa.array(values, pa.binary()), None, rules, NATIVE)
    ]
    assert len(slices) > 2
    assert pa.concat_arrays(slices).field("f1").to_pylist() == list(range(12))
