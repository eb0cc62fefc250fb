"""The rows that the change feed inserts: every change once, even if a version number is used again."""

from datetime import UTC, datetime
from typing import Any

import duckdb
import pytest

from lakehouse.declaration import Column, StreamTable
from lakehouse.derived.feed import insert_spec

pytestmark = pytest.mark.invariant("10.8")

TABLE = StreamTable(
    name="t",
    topic="t",
    doc="d",
    columns=[Column("k", "INT", required=True, doc="d"), Column("v", "INT", doc="d")],
    key=["k"],
)
NAMES = ["k", "source_table_id", "source_version", "committed_at", "number", "v_after"]
FIRST, SECOND = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 2, tzinfo=UTC)


@pytest.fixture
def feed() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    types = "k INT, source_table_id VARCHAR, source_version BIGINT, committed_at TIMESTAMPTZ, number INT, v_after INT"
    connection.execute(f"CREATE TABLE t ({types}); CREATE TABLE s ({types})")
    return connection


def insert_changes(feed: duckdb.DuckDBPyConnection, number: int, *changes: tuple[int, datetime | None, int]) -> None:
    """Commit changes of one key, each with its version, commit time (NULL: a net difference) and value."""
    rows: list[Any] = [[1, "id", version, at, number, value] for version, at, value in changes]
    feed.execute("DELETE FROM s")
    feed.executemany("INSERT INTO s VALUES (?, ?, ?, ?, ?, ?)", rows)
    feed.execute(f"MERGE INTO t USING s {insert_spec(TABLE, NAMES).clauses}".replace("`", '"'))


def read_values(feed: duckdb.DuckDBPyConnection) -> list[int]:
    return [value for (value,) in feed.execute("SELECT v_after FROM t ORDER BY number, source_version").fetchall()]


def test_a_table_restored_from_a_backup_uses_the_same_versions_again(feed: duckdb.DuckDBPyConnection) -> None:
    insert_changes(feed, 1, (40, FIRST, 2), (41, FIRST, 3))
    insert_changes(feed, 2, (40, None, 2))
    insert_changes(feed, 3, (41, SECOND, 4))
    insert_changes(feed, 4, (40, None, 2))
    assert read_values(feed) == [2, 3, 2, 4, 2]


def test_a_change_in_the_feed_is_not_inserted_again(feed: duckdb.DuckDBPyConnection) -> None:
    insert_changes(feed, 1, (40, FIRST, 2))
    insert_changes(feed, 2, (40, FIRST, 2), (41, SECOND, 3))
    assert read_values(feed) == [2, 3]
