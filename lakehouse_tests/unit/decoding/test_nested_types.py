"""Values that hold others: arrays, maps and structs are read whole and strictly, by both paths alike."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.declaration import Column, RecordKey, StreamTable
from lakehouse.declaration.rules.column_rules import column_problems
from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.fast.plain_records import decode_plain
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.nested_types import as_spark_says, as_told, nested, plain_types
from lakehouse.decoding.records import decode
from lakehouse.decoding.unmapped_fields import others_in
from lakehouse.decoding.verdicts import Rules, decode_slices, decode_values, sliced

pytestmark = pytest.mark.invariant(8, 13)

LINES = "ARRAY<STRUCT<sku: STRING, price: DECIMAL(10,2), tags: MAP<STRING, INT>>>"
PLAIN = ["STRING", "BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL(8,2)", "DATE"]
WRITTEN = {
    "STRING": ['"a"', '""', '"\\u00e9\\"{[\\\\"', '"\\ud800"', "1"],
    "BOOLEAN": ["true", "false", '"true"'],
    "INT": ["1", "-7", "1.0", "2e3", "0.5", "2147483648", "-0"],
    "BIGINT": ["9223372036854775807", "9223372036854775808", "9007199254740993.0", "12"],
    "DOUBLE": ["0.1", "1e308", "1e309", "0.0", "-0.0", "0e999999999999", "5e-324", "3", "NaN"],
    "DECIMAL(8,2)": ["1.005", "2.675", "-0.005", "999999.99", "1000000", "0.1e1", "1e-999999999999"],
    "DATE": ['"2026-02-28"', '"2026-02-29"', '"today"', "1"],
}


def column(type_: str, **said: Any) -> Column:
    return Column("n", type_, "Nested.", **said)


def of(type_: str, text: str, **said: Any) -> Any:
    return decode(f'{{"n":{text}}}'.encode(), (column(type_, **said).field,))["n"]


def refused(type_: str, text: str, **said: Any) -> tuple[str, str]:
    with pytest.raises(Rejection) as raised:
        of(type_, text, **said)
    return raised.value.reason, raised.value.detail


def test_a_type_tells_what_its_values_hold():
    assert nested("MAP<STRING, DECIMAL(10,2)>") == ("MAP", (("", "STRING"), ("", "DECIMAL(10,2)")))
    assert nested("STRUCT<a: INT,b:ARRAY<STRING>>") == ("STRUCT", (("a", "INT"), ("b", "ARRAY<STRING>")))
    assert nested("DECIMAL(10,2)") is None
    assert plain_types(LINES) == {"STRING", "DECIMAL(10,2)", "INT"}


def test_values_are_read_whole_with_nulls_where_a_struct_lacks_a_field():
    assert of(LINES, '[{"sku":"x","price":1.005,"tags":{"b":2,"a":null}},null,{}]') == [
        {"sku": "x", "price": Decimal("1.01"), "tags": [("a", None), ("b", 2)]},
        None,
        {"sku": None, "price": None, "tags": None},
    ]
    assert of("ARRAY<STRING>", "[]") == []
    assert of("ARRAY<STRING>", "null") is None


def test_times_within_are_written_as_the_column_says():
    day = date(2026, 2, 28)
    assert of("MAP<STRING, DATE>", '{"due":"28.02.2026"}', pattern="%d.%m.%Y") == [("due", day)]
    noon = datetime(2026, 2, 28, 12, tzinfo=UTC)
    assert of("ARRAY<TIMESTAMP>", "[1772280000000]", epoch="milliseconds") == [noon]


@pytest.mark.parametrize(
    ("type_", "text", "reason", "told"),
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
def test_what_is_wrong_within_a_value_rejects_its_record_and_says_where(type_, text, reason, told):
    said = {"pattern": "%Y-%m-%d"} if "DATE" in type_ else {}
    found, detail = refused(type_, text, **said)
    assert found == reason
    assert told in detail


def test_what_stands_for_null_does_so_within():
    said = {"null_values": ("n/a", "-9.5")}
    assert of("ARRAY<DOUBLE>", '[1.5, "n/a", -9.5]', **said) == [1.5, None, None]
    assert of("ARRAY<DOUBLE>", '"n/a"', **said) is None
    rules = Rules((column("ARRAY<DOUBLE>", **said).field,), None)
    values = pa.array([b'{"n":[1.5,-9.50]}', b'{"n":["n/a"]}', b'{"n":[2]}'], pa.binary())
    assert decode_values(values, None, rules, decode_plain).verdicts.equals(decode_values(values, None, rules, None)[0])


def test_a_record_whose_structs_lack_more_fields_than_it_has_room_for_is_rejected():
    type_ = f"ARRAY<STRUCT<{', '.join(f'f{number}: STRING' for number in range(50))}>>"
    deeper = f"MAP<STRING, STRUCT<more: {type_.removeprefix('ARRAY<')}>"
    for nothing in ("{}", "null"):
        assert len(of(type_, f"[{','.join([nothing] * 2_000)}]")) == 2_000
        too_many = ("out_of_range", "'n' lacks more than 100,000 values")
        assert refused(type_, f"[{','.join([nothing] * 2_001)}]") == too_many
        named = ",".join(f'"{number}":{nothing}' for number in range(2_001))
        assert refused(deeper, f"{{{named}}}") == too_many
        named = ",".join(f'"{number}":{{"more":{nothing}}}' for number in range(2_001))
        assert refused(deeper, f"{{{named}}}") == too_many


def test_records_of_few_bytes_and_many_values_are_decoded_some_at_a_time():
    values, times = pa.array([b'{"n":[1,2]}'.ljust(1_000)] * 4_000, pa.binary()), pa.array(range(4_000), pa.int64())
    rules = Rules((column("ARRAY<INT>").field,), None)
    slices = list(sliced(values, rules))
    assert len(slices) > 2
    assert [0, *(end for _, end in slices)] == [*(begin for begin, _ in slices), 4_000]
    wide = column(f"ARRAY<STRUCT<{', '.join(f'f{number}: INT' for number in range(200))}>>")
    assert len(list(sliced(values, Rules((wide.field,), None)))) > 5 * len(slices)
    assert list(sliced(values[:100], rules)) == [(0, 100)]
    assert list(sliced(values[:0], rules)) == [(0, 0)]
    for path in (decode_plain, None):
        decoded = [some.verdicts for some in decode_slices(values, times, rules, path)]
        assert [len(some) for some in decoded] == [end - begin for begin, end in slices]
        assert pa.concat_arrays(decoded).field("n").to_pylist() == [[1, 2]] * 4_000


def random_type(chance: Random, depth: int = 3) -> str:
    kind = chance.choice(["ARRAY", "MAP", "STRUCT", *["plain"] * (4 - depth)])
    if depth == 0 or kind == "plain":
        return chance.choice(PLAIN)
    inner = [random_type(chance, depth - 1) for _ in range(3)]
    if kind == "STRUCT":
        return f"STRUCT<{', '.join(f'f{number}: {each}' for number, each in enumerate(inner))}>"
    return f"{kind}<{'STRING, ' if kind == 'MAP' else ''}{inner[0]}>"


def random_text(chance: Random, type_: str) -> str:
    """A value of a type as JSON, now and then a wrong one: mostly such that the record may enter."""
    if chance.random() < 0.04:
        return chance.choice(["null", "{}", "[]", '"x"', '{"f0":1}'])
    found = nested(type_)
    if found is None:
        return chance.choice(WRITTEN[type_][: None if chance.random() < 0.1 else 2])
    if found.kind == "STRUCT":
        there = [each for each in found.inner if chance.random() < 0.8]
        more = ['"other":"x"'] if chance.random() < 0.1 else []
        return "{" + ",".join([*(f'"{name}":{random_text(chance, inner)}' for name, inner in there), *more]) + "}"
    items = [random_text(chance, found.inner[-1][1]) for _ in range(chance.randrange(3))]
    if found.kind == "ARRAY":
        return f"[{','.join(items)}]"
    names = [f'"k{number if chance.random() < 0.95 else 0}"' for number, _ in enumerate(items)]
    return "{" + ",".join(map(":".join, zip(names, items, strict=True))) + "}"


@pytest.mark.parametrize("seed", range(60))
def test_the_quick_path_decodes_them_as_the_strict_one_does(seed: int):
    chance = Random(seed)
    type_ = next(each for each in iter(lambda: random_type(chance), "") if nested(each))
    rules = Rules((column(type_, pattern="%Y-%m-%d" if "DATE" in type_ else None).field,), None)
    values = pa.array([f'{{"n":{random_text(chance, type_)}}}'.encode() for _ in range(150)], pa.binary())
    strict = decode_values(values, None, rules, None)
    found = decode_values(values, None, rules, decode_plain)
    found.verdicts.validate(full=True)
    assert found.verdicts.type == strict.verdicts.type
    assert found.verdicts.field("n").type == arrow_type(type_)
    assert repr(found.verdicts.to_pylist()) == repr(strict.verdicts.to_pylist()), type_
    assert found.others == strict.others


def test_records_that_hold_them_are_mostly_decoded_by_the_quick_path():
    rules = Rules((column(LINES).field,), None)
    written = json.dumps({"n": [{"sku": "é", "price": 12, "tags": {"a": 1}}], "more": ["x"]})
    plain = decode_plain(pa.array([written.encode()] * 3), None, rules)
    assert plain.doubtful == []


def test_a_field_that_a_column_takes_whole_is_taken_whatever_others_take_of_it():
    whole = Column("all", "MAP<STRING, STRING>", "All.", source="n")
    assert others_in([{"n": {"a": "1", "x": "2"}}], (column("STRUCT<a: STRING>").field, whole.field)) == {}


def test_spark_tells_types_in_lower_case_but_for_the_names_of_fields():
    assert as_spark_says("STRUCT<Zip: STRING, b: MAP<STRING, DECIMAL(10,2)>>") == (
        "struct<Zip:string,b:map<string,decimal(10,2)>>"
    )


def test_fields_of_a_struct_that_nobody_takes_are_told():
    fields = (column("STRUCT<a: INT, b: STRUCT<c: INT>>").field,)
    objects: list[dict[str, Any]] = [
        {"n": {"a": 1, "x": 2, "b": {"c": 1, "y": 2}}},
        {"n": None, "z": 1},
        {"n": {"b": None}},
    ]
    assert others_in(objects, fields) == {"n.x": 1, "n.b.y": 1, "z": 1}


@pytest.mark.parametrize(
    "type_",
    [
        "ARRAY<>",
        "ARRAY<INT, INT>",
        "ARRAY<array<INT>>",
        "ARRAY<INT>>",
        "ARRAY<INT>,ARRAY<INT>",
        " ARRAY<INT>",
        "MAP<STRING>",
        "MAP<INT, INT>",
        "STRUCT<>",
        "STRUCT<a INT>",
        "STRUCT<a: INT, A: INT>",
        "STRUCT<a-b: INT>",
        "STRUCT<a: DECIMAL(39,2)>",
        "ARRAY<" * 9 + "INT" + ">" * 9,
        "ARRAY<" * 5_000,
        f"STRUCT<{', '.join(f'f{number}: INT' for number in range(201))}>",
        "ARRAY<" * 5_000 + "INT" + ">" * 5_000,
    ],
)
def test_a_type_that_is_none_is_refused(type_: str):
    assert any(column_problems(column(type_)))


@pytest.mark.parametrize(
    "said",
    [
        {"between": (1, 2)},
        {"default": "x"},
        {"source": RecordKey()},
        {"sql": "id"},
        {"widened_from": "ARRAY<INT>"},
        {"pattern": "%Y"},
        {"epoch": "seconds"},
    ],
)
def test_what_is_for_plain_values_is_refused(said: dict[str, Any]):
    assert any(column_problems(column("ARRAY<BIGINT>", **said)))


def test_a_time_within_needs_to_be_told_how_it_is_written():
    assert any(column_problems(column("ARRAY<TIMESTAMP>")))
    assert any(column_problems(column("STRUCT<a: DATE, b: TIMESTAMP>", epoch="days")))
    assert not any(column_problems(column("ARRAY<TIMESTAMP>", epoch="seconds")))
    assert "one epoch cannot serve" in next(column_problems(column("STRUCT<a: DATE, b: TIMESTAMP>", epoch="days")))[0]


def test_people_are_told_maps_by_their_names():
    field = column(LINES).field
    (value,) = decode(b'{"n":[{"sku":"x","tags":{"b":2,"a":1}},null]}', (field,)).values()
    assert as_told(value, field) == [{"sku": "x", "price": None, "tags": {"a": 1, "b": 2}}, None]


def test_how_a_type_is_spelled_declares_nothing():
    tables = [
        StreamTable("t", "t", "T.", [column(type_), Column("id", "INT", "Id.", required=True)], ["id"])
        for type_ in ("ARRAY<STRUCT<x: INT, y: INT>>", "ARRAY<STRUCT<x:INT,y:INT>>", "ARRAY<STRUCT<x:INT,Y:INT>>")
    ]
    first, same, other = (table.fingerprint for table in tables)
    assert first == same != other


def test_fields_in_arrays_and_maps_that_nobody_takes_are_told_at_every_depth():
    type_ = "ARRAY<STRUCT<" + "".join(f"{name}: ARRAY<STRUCT<" for name in "dcb") + "a: INT" + ">>" * 4
    inner = {"a": 1, "x": 2}
    objects: list[dict[str, Any]] = [
        {"n": [{"y": 0}, {"y": 1, "d": [{"c": [{"b": [inner, inner]}, {"z": 1}]}]}]},
        {"n": [{"d": [{"c": [{"b": [inner]}]}]}, {"d": None}, None]},
        {"n": []},
        {},
    ]
    fields = (column(type_).field,)
    assert others_in(objects, fields) == {"n[].y": 1, "n[].d[].c[].z": 1, "n[].d[].c[].b[].x": 2}
    by_name = (column("MAP<STRING, STRUCT<a: INT>>").field,)
    assert others_in([{"n": {"k": {"a": 1, "x.y": 2}, "l": {"z": 3}}}], by_name) == {"n[].`x.y`": 1, "n[].z": 1}
