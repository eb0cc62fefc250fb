"""Nested values: arrays, maps and structs are decoded completely and strictly, with equal results on both paths."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.declaration import Column, Time
from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.nested_types import nested
from lakehouse.decoding.records import decode
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.unmapped_fields import count_unmapped
from lakehouse.decoding.verdicts import decode_slices, slice_bounds
from lakehouse_tests.helpers.decoding.both_paths import decode_twice
from lakehouse_tests.helpers.decoding.native import NATIVE, uncertain_records
from lakehouse_tests.helpers.decoding.nested_columns import LINES, column
from lakehouse_tests.helpers.decoding.one_value import decode_text

SCALAR_TYPES = ["STRING", "BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL(8,2)", "DATE"]
TEXTS = {
    "STRING": ['"a"', '""', '"\\u00e9\\"{[\\\\"', '"\\ud800"', "1"],
    "BOOLEAN": ["true", "false", '"true"'],
    "INT": ["1", "-7", "1.0", "2e3", "0.5", "2147483648", "-0"],
    "BIGINT": ["9223372036854775807", "9223372036854775808", "9007199254740993.0", "12"],
    "DOUBLE": ["0.1", "1e308", "1e309", "0.0", "-0.0", "0e999999999999", "5e-324", "3", "NaN"],
    "DECIMAL(8,2)": ["1.005", "2.675", "-0.005", "999999.99", "1000000", "0.1e1", "1e-999999999999"],
    "DATE": ['"2026-02-28"', '"2026-02-29"', '"today"', "1"],
}


def rejection(type_: str, text: str, **options: Any) -> tuple[str, str]:
    with pytest.raises(Rejection) as rejected:
        decode(f'{{"n":{text}}}'.encode(), (column(type_, **options).field,))
    return rejected.value.reason, rejected.value.detail


def test_values_are_decoded_completely_with_nulls_for_missing_fields_of_structs():
    assert decode_text(LINES, '[{"sku":"x","price":1.005,"tags":{"b":2,"a":null}},null,{}]') == [
        {"sku": "x", "price": Decimal("1.01"), "tags": [("a", None), ("b", 2)]},
        None,
        {"sku": None, "price": None, "tags": None},
    ]
    assert decode_text("ARRAY<STRING>", "[]") == []
    assert decode_text("ARRAY<STRING>", "null") is None


def test_nested_times_have_the_format_of_the_column():
    day = date(2026, 2, 28)
    assert decode_text("MAP<STRING, DATE>", '{"due":"28.02.2026"}', written=Time("%d.%m.%Y")) == [("due", day)]
    noon = datetime(2026, 2, 28, 12, tzinfo=UTC)
    assert decode_text("ARRAY<TIMESTAMP>", "[1772280000000]", written=Time(epoch="milliseconds")) == [noon]


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize(
    ("type_", "text", "reason", "message"),
    [
        ("ARRAY<INT>", '{"0":1}', "wrong_type", "'n' is an object"),
        ("ARRAY<INT>", '[1,"2"]', "wrong_type", "'n[]' is text '2', expected INT"),
        ("STRUCT<a: INT>", "[1]", "wrong_type", "'n' is an array"),
        ("STRUCT<a: STRUCT<b: INT>>", '{"a":{"b":true}}', "wrong_type", "'n.a.b' is true or false"),
        ("MAP<STRING, INT>", '{"x":2147483648}', "out_of_range", "'n[]'"),
        ("MAP<STRING, INT>", '{"\\ud800":1}', "invalid_text", "'n'"),
        ("MAP<STRING, INT>", '{"x":1,"x":2}', "duplicate_name", "'x'"),
        ("ARRAY<DATE>", '["2026-02-30"]', "no_such_date", "'n[]'"),
    ],
)
def test_a_wrong_nested_value_rejects_its_record_and_is_reported(type_, text, reason, message):
    options = {"written": Time("%Y-%m-%d")} if "DATE" in type_ else {}
    actual_reason, detail = rejection(type_, text, **options)
    assert actual_reason == reason
    assert message in detail


def test_null_values_are_null_in_nested_values():
    options = {"null_values": ("n/a", "-9.5")}
    assert decode_text("ARRAY<DOUBLE>", '[1.5, "n/a", -9.5]', **options) == [1.5, None, None]
    assert decode_text("ARRAY<DOUBLE>", '"n/a"', **options) is None
    rules = Rules((column("ARRAY<DOUBLE>", **options).field,), None)
    decode_twice([b'{"n":[1.5,-9.50]}', b'{"n":["n/a"]}', b'{"n":[2]}'], rules)


@pytest.mark.invariant("8.11")
def test_a_record_whose_structs_have_too_many_missing_fields_is_rejected():
    type_ = f"ARRAY<STRUCT<{', '.join(f'f{number}: STRING' for number in range(50))}>>"
    map_type = f"MAP<STRING, STRUCT<more: {type_.removeprefix('ARRAY<')}>"
    for empty in ("{}", "null"):
        assert len(decode_text(type_, f"[{','.join([empty] * 2_000)}]")) == 2_000
        too_many = ("out_of_range", "structs in 'n' have more than 100,000 missing values")
        assert rejection(type_, f"[{','.join([empty] * 2_001)}]") == too_many
        entries = ",".join(f'"{number}":{empty}' for number in range(2_001))
        assert rejection(map_type, f"{{{entries}}}") == too_many
        entries = ",".join(f'"{number}":{{"more":{empty}}}' for number in range(2_001))
        assert rejection(map_type, f"{{{entries}}}") == too_many


@pytest.mark.invariant("8.11")
def test_small_records_with_many_values_are_decoded_in_slices():
    values, times = pa.array([b'{"n":[1,2]}'.ljust(1_000)] * 4_000, pa.binary()), pa.array(range(4_000), pa.int64())
    rules = Rules((column("ARRAY<INT>").field,), None)
    slices = list(slice_bounds(values, rules))
    assert len(slices) > 2
    assert [0, *(end for _, end in slices)] == [*(begin for begin, _ in slices), 4_000]
    wide = column(f"ARRAY<STRUCT<{', '.join(f'f{number}: INT' for number in range(200))}>>")
    assert len(list(slice_bounds(values, Rules((wide.field,), None)))) > 5 * len(slices)
    assert list(slice_bounds(values[:100], rules)) == [(0, 100)]
    assert list(slice_bounds(values[:0], rules)) == [(0, 0)]
    for decoder in (NATIVE, None):
        verdicts = [decoded_records.verdicts for decoded_records in decode_slices(values, times, rules, decoder)]
        assert [len(array) for array in verdicts] == [end - begin for begin, end in slices]
        assert pa.concat_arrays(verdicts).field("n").to_pylist() == [[1, 2]] * 4_000


def random_type(chance: Random, depth: int = 3) -> str:
    kind = chance.choice(["ARRAY", "MAP", "STRUCT", *["scalar"] * (4 - depth)])
    if depth == 0 or kind == "scalar":
        return chance.choice(SCALAR_TYPES)
    inner_types = [random_type(chance, depth - 1) for _ in range(3)]
    if kind == "STRUCT":
        return f"STRUCT<{', '.join(f'f{number}: {inner_type}' for number, inner_type in enumerate(inner_types))}>"
    return f"{kind}<{'STRING, ' if kind == 'MAP' else ''}{inner_types[0]}>"


def random_text(chance: Random, type_: str) -> str:
    """A value of a type as JSON; rarely a wrong one, so that most records are valid."""
    if chance.random() < 0.04:
        return chance.choice(["null", "{}", "[]", '"x"', '{"f0":1}'])
    nested_type = nested(type_)
    if nested_type is None:
        return chance.choice(TEXTS[type_][: None if chance.random() < 0.1 else 2])
    if nested_type.kind == "STRUCT":
        fields = [field for field in nested_type.inner if chance.random() < 0.8]
        extra_fields = ['"other":"x"'] if chance.random() < 0.1 else []
        return (
            "{" + ",".join([*(f'"{name}":{random_text(chance, inner)}' for name, inner in fields), *extra_fields]) + "}"
        )
    items = [random_text(chance, nested_type.inner[-1][1]) for _ in range(chance.randrange(3))]
    if nested_type.kind == "ARRAY":
        return f"[{','.join(items)}]"
    names = [f'"k{number if chance.random() < 0.95 else 0}"' for number, _ in enumerate(items)]
    return "{" + ",".join(map(":".join, zip(names, items, strict=True))) + "}"


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("seed", range(60))
def test_the_fast_path_decodes_nested_values_like_the_strict_path(seed: int):
    chance = Random(seed)
    type_ = next(name for name in iter(lambda: random_type(chance), "") if nested(name))
    rules = Rules((column(type_, written=Time("%Y-%m-%d" if "DATE" in type_ else None)).field,), None)
    values = [f'{{"n":{random_text(chance, type_)}}}'.encode() for _ in range(150)]
    assert decode_twice(values, rules).verdicts.field("n").type == arrow_type(type_)


def test_most_records_with_nested_values_are_decoded_on_the_fast_path():
    rules = Rules((column(LINES).field,), None)
    record = json.dumps({"n": [{"sku": "é", "price": 12, "tags": {"a": 1}}], "more": ["x"]})
    assert uncertain_records(pa.array([record.encode()] * 3), None, rules) == []


def test_a_field_that_a_column_reads_as_a_whole_is_not_unmapped():
    map_column = Column("all", "MAP<STRING, STRING>", "All.", source="n")
    assert count_unmapped([{"n": {"a": "1", "x": "2"}}], (column("STRUCT<a: STRING>").field, map_column.field)) == {}


def test_unmapped_fields_of_structs_are_counted():
    fields = (column("STRUCT<a: INT, b: STRUCT<c: INT>>").field,)
    objects: list[dict[str, Any]] = [
        {"n": {"a": 1, "x": 2, "b": {"c": 1, "y": 2}}},
        {"n": None, "z": 1},
        {"n": {"b": None}},
    ]
    assert count_unmapped(objects, fields) == {"n.x": 1, "n.b.y": 1, "z": 1}


def test_unmapped_fields_in_arrays_and_maps_are_counted_at_every_depth():
    type_ = "ARRAY<STRUCT<" + "".join(f"{name}: ARRAY<STRUCT<" for name in "dcb") + "a: INT" + ">>" * 4
    inner = {"a": 1, "x": 2}
    objects: list[dict[str, Any]] = [
        {"n": [{"y": 0}, {"y": 1, "d": [{"c": [{"b": [inner, inner]}, {"z": 1}]}]}]},
        {"n": [{"d": [{"c": [{"b": [inner]}]}]}, {"d": None}, None]},
        {"n": []},
        {},
    ]
    fields = (column(type_).field,)
    assert count_unmapped(objects, fields) == {"n[].y": 1, "n[].d[].c[].z": 1, "n[].d[].c[].b[].x": 2}
    map_fields = (column("MAP<STRING, STRUCT<a: INT>>").field,)
    assert count_unmapped([{"n": {"k": {"a": 1, "x.y": 2}, "l": {"z": 3}}}], map_fields) == {"n[].`x.y`": 1, "n[].z": 1}
