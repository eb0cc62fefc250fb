"""Change streams of a real database: the table equals ``SELECT *`` in every value."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.databases import workload
from lakehouse_tests.helpers.databases.connect import Connect, connector_of
from lakehouse_tests.helpers.databases.postgres import Postgres, program, running_postgres
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = pytest.mark.skipif(program("initdb") is None, reason="PostgreSQL is not installed on this machine")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


class Mirror:
    """A database, the connector that reads it, and the table that must equal it."""

    def __init__(self, spark: SparkSession, broker: Settings, server: Postgres, folder: Path) -> None:
        self.server, self.database = server, f"shop_{uuid4().hex[:8]}"
        self.stream = Stream(spark, broker, workload.declaration(self.database))
        self.connect = Connect(broker, folder, connector_of(server, self.database, "public.items"))

    def run(self, transactions: Iterator[list[str]]) -> None:
        with self.server.connect(self.database) as connection:
            for statements in transactions:
                with connection.transaction():
                    for statement in statements:
                        connection.execute(statement.encode())

    def rows(self) -> dict[Any, dict[str, Any]]:
        names = ["shop", "id", *(column.column.name for column in workload.COLUMNS)]
        rows = [row.asDict() for row in self.stream.context.merged.rows().select(*names).collect()]
        return {(row["shop"], row["id"]): {n: workload.comparable(v) for n, v in row.items()} for row in rows}

    def difference(self) -> str:
        return workload.differences(workload.rows_of_database(self.server, self.database), self.rows())

    def becomes_equal(self, limit: float = 60.0) -> bool:
        """Merge until the table equals the database; return whether it does."""

        def is_equal() -> bool:
            return bool(self.stream.merge() or True) and not self.difference()

        return wait_until(is_equal, limit)


@pytest.fixture(params=[False, True], ids=["default identity", "full identity"])
def mirror(
    request: pytest.FixtureRequest, spark: SparkSession, broker: Settings, postgres: Postgres, tmp_path: Path
) -> Iterator[Mirror]:
    mirror = Mirror(spark, broker, postgres, tmp_path)
    workload.create_table(postgres, mirror.database, has_full_identity=request.param)
    mirror.run(workload.transactions(random.Random(1), 40, changes_large_keys=request.param))
    mirror.connect.start()
    try:
        yield mirror
    finally:
        mirror.connect.kill()


@pytest.mark.invariant("15.1", "15.3")
def test_a_table_equals_its_database_after_random_transactions(mirror: Mirror, request: pytest.FixtureRequest) -> None:
    changes_large_keys = "full" in request.node.name
    assert mirror.becomes_equal(), mirror.difference()
    mirror.run(workload.transactions(random.Random(2), 150, changes_large_keys=changes_large_keys))
    assert mirror.becomes_equal(), mirror.difference()
    mirror.connect.kill()
    mirror.run(workload.transactions(random.Random(3), 150, changes_large_keys=changes_large_keys))
    mirror.run(iter([workload.truncate(random.Random(4))]))
    mirror.connect.start()
    assert mirror.becomes_equal(), mirror.difference()
    mirror.stream.assert_accounted()
    mirror.stream.refresh()
    groups = mirror.server.rows("SELECT shop, count(*), sum(price), max(n32) FROM items GROUP BY 1", mirror.database)
    assert sorted(mirror.stream.sql("SELECT shop, items, total, highest FROM {rollup}")) == sorted(groups)
    before = mirror.rows()
    mirror.stream.replay()
    assert mirror.rows() == before


@pytest.mark.invariant("15.2")
def test_a_change_of_a_transaction_that_was_open_when_the_snapshot_was_taken_is_not_lost(
    spark: SparkSession, broker: Settings, postgres: Postgres, tmp_path: Path
) -> None:
    """Its position in the log is smaller than that of the snapshot, and it is newer all the same."""
    mirror = Mirror(spark, broker, postgres, tmp_path)
    database = mirror.database
    workload.create_table(postgres, database, has_full_identity=False)
    postgres.run("INSERT INTO items (shop, id, note) VALUES ('a', 1, 'old'), ('a', 2, 'old')", database=database)
    postgres.run("CREATE PUBLICATION dbz_publication FOR TABLE items", database=database)
    slots = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = 'slot_{database}'"
    with postgres.connect(database) as first, postgres.connect(database) as second, postgres.connect(database) as late:
        first.execute("BEGIN; CREATE TABLE first ()")
        mirror.connect.begin()
        assert wait_until(lambda: bool(postgres.rows(slots)), 60.0), "the slot waits for the first transaction"
        second.execute("BEGIN; CREATE TABLE second ()")
        first.execute("COMMIT")
        late.execute("BEGIN; UPDATE items SET note = 'new' WHERE id = 1; DELETE FROM items WHERE id = 2")
        postgres.run("CREATE TABLE third ()", database=database)
        second.execute("COMMIT")
        assert mirror.connect.runs()
        assert wait_until(lambda: bool(mirror.stream.merge() or True) and len(mirror.rows()) == 2, 60.0)
        late.execute("COMMIT")
    try:
        assert mirror.becomes_equal(), mirror.difference()
        assert [row["note"] for row in mirror.rows().values()] == ["new"]
        commit = mirror.stream.ledger.newest.commit
        assert commit.snapshot_position is not None
        (stored_row,) = mirror.stream.context.merged.rows().select("_record.sequence").collect()
        assert stored_row[0] < commit.snapshot_position, "the case did not occur"
    finally:
        mirror.connect.kill()
