"""A comparison with a real database: what it reports on its way, and that it neither locks rows nor collects them."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.declaration import Column, Debezium, StreamTable
from lakehouse.operations.compare import BucketSums, Progress, Source, compare
from lakehouse.operations.source_database import bucket_of, open_source
from lakehouse.settings import Settings
from lakehouse_tests.helpers.databases.postgres import Postgres, program, running_postgres
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = pytest.mark.skipif(program("initdb") is None, reason="PostgreSQL is not installed on this machine")
COLUMNS = [Column("id", "BIGINT", "Number.", required=True), Column("note", "STRING", "A text.")]
ITEMS = StreamTable("items", "shop.public.items", "", COLUMNS, ["id"], format=Debezium())
ROWS, MANY_ROWS = 25_000, 1_000_000  # many: more than the buffers of a connection hold
SOURCE = "public.items"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


def database_of(server: Postgres, rows: int) -> str:
    database = f"shop_{uuid4().hex[:8]}"
    server.run(f"CREATE DATABASE {database}")
    server.run(
        "CREATE TABLE items (id bigint PRIMARY KEY, note text)",
        f"INSERT INTO items SELECT i, 'x' FROM generate_series(1, {rows}) i",
        "ANALYZE items",
        database=database,
    )
    return database


def url_of(server: Postgres, database: str) -> str:
    return f"postgresql://postgres@127.0.0.1:{server.port}/{database}"


def test_a_comparison_reports_the_rows_of_each_table_and_its_passes(postgres: Postgres, tmp_path: Path) -> None:
    database = database_of(postgres, ROWS)
    settings = Settings(home=tmp_path, _env_file=None)
    rows = {"id": list(range(1, ROWS + 1)), "note": ["other", *["x"] * (ROWS - 1)]}
    write_deltalake(settings.table_uri("items"), pa.table(rows))
    reports = list[Progress]()
    comparison = compare(settings, ITEMS, Source(url_of(postgres, database), SOURCE), 0.0, reports.append)
    assert [difference.key for difference in comparison.differences] == [("1",)]
    counts = [0, 10_000, 20_000, ROWS]
    hashing = [Progress(name, count, ROWS, 1, 4) for name in (SOURCE, "items") for count in counts]
    looks = [
        Progress(name, count, expected_rows, number, 2)
        for number in (1, 2)
        for name, expected_rows in ((SOURCE, 1), ("items", ROWS))
        for count in ([0, 1] if name == SOURCE else counts)
    ]
    assert reports == hashing + looks


def test_a_table_without_statistics_has_no_estimate(postgres: Postgres) -> None:
    database = database_of(postgres, 3)
    postgres.run(
        "CREATE TABLE fresh (id bigint PRIMARY KEY, note text) WITH (autovacuum_enabled = off)", database=database
    )
    for name, expected_rows in (("public.fresh", None), (SOURCE, 3)):
        with open_source(url_of(postgres, database), ITEMS, name, ["id", "note"]) as source:
            assert source.estimate_rows() == expected_rows


def test_reading_a_database_locks_no_row_and_the_database_waits_for_its_reader(postgres: Postgres) -> None:
    """The rows are those of one moment, even if others change and delete them meanwhile."""
    database = database_of(postgres, MANY_ROWS)
    first_bucket = bucket_of(["1"])
    with open_source(url_of(postgres, database), ITEMS, SOURCE, ["id", "note"]) as source:
        process = source.connection.info.backend_pid
        hashes = source.hashes()
        first_hash = next(hashes)
        wait_event = f"SELECT wait_event FROM pg_stat_activity WHERE pid = {process}"
        assert wait_until(lambda: postgres.rows(wait_event) == [("ClientWrite",)], 60.0), "it sends all at once"
        locks = f"SELECT DISTINCT mode FROM pg_locks WHERE pid = {process} AND locktype <> 'virtualxid'"
        assert postgres.rows(locks, database) == [("AccessShareLock",)]
        postgres.run(
            "SELECT * FROM items WHERE id < 100 FOR UPDATE NOWAIT",
            "SET lock_timeout = '10s'; UPDATE items SET note = 'new' WHERE id < 100; DELETE FROM items WHERE id > 999",
            database=database,
        )
        assert BucketSums([first_hash, *hashes]).rows == MANY_ROWS
        rows = [row for row in source.rows([first_bucket]) if row[0] == "1"]
        assert rows == [("1", "x")]


def test_rows_of_a_database_are_fetched_in_parts(postgres: Postgres) -> None:
    database = database_of(postgres, ROWS)
    buckets = sorted({bucket_of([str(number)]) for number in range(1, ROWS + 1)})
    with open_source(url_of(postgres, database), ITEMS, SOURCE, ["id", "note"]) as source:
        rows = source.rows(buckets)
        next(rows)
        newest_query = f"SELECT query FROM pg_stat_activity WHERE pid = {source.connection.info.backend_pid}"
        assert postgres.rows(newest_query) == [('FETCH FORWARD 10000 FROM "rows"',)]
        assert sum(1 for _ in rows) == ROWS - 1
