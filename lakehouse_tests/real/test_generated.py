"""Generated records as the source of a table, as in a query of Structured Streaming that merges the source ``rate``."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import BrokerTime, Column, Generated, StreamTable
from lakehouse.declaration.sources import Choice, Counter, Hash
from lakehouse.errors import DataLossError
from lakehouse.ingest.batches import Request, merge_all
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.ledger.audit import audit
from lakehouse.operations.status import status
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import accept_gap

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
SOURCE = Generated(
    rate=100,
    partitions=7,
    fields={"md5": Hash(), "value": Counter(), "hash": Counter(modulo=1_000), "shop": Choice(["a", "b", 3])},
    since=SINCE,
    count=10_000,
)
TABLE = StreamTable(
    name="hashes",
    doc="The newest value of each hash.",
    source=SOURCE,
    key=["hash"],
    version="value",
    columns=[
        Column("hash", "BIGINT", "Hash.", required=True),
        Column("value", "BIGINT", "Number of the record.", required=True),
        Column("md5", "STRING", "Text."),
        Column("shop", "STRING", "Shop."),
        Column("made_at", "TIMESTAMP", "Time of the record.", source=BrokerTime()),
    ],
)


def context_of(spark: SparkSession, folder: Path, table: StreamTable = TABLE) -> TableContext:
    return TableContext(spark, Settings(home=folder / "home"), table)


def merge(context: TableContext, max_records: int | None = None) -> list[Outcome]:
    outcomes = merge_all(context, Request(max_records))
    assert all(finding.passed for finding in audit(context.ledger()))
    return outcomes


@pytest.mark.invariant("3.6")
def test_each_key_has_its_newest_value_and_a_replay_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    context = context_of(spark, tmp_path)
    start, *batches = merge(context, max_records=6_000)
    assert (start.entry.commit.kind, [batch.entry.commit.read for batch in batches]) == ("start", [6_000, 4_000])
    rejected = sum(batch.entry.commit.rejected for batch in batches)
    assert 3_000 < rejected < 3_700  # every third shop is a number
    rows = {row["hash"]: row for row in context.merged.rows().collect()}
    assert all(row["value"] % 1_000 == key for key, row in rows.items())
    starts = {row["made_at"] - timedelta(milliseconds=row["value"] * 10) for row in rows.values()}
    assert {start.replace(tzinfo=UTC) for start in starts} == {SINCE}
    assert sum(row["value"] >= 9_000 for row in rows.values()) == pytest.approx(667, abs=60)
    assert (merge(context), status(context.settings, context.table).lag) == ([], 0)
    replayed = replay(context)
    assert sum(outcome.entry.commit.read for outcome in replayed) == 10_000
    assert {(o.entry.metrics.inserted, o.entry.metrics.updated) for o in replayed} == {(0, 0)}
    assert {row["hash"]: row for row in context.merged.rows().collect()} == rows


@pytest.mark.slow
def test_rejected_records_are_redriven(spark: SparkSession, tmp_path: Path) -> None:
    context = context_of(spark, tmp_path)
    merge(context)
    columns = [replace(column, written="json") if column.name == "shop" else column for column in TABLE.record_columns]
    corrected = replace(context, table=replace(TABLE, columns=columns))
    redrive(corrected)
    values = [row["value"] for row in corrected.merged.rows().select("value").collect()]
    assert sorted(values) == list(range(9_000, 10_000))


@pytest.mark.slow
def test_the_same_generator_in_another_table_gives_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    contexts = [context_of(spark, tmp_path / name) for name in ("a", "b")]
    rows = []
    for context, max_records in zip(contexts, (10_000, 1_500), strict=True):
        merge(context, max_records)
        rows.append(sorted(context.merged.rows().select("hash", "value", "md5", "made_at").collect()))
    assert rows[0] == rows[1]


@pytest.mark.slow
def test_another_generator_stops_until_it_is_accepted(spark: SparkSession, tmp_path: Path) -> None:
    context = context_of(spark, tmp_path)
    merge(context)
    changed = replace(context, table=replace(TABLE, source=replace(SOURCE, seed=1, count=500)))
    with pytest.raises(DataLossError, match="Another generator was merged"):
        merge_all(changed)
    accept_gap(changed)
    (outcome,) = merge(changed)
    assert outcome.entry.commit.read == 500


@pytest.mark.slow
def test_a_table_that_was_dropped_is_filled_again(spark: SparkSession, tmp_path: Path) -> None:
    context = context_of(spark, tmp_path)
    merge(context)
    rows = sorted(context.merged.rows().select("hash", "value", "md5").collect())
    shutil.rmtree(context.merged.layout.uri)
    start, batch = merge(context)
    assert (start.entry.commit.kind, batch.entry.commit.read) == ("start", 10_000)
    assert sorted(context.merged.rows().select("hash", "value", "md5").collect()) == rows
