"""Change streams of a real database: the table equals ``SELECT *`` in every value."""

import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Debezium, StreamTable
from lakehouse.ingest.batches import plan_next
from lakehouse.local.servers import EmbeddedBroker
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.deaths import dying
from lakehouse_tests.helpers.attacks.worker import Point
from lakehouse_tests.helpers.brokers.servers import OneServer
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.databases import many_rows, workload
from lakehouse_tests.helpers.databases.connect import Connect, connector_of
from lakehouse_tests.helpers.databases.mirror import Mirror
from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.waiting import wait_until


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
    try:
        send_a_change_that_is_open_while_the_snapshot_is_taken(mirror)
        assert mirror.becomes_equal(), mirror.difference()
        assert [row["note"] for row in mirror.rows().values()] == ["new"]
        commit = mirror.stream.ledger.newest.commit
        assert commit.snapshot_position is not None
        (stored_row,) = mirror.stream.context.merged.rows().select("_record.sequence").collect()
        assert stored_row[0] < commit.snapshot_position, "the case did not occur"
    finally:
        mirror.connect.kill()


def send_a_change_that_is_open_while_the_snapshot_is_taken(mirror: Mirror) -> None:
    """A new slot waits for the first transaction, then for the second; the late one begins between the two."""
    server, database = mirror.server, mirror.database
    with server.connect(database) as first, server.connect(database) as second, server.connect(database) as late:
        first.execute("BEGIN; CREATE TABLE first ()")
        mirror.connect.begin()
        assert wait_until(lambda: is_awaited(server, first), 60.0), "the slot waits for the first transaction"
        second.execute("BEGIN; CREATE TABLE second ()")
        first.execute("COMMIT")
        assert wait_until(lambda: is_awaited(server, second)), "the slot waits for the second transaction"
        late.execute("BEGIN; UPDATE items SET note = 'new' WHERE id = 1; DELETE FROM items WHERE id = 2")
        server.run("CREATE TABLE third ()", database=database)
        second.execute("COMMIT")
        assert mirror.connect.runs()
        assert wait_until(lambda: bool(mirror.stream.merge() or True) and len(mirror.rows()) == 2, 60.0)
        late.execute("COMMIT")


def is_awaited(server: Postgres, transaction: psycopg.Connection[Any]) -> bool:
    """Whether another process of the server waits for the end of the transaction of a connection."""
    (number,) = transaction.execute("SELECT pg_current_xact_id()::text").fetchone() or ("",)
    waiting = f"locktype = 'transactionid' AND NOT granted AND transactionid::text = '{number}'"
    return bool(server.rows(f"SELECT 1 FROM pg_locks WHERE {waiting}"))


ROWS, ROUNDS = 20_000, 5
DEATHS = (
    Point("ingest.batches.store_rejected"),
    Point("ingest.merge.store_deletes", "after"),
    Point("ingest.batches.require_accounted"),
)


@pytest.fixture
def fragile_broker(tmp_path: Path) -> Iterator[OneServer]:
    settings = Settings(home=tmp_path / "one", _env_file=None)
    server = OneServer(settings, EmbeddedBroker(settings))
    with server.embedded.run_if_needed():
        yield server


def kill_on_the_way(number: int, connect: Connect, broker: OneServer) -> None:
    """Kill the connector in the second round, and the broker in the third, while changes are sent."""
    if number == 2:
        connect.kill()
        connect.start()
    if number == 3:
        with broker.restarted_when_dead():
            broker.signal(signal.SIGKILL)


@pytest.mark.invariant("15.1")
def test_a_table_equals_its_database_after_100_000_changes_with_everything_killed_on_the_way(
    spark: SparkSession, fragile_broker: OneServer, postgres: Postgres, tmp_path: Path
) -> None:
    database = f"many_{uuid4().hex[:8]}"
    topic = f"{database}.public.items"
    table = StreamTable(database, topic, "", many_rows.COLUMNS, ["id"], format=Debezium())
    stream = Stream.of(spark, fragile_broker.settings, table)
    connect = Connect(fragile_broker.settings, tmp_path, connector_of(postgres, database, "public.items"))
    many_rows.create_rows(postgres, database, ROWS)
    connect.start()
    try:
        for number in range(1, ROUNDS + 1):
            many_rows.change_rows(postgres, database, ROWS, number)
            kill_on_the_way(number, connect, fragile_broker)
            with dying(DEATHS[number % len(DEATHS)], database):  # the deletes of a round come last
                while wait_until(lambda: plan_next(stream.settings, stream.table).span > 0, 60.0):
                    stream.merge(max_records=7_000)
            stream.merge(max_records=9_000)

        def rows() -> list[tuple[Any, ...]]:
            stream.merge(max_records=9_000)
            return sorted(tuple(row) for row in stream.context.merged.rows().select("id", "n", "note").collect())

        expected_rows = sorted(postgres.rows("SELECT id, n, note FROM items", database))
        assert wait_until(lambda: rows() == expected_rows, 120.0)
        stream.assert_accounted()
        assert stream.ledger.totals.read > 100_000
        assert stream.ledger.totals.rejected == 0
    finally:
        connect.kill()
