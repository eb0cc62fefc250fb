"""``lakehouse query``: its forms, its files, and earlier versions."""

import csv
import io
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet

from lakehouse.query.queries import RunningQuery
from lakehouse_tests.helpers.commands import lakehouse_says

NOON = datetime(2023, 1, 1, 12, tzinfo=UTC)
TYPES = {
    "id": pa.int64(),
    "text": pa.string(),
    "price": pa.decimal128(9, 2),
    "at": pa.timestamp("us", "UTC"),
    "ratio": pa.float64(),
    "photo": pa.binary(),
    "tags": pa.list_(pa.string()),
    "place": pa.struct({"city": pa.string()}),
    "counts": pa.map_(pa.string(), pa.int32()),
}
FULL = {
    "id": 1,
    "text": 'a,"é\n',
    "price": Decimal("1.20"),
    "at": NOON,
    "ratio": float("nan"),
    "photo": b"\xff\x00",
    "tags": ["x", None],
    "place": {"city": "Rome"},
    "counts": [("a", 1)],
}
EMPTY_TEXT = dict.fromkeys(TYPES) | {"id": 2, "text": ""}
ONLY_NULLS = dict.fromkeys(TYPES) | {"id": 3}


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Version 0 of the table ``items`` has one row, version 1 has two and version 2 three."""
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    tables = tmp_path / "home" / "tables"
    for row in (FULL, EMPTY_TEXT, ONLY_NULLS):
        write_deltalake(tables / "items", pa.Table.from_pylist([row], pa.schema(TYPES)), mode="append")
    write_deltalake(tables / "shops", pa.table({"id": [1]}))
    return tables


def output_of(*arguments: str) -> str:
    result = lakehouse_says("query", *arguments)
    assert result.code == 0, result.err
    return result.out


def refusal_of(*arguments: str) -> str:
    result = lakehouse_says("query", *arguments)
    assert result.code in (1, 2)
    assert result.out == ""
    assert "Unexpected" not in result.err
    return result.err


def test_a_line_of_csv_distinguishes_null_from_an_empty_text_and_keeps_exact_values() -> None:
    text = output_of("--format", "csv", "FROM items ORDER BY id")
    header, full_row, *other_rows = csv.reader(io.StringIO(text))
    assert header == list(TYPES)
    times_and_numbers = ["1.20", "2023-01-01 12:00:00+00:00", "nan"]
    assert full_row == ["1", 'a,"é\n', *times_and_numbers, "/wA=", '["x", null]', '{"city": "Rome"}', '{"a": 1}']
    assert len(other_rows) == 2
    assert text.splitlines()[-2:] == ['2,"",,,,,,,', "3,,,,,,,,"]


def test_duckdb_reads_null_and_empty_text_back_from_csv(tmp_path: Path) -> None:
    output_of("--format", "csv", "--output", "items.csv", "SELECT id, text FROM items ORDER BY id")
    rows = duckdb.sql(f"FROM read_csv('{tmp_path / 'items.csv'}', allow_quoted_nulls = false)").fetchall()
    assert rows == [(1, 'a,"é\n'), (2, ""), (3, None)]


def test_each_line_of_json_lines_is_an_object_with_exact_values() -> None:
    lines = output_of("--format", "jsonl", "FROM items ORDER BY id").splitlines()
    full_row, *other_rows = map(json.loads, lines)
    assert full_row == {
        "id": 1,
        "text": 'a,"é\n',
        "price": "1.20",
        "at": "2023-01-01T12:00:00Z",
        "ratio": "NaN",
        "photo": "/wA=",
        "tags": ["x", None],
        "place": {"city": "Rome"},
        "counts": {"a": 1},
    }
    assert other_rows == [EMPTY_TEXT, ONLY_NULLS]


def test_a_file_in_parquet_has_the_types_and_values_of_the_rows() -> None:
    output_of("--format", "parquet", "--output", "items.parquet", "FROM items ORDER BY id")
    table = parquet.read_table("items.parquet", partitioning=None)
    assert {name: table.schema.field(name).type for name in ("id", "price", "at", "photo")} == {
        name: TYPES[name] for name in ("id", "price", "at", "photo")
    }
    assert table.drop_columns(["ratio"]).to_pylist() == [
        {name: value for name, value in row.items() if name != "ratio"} for row in (FULL, EMPTY_TEXT, ONLY_NULLS)
    ]


def test_a_file_replaces_the_previous_one_and_leaves_no_draft(tmp_path: Path) -> None:
    for form in ("csv", "jsonl", "parquet"):
        (tmp_path / f"rows.{form}").write_text("previous")
        out = output_of("--format", form, "--output", f"rows.{form}", "SELECT range AS id FROM range(4321)")
        assert out == f"rows.{form}: 4,321 rows\n"
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 4322
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 4321
    assert parquet.read_metadata(tmp_path / "rows.parquet").num_rows == 4321
    assert sorted(file.name for file in tmp_path.iterdir()) == ["home", "rows.csv", "rows.jsonl", "rows.parquet"]


def test_a_link_keeps_its_place_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target.csv").write_text("previous")
    (tmp_path / "link.csv").symlink_to("target.csv")
    output_of("--format", "csv", "--output", "link.csv", "SELECT 1 AS id")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "target.csv").read_text() == "id\n1\n"


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_query_that_fails_halfway_leaves_the_previous_file(form: str, tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("previous")
    sql = "SELECT CAST(CASE range WHEN 400000 THEN 'x' ELSE '1' END AS INT) AS n FROM range(500000)"
    error = refusal_of("--format", form, "--output", "rows", sql)
    assert "Could not convert string 'x' to INT32. Correct the query" in error
    assert (tmp_path / "rows").read_text() == "previous"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["home", "rows"]


def test_the_error_of_one_thread_is_named_if_the_end_of_another_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the two is a matter of luck, so the report of the other one is made here."""

    def fail(*_: object) -> None:
        raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

    monkeypatch.setattr(RunningQuery, "fetch", fail)
    sql = "SELECT CAST(CASE range WHEN 4000 THEN 'x' ELSE '1' END AS INT) AS n FROM range(5000)"
    assert "Could not convert string 'x' to INT32. Correct the query" in refusal_of("--format", "csv", sql)
    assert "Interrupted" in refusal_of("--format", "csv", "SELECT 1")


def test_the_end_of_another_thread_that_arrow_reports_is_an_interruption_too() -> None:
    def fail() -> Iterator[pa.RecordBatch]:
        raise OSError("INTERRUPT Error: Interrupted!")
        yield

    reader = pa.RecordBatchReader.from_batches(pa.schema({"n": pa.int32()}), fail())
    connection = cast(duckdb.DuckDBPyConnection, SimpleNamespace(to_arrow_reader=lambda _: reader))
    _, batches = RunningQuery(connection, ["n"], []).batches(1)
    with pytest.raises(duckdb.InterruptException):
        next(batches)


def test_a_full_disk_is_named_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    error = refusal_of("--format", "csv", "--output", "rows.csv", "SELECT 1")
    assert error.startswith(f"The rows cannot be written: No space left on device ({tmp_path / 'rows.csv'}).")
    assert [file.name for file in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_result_without_rows_is_a_whole_file(form: str, tmp_path: Path) -> None:
    output_of("--format", form, "--output", "rows", "SELECT 1 AS id WHERE false")
    assert parquet.read_schema("rows").names == ["id"] if form == "parquet" else True
    assert form == "parquet" or (tmp_path / "rows").read_text() == {"csv": "id\n", "jsonl": ""}[form]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_limit_cuts_other_forms_than_the_table_only_if_it_is_given(form: str) -> None:
    sql = "SELECT range AS id FROM range(5000)"
    header = int(form == "csv")
    assert len(output_of("--format", form, sql).splitlines()) == 5000 + header
    result = lakehouse_says("query", "--format", form, "--limit", "2500", sql)
    assert len(result.out.splitlines()) == 2500 + header
    assert result.err == "Only the first 2,500 rows are shown; --limit 0 shows all.\n"
    assert lakehouse_says("query", "--format", form, "--limit", "5000", sql).err == ""


def test_a_limit_cuts_a_file_in_parquet() -> None:
    sql = "SELECT range AS id FROM range(5000)"
    result = lakehouse_says("query", "--format", "parquet", "--output", "rows", "--limit", "7", sql)
    assert parquet.read_table("rows")["id"].to_pylist() == list(range(7))
    assert "Only the first 7 rows" in result.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--format", "parquet"], "parquet needs --output FILE"),
        (["--output", "rows.txt"], "--output: a file needs --format csv, jsonl or parquet"),
        (["--json", "--output", "rows.json"], "--output: a file needs --format csv, jsonl or parquet"),
        (["--format", "csv", "--json"], "--format and --json exclude each other"),
        (["--csv", "--json"], "--csv and --json exclude each other"),
        (["--format", "csv", "--csv"], "--format and --csv exclude each other"),
        (["--format", "csv", "--output", "missing/rows.csv"], "there is no folder 'missing'"),
        (["--format", "csv", "--output", "/dev/null"], "'/dev/null' is not a file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_contradict_each_other_are_wrong_use(arguments: list[str], problem: str, tmp_path: Path) -> None:
    result = lakehouse_says("query", *arguments, "SELECT 1")
    assert result.code == 2
    assert problem in result.err
    assert [file.name for file in tmp_path.iterdir()] == ["home"]


def test_two_columns_with_the_same_name_are_only_refused_in_forms_that_would_lose_one() -> None:
    for options in (["--json"], ["--format", "jsonl"], ["--format", "parquet", "--output", "rows"]):
        error = refusal_of(*options, "SELECT 1 a, 2 a, 3 b")
        assert "Several columns of the result are named a" in error and "AS" in error
    assert "1   2" in output_of("SELECT 1 a, 2 a")


def test_a_type_that_parquet_does_not_have_is_refused() -> None:
    error = refusal_of("--format", "parquet", "--output", "rows", "SELECT INTERVAL 1 DAY AS age")
    assert "Cast the column to another type" in error
    assert not Path("rows").exists()


def test_an_earlier_version_is_read_and_named() -> None:
    result = lakehouse_says("query", "--csv", "--as-of", "1", "SELECT count(*) AS n FROM items")
    assert result.out == "n\n2\n"
    assert result.err.startswith("As of items, version 1, committed at 20")


def test_a_time_applies_to_each_table_of_the_query(tables: Path) -> None:
    time = DeltaTable(tables / "shops").history()[0]["timestamp"] / 1000
    text = datetime.fromtimestamp(time, UTC).isoformat()
    write_deltalake(tables / "items", pa.Table.from_pylist([FULL], pa.schema(TYPES)), mode="append")
    write_deltalake(tables / "shops", pa.table({"id": [1]}), mode="append")
    sql = "SELECT (SELECT count(*) FROM items), (SELECT count(*) FROM shops)"
    result = lakehouse_says("query", "--csv", "--as-of", text, sql)
    assert result.out.splitlines()[1] == "3,1"
    assert "items, version 2" in result.err and "shops, version 0" in result.err


@pytest.mark.parametrize(
    ("as_of", "sql", "problem"),
    [
        ("9", "FROM items", "Version 9 of items does not exist"),
        ("2020-01-01T00:00:00Z", "FROM items", "Table items has no version of 2020-01-01T00:00:00+00:00"),
        ("1", "FROM items JOIN shops USING (id)", "A version is that of one table, but the query names items, shops"),
        ("1", "SHOW TABLES", "The query names no table that exists. Tables: items, shops."),
        ("1", "FROM item", "The query names no table that exists. Tables: items, shops."),
        ("1", "FROM items WHERE id IN (FROM query_table('shops'))", "shops does not exist"),
    ],
)
def test_a_query_as_of_a_point_that_has_no_rows_is_refused(as_of: str, sql: str, problem: str) -> None:
    assert problem in refusal_of("--as-of", as_of, sql)


@pytest.mark.parametrize("as_of", ["yesterday", "-1", "2026-11-01", "2026-11-01T00:00:00", "9" * 30, ""])
def test_a_point_that_is_neither_a_version_nor_a_time_with_a_zone_is_wrong_use(as_of: str) -> None:
    result = lakehouse_says("query", f"--as-of={as_of}", "FROM items")
    assert result.code == 2
    assert "--as-of" in result.err and "2026-11-01T00:00:00Z" in result.err


def test_a_version_whose_files_are_gone_is_named(tables: Path) -> None:
    table = DeltaTable(tables / "items")
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert "Files of version 1 of items are gone" in refusal_of("--as-of", "1", "FROM items")
    assert output_of("--csv", "SELECT count(*) AS n FROM items") == "n\n3\n"


def test_no_progress_is_printed_without_a_terminal() -> None:
    result = lakehouse_says("query", "--csv", "SELECT current_setting('enable_progress_bar') AS bar_of_duckdb")
    assert (result.out, result.err) == ("bar_of_duckdb\nFalse\n", "")
