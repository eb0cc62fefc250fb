"""Nested types: how they are parsed, spelled and shown, and which options their columns refuse."""

from typing import Any

import pytest

from lakehouse.declaration import Column, RecordKey, StreamTable, Time
from lakehouse.declaration.rules.column_rules import column_problems
from lakehouse.decoding.nested_types import as_spark_says, nested, plain_types, shown_value
from lakehouse.decoding.records import decode
from lakehouse_tests.helpers.decoding.nested_columns import LINES, column


def test_a_nested_type_is_parsed():
    assert nested("MAP<STRING, DECIMAL(10,2)>") == ("MAP", (("", "STRING"), ("", "DECIMAL(10,2)")))
    assert nested("STRUCT<a: INT,b:ARRAY<STRING>>") == ("STRUCT", (("a", "INT"), ("b", "ARRAY<STRING>")))
    assert nested("DECIMAL(10,2)") is None
    assert plain_types(LINES) == {"STRING", "DECIMAL(10,2)", "INT"}


def test_spark_names_types_in_lower_case_except_for_names_of_fields():
    assert as_spark_says("STRUCT<Zip: STRING, b: MAP<STRING, DECIMAL(10,2)>>") == (
        "struct<Zip:string,b:map<string,decimal(10,2)>>"
    )


@pytest.mark.parametrize(
    "type_",
    [
        "ARRAY<>",
        "ARRAY<array<INT>>",
        "ARRAY<INT>>",
        "ARRAY<INT>,ARRAY<INT>",
        " ARRAY<INT>",
        "MAP<STRING>",
        "STRUCT<>",
        "STRUCT<a INT>",
        "STRUCT<a: DECIMAL(39,2)>",
        "ARRAY<" * 5_000,
        f"STRUCT<{', '.join(f'f{number}: INT' for number in range(201))}>",
        "ARRAY<" * 5_000 + "INT" + ">" * 5_000,
    ],
)
def test_an_invalid_type_is_rejected(type_: str):
    assert any(column_problems(column(type_)))


@pytest.mark.parametrize(
    "options",
    [
        {"between": (1, 2)},
        {"default": "x"},
        {"source": RecordKey()},
        {"widened_from": "ARRAY<INT>"},
        {"written": Time("%Y")},
        {"written": Time(epoch="seconds")},
    ],
)
def test_options_of_scalar_columns_are_refused(options: dict[str, Any]):
    assert any(column_problems(column("ARRAY<BIGINT>", **options)))


def test_a_nested_time_needs_a_format():
    assert any(column_problems(column("ARRAY<TIMESTAMP>")))
    assert any(column_problems(column("STRUCT<a: DATE, b: TIMESTAMP>", written=Time(epoch="days"))))
    assert not any(column_problems(column("ARRAY<TIMESTAMP>", written=Time(epoch="seconds"))))
    assert (
        "one epoch cannot serve"
        in next(column_problems(column("STRUCT<a: DATE, b: TIMESTAMP>", written=Time(epoch="days"))))[0]
    )


def test_maps_are_shown_as_dicts():
    field = column(LINES).field
    (value,) = decode(b'{"n":[{"sku":"x","tags":{"b":2,"a":1}},null]}', (field,)).values()
    assert shown_value(value, field) == [{"sku": "x", "price": None, "tags": {"a": 1, "b": 2}}, None]


def test_the_spelling_of_a_type_does_not_change_the_fingerprint():
    tables = [
        StreamTable("t", "t", "T.", [column(type_), Column("id", "INT", "Id.", required=True)], ["id"])
        for type_ in ("ARRAY<STRUCT<x: INT, y: INT>>", "ARRAY<STRUCT<x:INT,y:INT>>", "ARRAY<STRUCT<x:INT,Y:INT>>")
    ]
    first, same_fingerprint, other_fingerprint = (table.fingerprint for table in tables)
    assert first == same_fingerprint != other_fingerprint
