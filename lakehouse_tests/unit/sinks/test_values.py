"""Which values a database gets, and which it cannot hold."""

import json
import struct
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, nan
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.declaration.sink import RowIdentity
from lakehouse.errors import TableError
from lakehouse_tests.helpers.tables.delivered import Target
from lakehouse_tests.helpers.tables.exported import append, day, delete, merge

TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "flag": pa.bool_(),
    "tiny": pa.int8(),
    "short": pa.int16(),
    "whole": pa.int32(),
    "long": pa.int64(),
    "single": pa.float32(),
    "double": pa.float64(),
    "exact": pa.decimal128(38, 18),
    "text": pa.string(),
    "data": pa.binary(),
    "on": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "local at": pa.timestamp("us"),
}
ROWS: list[dict[str, Any]] = [
    {
        "id": "least",
        "flag": False,
        "tiny": -128,
        "short": -(2**15),
        "whole": -(2**31),
        "long": -(2**63),
        "single": -3.4028234663852886e38,
        "double": -1.7976931348623157e308,
        "exact": Decimal("-99999999999999999999.999999999999999999"),
        "text": "",
        "data": b"",
        "on": date(1, 1, 1),
        "at": datetime(1, 1, 1, tzinfo=UTC),
        "local at": datetime(1, 1, 1),
    },
    {
        "id": "greatest",
        "flag": True,
        "tiny": 127,
        "short": 2**15 - 1,
        "whole": 2**31 - 1,
        "long": 2**63 - 1,
        "single": inf,
        "double": inf,
        "exact": Decimal("99999999999999999999.999999999999999999"),
        "text": 'a "quoted", \\N \\. text,\r\n\\.\nNULL \u202e\U0001f600 %s {0}',
        "data": bytes(range(256)),
        "on": date(9999, 12, 31),
        "at": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "local at": datetime(9999, 12, 31, 23, 59, 59, 999999),
    },
    {
        "id": "close to zero",
        "double": 5e-324,
        "single": 1.401298464324817e-45,
        "exact": Decimal("0.000000000000000001"),
    },
    {"id": "unusual", "double": 0.1 + 0.2, "single": 0.10000000149011612, "text": "\\u0000", "long": 0},
    {"id": "nothing"},
]


def test_every_type_arrives_with_every_value(target: Target) -> None:
    schema = pa.schema(list(TYPES.items()))
    write_deltalake(
        target.settings.table_uri("sales"),
        pa.Table.from_pylist(ROWS, schema),
        mode="overwrite",
        schema_mode="overwrite",
    )
    target.update()
    sink = target.with_sink(columns=[name for name in TYPES if name != "single"])
    assert sink.stored_rows() == sink.table_rows()
    assert target.delivery.equals_table().passed
    single_bytes = target.rows("SELECT id, encode(float4send(single), 'hex') FROM sales WHERE single IS NOT NULL")
    assert dict(single_bytes) == {row["id"]: struct.pack(">f", row["single"]).hex() for row in ROWS if "single" in row}


def test_numbers_that_are_equal_but_differ_are_written(target: Target) -> None:
    append(target.settings, ("n", nan, None), ("z", -0.0, None))
    target.update()
    assert str(target.rows("SELECT price FROM sales WHERE id IN ('n', 'z') ORDER BY id")) == "[(nan,), (-0.0,)]"
    merge(target.settings, ("z", 0.0, None), ("n", nan, day(1)))
    assert target.update().rows == 2
    assert str(target.rows("SELECT price FROM sales WHERE id = 'z'")) == "[(0.0,)]"


def test_the_last_digits_of_a_number_count_with_any_setting_of_the_database(target: Target) -> None:
    target.run(f'ALTER DATABASE "{target.database}" SET extra_float_digits = 0')
    merge(target.settings, ("a", 0.1 + 0.2, day(1)))
    target.update()
    merge(target.settings, ("a", 0.3, day(1)))
    assert target.update().rows == 1
    expected = struct.pack(">d", 0.3).hex()
    assert target.rows("SELECT encode(float8send(price), 'hex') FROM sales WHERE id = 'a'") == [(expected,)]


def test_nested_values_are_json(target: Target) -> None:
    struct = pa.struct([("name", pa.string()), ("prices", pa.list_(pa.decimal128(9, 2)))])
    rows = [
        {
            "id": "a",
            "item": {"name": 'a "b" \\u0000 é', "prices": [Decimal("1.10"), None]},
            "tags": [("k", 1), ("l", None)],
        },
        {"id": "b", "item": None, "tags": []},
    ]
    schema = pa.schema([("id", pa.string()), ("item", struct), ("tags", pa.map_(pa.string(), pa.int64()))])
    write_deltalake(
        target.settings.table_uri("sales"),
        pa.Table.from_pylist(rows, schema),
        mode="overwrite",
        schema_mode="overwrite",
    )
    target.update()
    assert target.rows("SELECT item, tags FROM sales ORDER BY id") == [
        ({"name": 'a "b" \\u0000 é', "prices": ["1.10", None]}, {"k": 1, "l": None}),
        (None, {}),
    ]


@pytest.mark.parametrize("value", ["a\x00b", "\x00"])
def test_a_text_with_the_character_nul_is_refused_before_any_row(target: Target, value: str) -> None:
    append(target.settings, (value, 1.0, None))
    with pytest.raises(TableError, match="id of the row id=.* has the character NUL, which PostgreSQL cannot hold"):
        target.update()
    assert target.rows("SELECT to_regclass('sales')") == [(None,)]


def test_the_character_nul_within_a_nested_value_is_refused(target: Target) -> None:
    rows = pa.table({"id": ["a"], "tags": [["fine", "not\x00fine"]]})
    write_deltalake(target.settings.table_uri("sales"), rows, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(TableError, match="tags of the row id=a has the character NUL"):
        target.update()


def test_rows_that_do_not_fit_are_left_out_with_their_key(target: Target) -> None:
    target = target.with_sink(unfit="leave_out")
    uri = target.settings.table_uri("sales")

    def write(*rows: tuple[str, str, list[str]]) -> None:
        schema = pa.schema([("id", pa.string()), ("note", pa.string()), ("tags", pa.list_(pa.string()))])
        table = pa.Table.from_pylist([{"id": id_, "note": note, "tags": tags} for id_, note, tags in rows], schema)
        write_deltalake(uri, table, mode="overwrite", schema_mode="overwrite")

    write(("a", "fine", []), ("b", "not\x00fine", []), ("c", "fine", ["\x00"]), ("d", "\\u0000", ["\\u0000"]))
    update = target.update()
    assert (update.kind, update.rows) == ("whole", 2)
    assert target.rows("SELECT id FROM sales ORDER BY id") == [("a",), ("d",)]
    unfit = "SELECT target, key, column_name, version FROM lakehouse_unfit ORDER BY key"
    assert target.rows(unfit) == [
        ("public.sales", {"id": "b"}, "note", 1),
        ("public.sales", {"id": "c"}, "tags", 1),
    ]
    assert target.delivery.equals_table().passed
    write(("a", "\x00", []), ("b", "fine now", []), ("d", "fine", []))
    assert target.update().deleted == 1
    assert target.rows("SELECT id, note FROM sales ORDER BY id") == [("b", "fine now"), ("d", "fine")]
    assert target.rows(unfit) == [("public.sales", {"id": "a"}, "note", 2)]
    write(("a", "fine", []))
    target.update(whole=True)
    assert (target.rows("SELECT id FROM sales"), target.rows(unfit)) == ([("a",)], [])


def test_a_key_that_does_not_fit_is_refused_in_any_case(target: Target) -> None:
    append(target.settings, ("a\x00", 1.0, None))
    with pytest.raises(TableError, match="id of the row id=a.*has the character NUL"):
        target.with_sink(unfit="leave_out").update()


def test_a_row_that_is_gone_is_deleted_with_any_values(target: Target) -> None:
    target.update()
    schema = pa.schema([("id", pa.string()), ("note", pa.string())])
    write_deltalake(
        target.settings.table_uri("sales"),
        pa.table({"id": ["nul"], "note": ["\x00"]}, schema=schema),
        mode="append",
        schema_mode="merge",
    )
    delete(target.settings, "id = 'nul'")
    assert target.update().source_version == 2
    assert target.stored_rows() == target.table_rows()


def test_an_identity_may_have_nulls_and_several_columns(target: Target) -> None:
    """As the groups of a rollup, whose values may be NULL and whose texts may be empty."""
    target = replace(target, identity=RowIdentity(("place", "kind"), can_be_null=True))
    uri, names = target.settings.table_uri("sales"), ("place", "kind", "count")
    groups = [("a", None, 1), (None, None, 2), ("", None, 3), (None, "a", 4), ("a", "", 5), ("(", ",", 6)]

    def table(rows: list[tuple[Any, ...]]) -> pa.Table:
        schema = pa.schema([("place", pa.string()), ("kind", pa.string()), ("count", pa.int64())])
        return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)

    write_deltalake(uri, table(groups), mode="overwrite", schema_mode="overwrite")
    target.update()
    assert target.stored_rows() == target.table_rows()
    for remaining in (groups[1:], [(*group[:2], group[2] * 10) for group in groups], groups[:1], groups):
        write_deltalake(uri, table(remaining), mode="overwrite")
        assert target.update().kind == "changes"
        assert target.stored_rows() == target.table_rows()
    assert target.delivery.equals_table().passed
    assert json.dumps(target.rows("SELECT count FROM sales WHERE place IS NULL AND kind IS NULL")) == "[[2]]"
