"""Another Delta table as the source of a table: it follows every change, also a RESTORE."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Deletes, FieldIs, StreamTable, TableRows, Time
from lakehouse.errors import DataLossError, ReadLossError, SourceError
from lakehouse.ingest.batches import merge_all
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.replay import replay
from lakehouse.ledger.audit import audit
from lakehouse.operations.status import status
from lakehouse.settings import Settings
from lakehouse.storage.statement import session_settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import accept_gap


@dataclass
class Follower:
    """A table of accounts that somebody else writes, and the declared table that reads it."""

    spark: SparkSession
    settings: Settings
    table: StreamTable
    uri: str

    @property
    def context(self) -> TableContext:
        return TableContext(self.spark, self.settings, self.table)

    def run(self, statement: str) -> None:
        self.spark.sql(statement.replace("ACCOUNTS", f"delta.`{self.uri}`")).collect()

    def create(self) -> None:
        self.run(
            "CREATE TABLE ACCOUNTS (id INT, amount DECIMAL(20,4), at TIMESTAMP, note STRING) USING delta"
            " TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        )
        self.run("INSERT INTO ACCOUNTS SELECT id, id / 3, timestamp_micros(id), concat('ä\"', id) FROM range(50)")

    def vacuum(self, *, compact: bool = True) -> None:
        """Delete every file that the newest version does not need."""
        if compact:
            self.run("OPTIMIZE ACCOUNTS")
        with session_settings(self.spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
            self.run("VACUUM ACCOUNTS RETAIN 0 HOURS")

    def merge(self) -> list[Outcome]:
        return merge_all(self.context)

    def assert_equal(self) -> None:
        names = [column.name for column in self.table.columns]
        followed = sorted(map(tuple, self.spark.read.format("delta").load(self.uri).select(*names).collect()), key=str)
        rows: list[tuple[Any, ...]] = [tuple(row) for row in self.context.merged.rows().select(*names).collect()]
        assert sorted(rows, key=str) == followed
        assert all(finding.passed for finding in audit(self.context.ledger()))
        assert status(self.settings, self.table).lag == 0


@pytest.fixture
def follower(spark: SparkSession, tmp_path: Path) -> Follower:
    uri = str(tmp_path / "accounts")
    table = StreamTable(
        name="balances",
        doc="Balances: one row per account.",
        columns=[
            Column("id", "INT", "Account.", required=True),
            Column("amount", "DECIMAL(20,4)", "Balance."),
            Column("at", "TIMESTAMP", "Last change.", written=Time("iso8601")),
            Column("note", "STRING", "Note."),
        ],
        key=["id"],
        source=TableRows(uri, former_rows=True),
        deletes=Deletes(when=FieldIs("_change_type", ["delete", "former"])),
    )
    follower = Follower(spark, Settings(home=tmp_path / "home"), table, uri)
    follower.create()
    return follower


def test_a_table_follows_inserts_updates_deletes_and_keys_that_change(follower: Follower) -> None:
    start, rows = follower.merge()
    assert (start.entry.commit.kind, rows.entry.commit.read) == ("start", 50)
    follower.assert_equal()
    follower.run("UPDATE ACCOUNTS SET amount = -1.5, note = NULL WHERE id < 10")
    follower.run("DELETE FROM ACCOUNTS WHERE id BETWEEN 20 AND 24")
    follower.run("UPDATE ACCOUNTS SET id = id + 1000 WHERE id >= 45")
    follower.run("INSERT INTO ACCOUNTS VALUES (21, 7, NULL, 'again')")
    follower.run("OPTIMIZE ACCOUNTS")
    follower.merge()
    follower.assert_equal()
    assert follower.merge() == []
    replay(follower.context)
    follower.assert_equal()


@pytest.mark.slow
def test_a_table_follows_a_restore(follower: Follower) -> None:
    follower.merge()
    follower.run("DELETE FROM ACCOUNTS WHERE id < 30")
    follower.merge()
    follower.run("RESTORE ACCOUNTS TO VERSION AS OF 1")
    follower.run("INSERT OVERWRITE ACCOUNTS SELECT id, id / 7, NULL, 'new' FROM range(40, 60)")
    follower.merge()
    follower.assert_equal()


@pytest.mark.slow
def test_each_batch_ends_at_a_version(follower: Follower) -> None:
    follower.table = replace(follower.table, max_records=5)
    follower.merge()
    for first in (0, 10, 20):
        follower.run(f"UPDATE ACCOUNTS SET amount = {first} WHERE id BETWEEN {first} AND {first + 3}")
    outcomes = follower.merge()
    assert [outcome.entry.commit.read for outcome in outcomes] == [8, 8, 8]
    follower.assert_equal()


@pytest.mark.slow
def test_equal_rows_are_separate_records_of_a_log_table(follower: Follower) -> None:
    follower.table = replace(follower.table, key=[], deletes=Deletes(when=None), source=TableRows(follower.uri))
    follower.merge()
    follower.run("INSERT INTO ACCOUNTS SELECT 7, 1, NULL, 'same' FROM range(3)")
    follower.merge()
    (replayed,) = replay(follower.context)
    assert (replayed.entry.commit.read, replayed.entry.metrics.inserted) == (53, 0)
    assert follower.context.merged.rows().count() == 53


@pytest.mark.slow
@pytest.mark.invariant("9.13")
@pytest.mark.parametrize("truncates", [True, False])
def test_after_change_data_was_vacuumed_an_accepted_gap_reads_all_rows_again(
    follower: Follower, truncates: bool
) -> None:
    if truncates:
        deletes = replace(follower.table.deletes, truncates=FieldIs("_change_type", ["truncate"]))
        follower.table = replace(follower.table, deletes=deletes)
    follower.merge()
    follower.run("UPDATE ACCOUNTS SET amount = 5 WHERE id < 10")
    follower.run("DELETE FROM ACCOUNTS WHERE id BETWEEN 20 AND 24")
    follower.run("UPDATE ACCOUNTS SET id = id + 1000 WHERE id >= 45")
    follower.vacuum()
    with pytest.raises(DataLossError, match=r"Versions 2 to \d of .* can no longer be read, and were not.*repair gap"):
        follower.merge()
    assert "can no longer be read" in (status(follower.settings, follower.table).loss or "")
    accept_gap(follower.context)
    follower.merge()
    ids = sorted(row[0] for row in follower.context.merged.rows().select("id").collect())
    stale_ids = [] if truncates else [*range(20, 25), *range(45, 50)]
    assert ids == sorted([*range(20), *range(25, 45), *range(1045, 1050), *stale_ids])
    follower.run("UPDATE ACCOUNTS SET note = 'later' WHERE id = 30")
    follower.merge()
    replay(follower.context)
    assert follower.merge() == []
    if truncates:
        follower.assert_equal()


@pytest.mark.slow
@pytest.mark.invariant("9.13")
def test_a_vacuumed_deletion_vector_is_a_gap(follower: Follower) -> None:
    follower.run("ALTER TABLE ACCOUNTS SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    follower.merge()
    follower.run("DELETE FROM ACCOUNTS WHERE id = 3")
    follower.run("DELETE FROM ACCOUNTS WHERE id = 4")
    follower.vacuum(compact=False)
    with pytest.raises(DataLossError, match=r"can no longer be read, and were not.*repair gap"):
        follower.merge()
    accept_gap(follower.context)
    follower.merge()
    follower.run("DELETE FROM ACCOUNTS WHERE id = 5")
    follower.merge()
    ids = sorted(row[0] for row in follower.context.merged.rows().select("id").collect())
    assert ids == [number for number in range(50) if number != 5]


@pytest.mark.slow
@pytest.mark.invariant("9.13")
def test_a_replay_of_change_data_that_was_vacuumed_says_so_and_changes_nothing(follower: Follower) -> None:
    follower.merge()
    follower.run("UPDATE ACCOUNTS SET amount = 5 WHERE id < 10")
    follower.merge()
    follower.vacuum()
    with pytest.raises(ReadLossError, match=r"Versions 1 to 2 of the table that balances reads can no longer be read"):
        replay(follower.context)
    follower.merge()
    follower.assert_equal()


@pytest.mark.slow
def test_a_table_follows_columns_that_are_renamed_and_dropped(follower: Follower) -> None:
    follower.run("ALTER TABLE ACCOUNTS SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    follower.merge()
    follower.run("UPDATE ACCOUNTS SET amount = 1 WHERE id < 10")
    follower.run("ALTER TABLE ACCOUNTS RENAME COLUMN amount TO total")
    follower.run("UPDATE ACCOUNTS SET total = 2 WHERE id BETWEEN 5 AND 15")
    follower.run("ALTER TABLE ACCOUNTS DROP COLUMN note")
    follower.run("UPDATE ACCOUNTS SET total = 3 WHERE id BETWEEN 12 AND 20")
    id_, amount, at, _ = follower.table.record_columns
    columns = [id_, replace(amount, source="total", formerly="amount"), at]
    follower.table = replace(follower.table, columns=columns)
    for act in (follower.merge, lambda: replay(follower.context)):
        act()
        rows = {row["id"]: row["amount"] for row in follower.context.merged.rows().collect()}
        followed = {row["id"]: row["total"] for row in follower.spark.read.format("delta").load(follower.uri).collect()}
        assert rows == followed
    assert follower.merge() == []


@pytest.mark.slow
def test_a_table_that_was_overwritten_with_other_columns_stops_the_merge(follower: Follower) -> None:
    follower.merge()
    follower.run("UPDATE ACCOUNTS SET amount = 1 WHERE id < 10")
    other_rows = follower.spark.sql("SELECT 'a' AS id, 5L AS other")
    other_rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(follower.uri)
    with pytest.raises(SourceError, match="the columns were others than they are now"):
        follower.merge()


@pytest.mark.slow
def test_a_table_that_was_created_again_stops_the_merge(follower: Follower) -> None:
    follower.merge()
    shutil.rmtree(follower.uri)
    follower.create()
    with pytest.raises(DataLossError, match="Another table was merged"):
        follower.merge()
