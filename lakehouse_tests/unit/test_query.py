"""Queries without a JVM: what they return, and that they only read."""

import re
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.declaration import Column, StreamTable
from lakehouse.errors import DeclarationError, QueryError
from lakehouse.query import Result, query, table_names
from lakehouse.settings import Settings

NOON = datetime(2023, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(home=tmp_path / "a 'home'")
    rows = pa.table(
        {
            "latitude": pa.array([Decimal("51.500000"), Decimal("61.199997")], pa.decimal128(9, 6)),
            "observed_at": pa.array([NOON, NOON], pa.timestamp("us", "UTC")),
            "temperature_2m": pa.array([10.4, None], pa.float64()),
            "observed_month": pa.array([date(2023, 1, 1), date(2023, 2, 1)]),
        }
    )
    write_deltalake(settings.table_uri("temperatures"), rows, partition_by=["observed_month"])
    write_deltalake(settings.table_uri("locations"), pa.table({"latitude": [51.5], "name": ["London"]}))
    return settings


def test_a_query_returns_exact_decimals_times_in_utc_and_nulls(settings: Settings) -> None:
    result = query(settings, "SELECT * FROM temperatures ORDER BY latitude")
    assert result.columns == ["latitude", "observed_at", "temperature_2m", "observed_month"]
    assert result.rows[0] == (Decimal("51.500000"), NOON, 10.4, date(2023, 1, 1))
    assert result.rows[1] == (Decimal("61.199997"), NOON, None, date(2023, 2, 1))
    hour = query(settings, "SELECT hour(observed_at), CAST(observed_at AS VARCHAR) FROM temperatures LIMIT 1")
    assert hour.rows == [(12, "2023-01-01 12:00:00+00")]


def test_tables_can_be_joined(settings: Settings) -> None:
    sql = "SELECT name, temperature_2m FROM temperatures JOIN locations USING (latitude)"
    assert query(settings, sql) == Result(["name", "temperature_2m"], [("London", 10.4)])


def test_a_query_reads_the_newest_version_without_deleted_rows(settings: Settings) -> None:
    uri = settings.table_uri("locations")
    write_deltalake(uri, pa.table({"latitude": [48.9], "name": ["Paris"]}), mode="append")
    DeltaTable(uri).delete("name = 'London'")
    assert query(settings, "SELECT name FROM locations").rows == [("Paris",)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM temperatures",
        "  -- é: a comment\n WITH t AS (SELECT * FROM temperatures) SELECT count(*) FROM t;",
        "FROM locations",
        "(SELECT 1) UNION (SELECT 2)",
        "DESCRIBE temperatures",
        "SHOW TABLES",
        "EXPLAIN SELECT * FROM temperatures",
        "EXPLAIN ANALYZE SELECT * FROM temperatures",
        "EXPLAIN (FORMAT JSON) SELECT * FROM temperatures",
        "EXPLAIN (ANALYZE, FORMAT JSON) (SELECT * FROM temperatures)",
        "EXPLAIN (SELECT 1)",
        "PIVOT locations ON name USING sum(latitude)",
        "PIVOT locations ON name IN ('London') USING sum(latitude);",
        "UNPIVOT locations ON latitude",
        "SELECT 'delta_scan(it)', $$query(it)$$, count(*) FROM locations WHERE name <> 'delta_list_files'",
        "SELECT query, delta_scan FROM (SELECT 1 AS query, 2 AS delta_scan)",
    ],
)
def test_every_reading_statement_returns_rows(settings: Settings, sql: str) -> None:
    result = query(settings, sql)
    assert result.columns
    assert result.rows


def test_show_tables_shows_every_table(settings: Settings) -> None:
    assert query(settings, "SHOW TABLES").rows == [("locations",), ("temperatures",)]
    assert table_names(settings) == ["locations", "temperatures"]


@pytest.mark.parametrize(
    "sql",
    [
        "COPY temperatures TO '{root}/stolen.csv'",
        "COPY temperatures TO '{outside}/stolen.csv'",
        "EXPLAIN ANALYZE COPY temperatures TO '{root}/stolen.csv'",
        "explain/**/analyze copy temperatures to '{root}/stolen.csv'",
        "EXPLAIN (ANALYZE) COPY temperatures TO '{root}/stolen.csv'",
        "EXPORT DATABASE '{root}/stolen.csv'",
        "IMPORT DATABASE '{outside}'",
        "ATTACH '{outside}/stolen.csv' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 1",
        "RESET lock_configuration",
        "PRAGMA enable_profiling",
        "CALL pragma_version()",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW temperatures",
        "INSERT INTO temperatures SELECT * FROM temperatures",
        "WITH t AS (SELECT 1) INSERT INTO temperatures SELECT * FROM t",
        "DELETE FROM temperatures",
        "BEGIN",
        "SELECT 1; COPY temperatures TO '{root}/stolen.csv'",
        "SELECT * FROM read_csv('{outside}/secret.csv')",
        "SELECT * FROM read_text('{outside}/secret.csv')",
        "SELECT * FROM read_text('{root}/../../secret.csv')",
        "SELECT * FROM '{outside}/secret.csv'",
        "SELECT * FROM glob('{outside}/*')",
        "SELECT * FROM sniff_csv('{outside}/secret.csv')",
        "SELECT * FROM read_parquet('{outside}/elsewhere/*.parquet')",
        "SELECT * FROM delta_scan('{outside}/elsewhere')",
        "SELECT * FROM delta_list_files('{outside}/elsewhere')",
        "SELECT * FROM query('SELECT * FROM DELTA_SCAN(''{outside}/elsewhere'')')",
        "SELECT * FROM query('SELECT * FROM delta_list' || '_files(''{outside}/elsewhere'')')",
        "SELECT * FROM \"Query\" /* */ ('SELECT * FROM delta_list' || '_files(''{outside}/elsewhere'')')",
        "SELECT * FROM \"delta_list_files\"--(\n('{outside}/elsewhere')",
        "SELECT * FROM system.main.delta_list_files('{outside}/elsewhere')",
        "EXPLAIN (FORMAT JSON) COPY temperatures TO '{root}/stolen.csv'",
        "EXPLAIN (ANALYZE, FORMAT JSON) COPY temperatures TO '{root}/stolen.csv'",
        "EXPLAIN (ANALYZE) (COPY temperatures TO '{root}/stolen.csv')",
        "PIVOT locations ON name; COPY temperatures TO '{root}/stolen.csv'",
        "CREATE TYPE t AS ENUM ('a'); SELECT 1",
        "SELECT * FROM read_json('http://127.0.0.1:9/x')",
    ],
)
def test_statements_that_write_or_read_other_files_are_refused(settings: Settings, tmp_path: Path, sql: str) -> None:
    (tmp_path / "secret.csv").write_text("secret\n42\n")
    write_deltalake(str(tmp_path / "elsewhere"), pa.table({"secret": [42]}))
    files_before = sorted(tmp_path.rglob("*"))
    root = settings.tables_root.replace("'", "''")
    with pytest.raises(QueryError):
        query(settings, sql.format(root=root, outside=tmp_path))
    assert sorted(tmp_path.rglob("*")) == files_before


def test_a_query_that_is_not_utf8_is_refused(settings: Settings) -> None:
    with pytest.raises(QueryError, match="The query is not UTF-8"):
        query(settings, "SELECT '\udcff'")


@pytest.mark.parametrize("sql", ["", "   ", "-- nothing", "SELECT 1; SELECT 2"])
def test_a_query_is_one_statement(settings: Settings, sql: str) -> None:
    with pytest.raises(QueryError, match="must be one statement"):
        query(settings, sql)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT name, at FROM locations", 'syntax error.*needs quotes, such as "at"'),
        ("SELECT nope FROM temperatures", '"nope" not found'),
        ("SELECT CAST(name AS INT) FROM locations", "Could not convert"),
        ("SELECT * FROM ratings", "ratings does not exist"),
    ],
)
def test_the_error_of_invalid_sql_is_one_line_with_advice(settings: Settings, sql: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as error:
        query(settings, sql)
    assert "\n" not in str(error.value)
    assert re.match(r"The query cannot be run: [^!]*[^!.]\. [A-Z]", str(error.value)), "one sentence, then advice"
    assert error.value.action


def test_the_error_of_a_missing_table_lists_the_existing_tables(settings: Settings) -> None:
    with pytest.raises(QueryError) as error:
        query(settings, "SELECT * FROM temperature")
    assert str(error.value) == (
        "The query cannot be run: Table with name temperature does not exist."
        ' Did you mean "temperatures"? Tables: locations, temperatures.'
    )


def test_without_any_table_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="There are no tables yet"):
        query(Settings(home=tmp_path), "SELECT * FROM temperatures")
    assert table_names(Settings(home=tmp_path)) == []


def test_a_table_that_cannot_be_read_stops_only_queries_that_name_it(settings: Settings) -> None:
    log = Path(settings.table_uri("ratings")) / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("{not a log")
    assert query(settings, "SELECT name FROM locations").rows == [("London",)]
    with pytest.raises(QueryError, match="Table ratings cannot be read"):
        query(settings, "SELECT * FROM ratings")


def test_a_table_with_a_name_that_duckdb_uses_is_refused_or_can_be_queried(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, _env_file=None)
    with duckdb.connect() as connection:
        views = connection.execute("SELECT DISTINCT view_name FROM duckdb_views() WHERE internal").fetchall()
    used_names = {name for (name,) in views} | {"information_schema", "pg_catalog", "order", "select", "main", "query"}
    accepted = sorted(name for name in used_names if can_be_declared(name))
    assert {"sqlite_master", "pg_class", "tables", "order"} <= {*accepted}
    for name in accepted:
        write_deltalake(settings.table_uri(name), pa.table({"a": [1]}))
    assert query(settings, "SHOW TABLES").rows == [(name,) for name in accepted]
    union = " UNION ALL ".join(f'SELECT a FROM "{name}"' for name in accepted)
    assert query(settings, union).rows == [(1,)] * len(accepted)


def can_be_declared(name: str) -> bool:
    with suppress(DeclarationError):
        StreamTable(name, topic="t", doc="", columns=[Column("a", "INT", "A.", required=True)], key=["a"])
        return True
    return False
