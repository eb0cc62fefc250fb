"""``lakehouse.read``: exact rows of the version that it names, and an error for everything that it cannot read."""

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakehouse
from lakehouse.errors import LakehouseError, QueryError, SetupError, TableDamagedError, TableError
from lakehouse.query import query
from lakehouse.settings import Settings
from lakehouse_tests.helpers.tables.versions import put_commit_time, write_versions

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BIG = 2**60 + 1  # not a float
TYPES = {
    "id": pa.int64(),
    "price": pa.decimal128(20, 2),
    "at": pa.timestamp("us", "UTC"),
    "ratio": pa.float64(),
    "is_open": pa.bool_(),
    "photo": pa.binary(),
    "tags": pa.list_(pa.string()),
    "_record": pa.struct({"position": pa.int64()}),
}


def row(number: int) -> dict[str, Any]:
    values = [BIG + number, Decimal("123456789012345678.90"), NOON, float("nan"), True, b"\xff", ["x"], {"position": 1}]
    return dict(zip(TYPES, values, strict=True))


NULLS = dict.fromkeys(TYPES)


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table ``items`` has three versions, of noon and one and two hours later, with a row of values and NULLs."""
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "a 'home'"))
    tables = tmp_path / "a 'home'" / "tables"
    rows = [pa.Table.from_pylist([row(number), NULLS], pa.schema(TYPES)) for number in range(3)]
    write_versions(tables / "items", {NOON + number * HOUR: rows[number] for number in range(3)})
    return tables


def numbers(reading: lakehouse.Reading) -> list[int]:
    return sorted(value - BIG for value in reading.arrow()["id"].to_pylist() if value is not None)


def test_the_newest_version_is_read_and_named() -> None:
    reading = lakehouse.read("items")
    assert (reading.name, reading.version, reading.committed_at) == ("items", 2, NOON + 2 * HOUR)
    assert reading.columns == tuple(TYPES)
    assert numbers(reading) == [0, 1, 2]


def test_a_later_commit_does_not_change_a_reading(tables: Path) -> None:
    reading = lakehouse.read("items")
    DeltaTable(tables / "items").delete()
    assert numbers(reading) == [0, 1, 2]
    assert numbers(lakehouse.read("items")) == []


def test_a_reading_has_the_columns_and_rows_of_a_query() -> None:
    result = query(Settings.load(), "SELECT * FROM items WHERE id IS NULL")
    reading = lakehouse.read("items", where="id IS NULL")
    assert list(reading.columns) == result.columns
    assert [tuple(values.values()) for values in reading.arrow().to_pylist()] == result.rows


def test_arrow_has_exact_values_and_times_in_utc() -> None:
    table = lakehouse.read("items", version=0).arrow()
    assert {name: table.schema.field(name).type for name in TYPES} == TYPES
    full_row, nulls = sorted(table.to_pylist(), key=lambda values: values["id"] is None)
    assert full_row.pop("ratio") != 0
    assert full_row == {name: value for name, value in row(0).items() if name != "ratio"}
    assert nulls == NULLS


def test_polars_has_exact_values_and_times_in_utc() -> None:
    frame = lakehouse.read("items", version=0, where="id IS NOT NULL").polars()
    assert isinstance(frame, pl.DataFrame)
    assert frame.schema["at"] == pl.Datetime("us", "UTC")
    assert frame.select("id", "price", "at", "photo").rows() == [(BIG, Decimal("123456789012345678.90"), NOON, b"\xff")]


def test_pandas_has_exact_values_and_distinguishes_null_from_nan() -> None:
    frame = lakehouse.read("items", version=0).pandas().sort_values("id", ignore_index=True)
    assert isinstance(frame, pd.DataFrame)
    types = {name: str(frame.dtypes[name]) for name in ("id", "ratio", "is_open", "at")}
    assert types == {"id": "Int64", "ratio": "Float64", "is_open": "boolean", "at": "datetime64[us, UTC]"}
    assert frame["id"].tolist() == [BIG, pd.NA]
    assert frame["price"].tolist() == [Decimal("123456789012345678.90"), None]
    assert frame["ratio"].isna().tolist() == [False, True]


def test_a_relation_outlives_the_reading_and_has_its_times_in_utc() -> None:
    relation = lakehouse.read("items", version=0).duckdb()
    assert relation.filter("id IS NOT NULL").project('"at"::VARCHAR').fetchall() == [("2026-01-01 12:00:00+00",)]


def test_relations_of_one_connection_can_be_joined() -> None:
    with duckdb.connect() as connection:
        old_rows = lakehouse.read("items", version=0).duckdb(connection).set_alias("old_rows")
        new_rows = lakehouse.read("items").duckdb(connection)
        assert new_rows.join(old_rows, "id").aggregate("count(*)").fetchall() == [(1,)]


def test_chosen_columns_and_rows_are_read() -> None:
    reading = lakehouse.read("items", columns=["price", "_record", "price"], where=f"id = {BIG + 2}")
    assert reading.arrow().to_pylist() == [{"price": Decimal("123456789012345678.90"), "_record": {"position": 1}}]


@pytest.mark.parametrize(
    ("as_of", "version"),
    [
        (NOON, 0),
        (NOON + HOUR - timedelta(milliseconds=1), 0),
        (NOON + HOUR, 1),
        ("2026-01-01T14:30:00+01:00", 1),
        ("2026-01-01 13:00:00 UTC", 1),
        (NOON + 2 * HOUR, 2),
        (NOON + timedelta(days=9), 2),
    ],
)
def test_a_time_means_the_newest_version_that_was_committed_by_then(as_of: datetime | str, version: int) -> None:
    reading = lakehouse.read("items", as_of=as_of)
    assert reading.version == version
    assert numbers(reading) == list(range(version + 1))


def test_a_commit_whose_clock_was_behind_counts_as_committed_with_the_one_before(tables: Path) -> None:
    put_commit_time(tables / "items", 1, NOON - HOUR)
    assert lakehouse.read("items", as_of=NOON).version == 1
    with pytest.raises(TableError, match="has no version of 2026-01-01T11:30:00"):
        lakehouse.read("items", as_of=NOON - HOUR / 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "item"}, "There is no table 'item' (.*). Did you mean items? Tables: items."),
        ({"name": "../tables/items"}, "There is no table '../tables/items'"),
        ({"name": ""}, "There is no table ''"),
        ({"version": 3}, "Version 3 of items does not exist (.*). Choose another; the log shows 0 to 2."),
        ({"version": -1}, "Version -1 of items does not exist"),
        ({"as_of": NOON - HOUR}, "has no version of .*: the oldest commit in its log is version 0, committed at 2026"),
        ({"as_of": "0001-01-01T00:00:00+14:00"}, "has no version of 0001-01-01T00:00:00+14:00"),
        ({"as_of": "yesterday"}, "'yesterday' is not a time in ISO 8601, for example 2026-11-01T00:00:00Z"),
        ({"as_of": "1"}, "'1' is not a time in ISO 8601"),
        ({"as_of": datetime(2026, 1, 1)}, "2026-01-01 00:00:00 has no time zone"),
        ({"version": 1, "as_of": NOON}, "version= and as_of= exclude each other"),
        ({"columns": ["prize"]}, "Table items has no column 'prize'. Did you mean price? Columns: id, price, "),
        ({"version": "1"}, "version= is '1'. Write the number of a version."),
        ({"version": True}, "version= is True. Write the number of a version."),
        ({"as_of": date(2026, 11, 1)}, "as_of= is datetime.date(2026, 11, 1), which is not a time. Write a time with"),
        ({"columns": {"id": 1}.keys()}, "columns= is dict_keys"),
        ({"columns": []}, "columns= is []. Write a list of names"),
        ({"columns": "id"}, "columns= is 'id'. Write a list of names"),
        ({"where": "nope > 1"}, '"nope" not found'),
        ({"where": "id >"}, "syntax error"),
        ({"where": ""}, "Table items cannot be read"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_read_is_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LakehouseError) as error:
        lakehouse.read(**{"name": "items"} | arguments)
    parts = message.split(".*")
    assert all(part in str(error.value) for part in parts), str(error.value)
    assert isinstance(error.value, (QueryError, TableError))
    assert error.value.action


def test_a_condition_that_fails_for_a_row_is_an_error_of_the_call() -> None:
    reading = lakehouse.read("items", where="CAST(tags[1] AS INT) = 1")
    with pytest.raises(QueryError, match="Could not convert string 'x' to INT32. Correct where="):
        reading.arrow()


def test_a_version_that_expired_from_the_log_is_refused_with_those_that_it_shows(tables: Path) -> None:
    DeltaTable(tables / "items", version=1).create_checkpoint()
    (tables / "items" / "_delta_log" / f"{0:020}.json").unlink()
    assert numbers(lakehouse.read("items", version=1)) == [0, 1]
    with pytest.raises(TableError, match=r"Version 0 of items has expired from the log .* the log shows 1 to 2\."):
        lakehouse.read("items", version=0)


def test_a_version_whose_files_are_gone_is_named_when_it_is_read(tables: Path) -> None:
    table = DeltaTable(tables / "items")
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    reading = lakehouse.read("items", version=1)
    for call in (reading.arrow, reading.polars, reading.pandas):
        with pytest.raises(TableError, match="Files of version 1 of items are gone"):
            call()
    assert numbers(lakehouse.read("items")) == [0, 1, 2]


def test_a_damaged_table_is_named(tables: Path) -> None:
    (tables / "items" / "_delta_log" / f"{2:020}.json").write_text("")
    with pytest.raises(TableDamagedError, match="Version 2 of items is incomplete"):
        lakehouse.read("items")


def test_every_table_under_the_root_can_be_read(tables: Path) -> None:
    for name in ("items_rejected", "items_changes", "items_by_day", "items_base"):
        write_deltalake(tables / name, pa.table({"number": [1]}))
        assert lakehouse.read(name).arrow().to_pylist() == [{"number": 1}]


def test_without_polars_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(SetupError, match="pip install polars"):
        lakehouse.read("items").polars()


def test_reading_loads_neither_spark_nor_dagster_nor_kafka() -> None:
    program = """
import sys
import lakehouse
assert lakehouse.read("items").arrow().num_rows == 6
print({"pyspark", "py4j", "grpc", "dagster", "aiokafka", "pandas"} & {*sys.modules})
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout == "set()\n"
