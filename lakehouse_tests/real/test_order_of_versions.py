"""A table that follows another one: versions decide which row is newer, and records within a version of a log table."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Deletes, FieldIs, StreamTable, TableRows
from lakehouse.errors import DeclarationError
from lakehouse.ingest.batches import merge_all
from lakehouse.ingest.gaps import require_comparable
from lakehouse.ingest.replay import replay
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import accept_gap
from lakehouse_tests.helpers.tables.followed import FollowedTable
from lakehouse_tests.helpers.tables.rows import rows_of

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
COLUMNS = [Column("id", "INT", "Account.", required=True), Column("amount", "INT", "Amount.")]
RECORD_TYPE = pa.struct(
    [
        ("source", pa.string()),
        ("partition", pa.int32()),
        ("position", pa.int64()),
        ("sequence", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("order_time", pa.timestamp("us", "UTC")),
    ]
)


def follow(spark: SparkSession, folder: Path, uri: str, **changes: Any) -> TableContext:
    table = StreamTable(
        name="balances",
        doc="Balances: one row per account.",
        columns=COLUMNS,
        key=["id"],
        source=TableRows(uri),
        deletes=Deletes(when=FieldIs("_change_type", ["delete"])),
        **changes,
    )
    return TableContext(spark, Settings(home=folder / "home"), table)


def amounts(context: TableContext) -> dict[int, int]:
    return {row["id"]: row["amount"] for row in rows_of(context.settings, context.table.name)}


def set_clock_ahead(uri: str, version: int) -> None:
    """Make a version one that a program with a clock a year ahead committed."""
    file = Path(uri, "_delta_log", f"{version:020d}.json")
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for info in (action["commitInfo"] for action in actions if "commitInfo" in action):
        info["timestamp"] += 365 * 86_400_000
    file.write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.invariant("4.10")
def test_updates_and_deletes_count_after_a_version_of_a_clock_that_was_ahead(
    spark: SparkSession, tmp_path: Path
) -> None:
    followed = FollowedTable(tmp_path / "accounts")
    followed.upsert({1: 1, 2: 1})
    set_clock_ahead(followed.uri, 1)
    context = follow(spark, tmp_path, followed.uri)
    merge_all(context)
    for number in range(101):
        followed.upsert({3: number})
    followed.upsert({1: 2})
    followed.delete("id = 2")
    merge_all(context)
    assert amounts(context) == {1: 2, 3: 100}
    replay(context)
    assert amounts(context) == {1: 2, 3: 100}


@pytest.mark.invariant("4.10")
def test_rows_of_a_table_that_was_created_again_are_newer(spark: SparkSession, tmp_path: Path) -> None:
    followed = FollowedTable(tmp_path / "accounts")
    for number in range(5):
        followed.upsert({1: number})
    context = follow(spark, tmp_path, followed.uri)
    merge_all(context)
    shutil.rmtree(followed.uri)
    new_accounts = FollowedTable(tmp_path / "accounts")
    new_accounts.upsert({1: 100})
    accept_gap(context)
    merge_all(context)
    assert amounts(context) == {1: 100}
    new_accounts.upsert({1: 101})
    merge_all(context)
    assert amounts(context) == {1: 101}
    topic = replace(context.table, source=None, topic="accounts", deletes=Deletes(when=None))
    with pytest.raises(DeclarationError, match="would seem older"):
        require_comparable(topic, context.ledger())


@pytest.mark.invariant("4.10")
def test_rows_of_a_key_in_one_version_of_another_program_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    followed = FollowedTable(tmp_path / "accounts")
    context = follow(spark, tmp_path, followed.uri)
    merge_all(context)
    rows = pa.table({"id": pa.array([1, 1, 2, 2, 3], pa.int32()), "amount": pa.array([1, 2, 1, 1, 1], pa.int32())})
    write_deltalake(followed.uri, rows, mode="append")
    followed.upsert({3: 2})
    merge_all(context)
    write_deltalake(followed.uri, rows.slice(0, 1), mode="overwrite")  # removes rows of the account, and adds one
    merge_all(context)
    assert amounts(context) == {1: 1}
    assert context.ledger().totals.equal_versions == 1, "the second row of the first account"


def log_rows(first: int, end: int, first_id: int = 0) -> pa.Table:
    """Rows of a log table, whose records are of two keys by turns, and have the same time."""
    positions = range(first, end)
    records = [
        {"source": "kafka:c/t", "partition": 0, "position": position, "time": NOON, "order_time": None}
        for position in positions
    ]
    columns = {
        "id": pa.array([first_id + position % 2 for position in positions], pa.int32()),
        "amount": pa.array(list(positions), pa.int32()),
        "_record": pa.array(records, RECORD_TYPE),
    }
    return pa.table(columns)


def rows_of_a_clock_that_goes_back() -> pa.Table:
    """Rows of another partition, of the keys 2 and 3 by turns; a time of order replaces that of all but the first."""
    table = log_rows(0, 4, first_id=2)
    rows = table.to_pylist()
    for row in rows:
        position = row["_record"]["position"]
        times = {"time": NOON - timedelta(minutes=position), "order_time": NOON if position else None}
        row["_record"] |= {"partition": 1, **times}
    return pa.Table.from_pylist(rows, table.schema)


@pytest.mark.slow
@pytest.mark.invariant("4.10")
def test_rows_of_a_log_table_keep_the_order_of_their_records_also_if_a_clock_went_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    uri = str(tmp_path / "log")
    rows = pa.concat_tables([log_rows(0, 12), rows_of_a_clock_that_goes_back()])
    write_deltalake(uri, rows, configuration={"delta.enableChangeDataFeed": "true"})
    assert DeltaTable(uri).version() == 0
    context = follow(spark, tmp_path, uri)
    merge_all(context)
    assert amounts(context) == {0: 10, 1: 11, 2: 2, 3: 3}, "as of the first version"
    write_deltalake(uri, log_rows(12, 40), mode="append")
    merge_all(context)
    assert amounts(context) == {0: 38, 1: 39, 2: 2, 3: 3}, "of the changes since"
    assert context.ledger().totals.equal_versions == 0
    replay(context)
    assert amounts(context) == {0: 38, 1: 39, 2: 2, 3: 3}
