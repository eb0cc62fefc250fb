"""Files in a real object store as the source of a table: as exact as files on a disk, also if the store fails."""

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Files, RecordHeader, StreamTable
from lakehouse.errors import DataLossError, SourceError, SourceUnreachableError
from lakehouse.ingest import merge
from lakehouse.ingest.batches import merge_all
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.replay import replay
from lakehouse.ledger.audit import audit
from lakehouse.operations.status import status
from lakehouse.settings import Settings
from lakehouse.sources.files.source import newest_records
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import accept_gap
from lakehouse_tests.helpers.tables.seaweed import SeaweedStore, running_store

SOURCE = Files("sales", settle=timedelta(0))


@pytest.fixture(scope="module")
def seaweed() -> Iterator[SeaweedStore]:
    with running_store() as store:
        yield store


@dataclass
class Shelf:
    """A folder in a store, and the table that reads it."""

    store: SeaweedStore
    context: TableContext

    @property
    def table(self) -> StreamTable:
        return self.context.table

    def use(self, **parts: Any) -> None:
        """Change the declaration."""
        self.context = replace(self.context, table=replace(self.table, **parts))

    def put(self, name: str, content: bytes) -> None:
        self.store.put(f"{Path(self.context.settings.files_root).name}/sales/{name}", content)

    def remove(self, name: str) -> None:
        self.store.remove(f"{Path(self.context.settings.files_root).name}/sales/{name}")

    def merge(self) -> list[Outcome]:
        return merge_all(self.context)

    def rows(self) -> list[tuple[object, ...]]:
        frame = self.context.merged.rows().select(*(column.name for column in self.table.columns))
        return sorted(tuple(row) for row in frame.collect())

    def assert_accounted(self) -> None:
        assert all(finding.passed for finding in audit(self.context.ledger()))


@pytest.fixture
def shelf(spark: SparkSession, seaweed: SeaweedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    for name in [name for name in os.environ if name.startswith("AWS_")]:  # workers have the environment of the JVM
        monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])
    settings = Settings(home=tmp_path, files=f"s3a://bucket/{tmp_path.name}")
    columns = [Column("id", "BIGINT", "Number.", required=True), Column("name", "STRING", "Name.")]
    table = StreamTable("sales", doc="Sales.", columns=columns, key=["id"], source=SOURCE)
    return Shelf(seaweed, TableContext(spark, settings, table))


def lines(*pairs: tuple[object, str]) -> bytes:
    return b"".join(json.dumps({"id": id_, "name": name}).encode() + b"\n" for id_, name in pairs)


def test_lines_in_a_store_become_rows_and_a_second_run_and_a_replay_change_nothing(shelf: Shelf) -> None:
    shelf.put("2026/a b+ä%20.jsonl", lines((1, "a"), (2, "b"), ("x", "c")))
    shelf.put("b.jsonl.gz", gzip.compress(lines((2, "d"))))
    shelf.put("_unfinished.jsonl", lines((9, "e")))
    assert status(shelf.context.settings, shelf.table).lag == 2
    assert len(newest_records(shelf.context.settings, SOURCE, 9)) == 4
    start, outcome = shelf.merge()
    assert (start.entry.commit.kind, outcome.entry.commit.read, outcome.entry.commit.rejected) == ("start", 4, 1)
    assert shelf.rows() == [(1, "a"), (2, "d")]
    assert (shelf.merge(), status(shelf.context.settings, shelf.table).lag) == ([], 0)
    (replayed,) = replay(shelf.context)
    assert (replayed.entry.commit.read, replayed.entry.metrics.inserted, replayed.entry.metrics.updated) == (4, 0, 0)
    shelf.assert_accounted()


@pytest.mark.slow
def test_workers_write_the_rows_of_files_in_a_store(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "MANY_BYTES", 0)
    path = Column("path", "STRING", "Path.", source=RecordHeader("file"))
    shelf.use(key=[], columns=[*shelf.table.columns, path], source=replace(SOURCE, each="row"))
    body = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, None], "name": ["a", "b"]}), body)
    shelf.put("a.parquet", body.getvalue().to_pybytes())
    _, outcome = shelf.merge()
    assert (outcome.entry.commit.read, outcome.entry.commit.rejected) == (2, 1)
    assert shelf.rows() == [(1, "a", "a.parquet")]
    shelf.assert_accounted()


@pytest.mark.slow
def test_an_object_that_changes_is_a_new_file_and_one_that_is_removed_unread_is_a_gap(shelf: Shelf) -> None:
    shelf.use(source=replace(SOURCE, batch_bytes=1))
    shelf.put("a.jsonl", lines((1, "a")))
    shelf.merge()
    shelf.put("a.jsonl", lines((1, "a"), (2, "b")))
    shelf.put("b.jsonl", lines((3, "c")))
    with pytest.raises(DataLossError, match=r"1 file was removed before being merged: b\.jsonl"):
        merge_all(shelf.context, on_batch=lambda _: shelf.remove("b.jsonl"))
    accept_gap(shelf.context)
    shelf.merge()
    assert shelf.rows() == [(1, "a"), (2, "b")]
    shelf.assert_accounted()


@pytest.mark.slow
def test_bytes_that_change_at_once_are_not_taken_for_those_that_were_numbered(shelf: Shelf) -> None:
    """A store says times in seconds, so an object may change without a trace."""
    shelf.put("a.jsonl", lines((1, "a")))

    def replace_object(outcome: Outcome) -> None:
        if outcome.entry.commit.kind == "start":
            shelf.put("a.jsonl", lines((1, "b")))

    merge_all(shelf.context, on_batch=replace_object)
    shelf.merge()
    assert shelf.rows() == [(1, "b")]
    shelf.assert_accounted()


@pytest.mark.slow
def test_a_store_that_stops_is_named_and_nothing_is_lost(shelf: Shelf) -> None:
    shelf.put("a.jsonl", lines((1, "a")))
    shelf.merge()
    shelf.put("b.jsonl", lines((2, "b")))
    shelf.store.stop()
    try:
        with pytest.raises(SourceUnreachableError, match="Check that the store answers, and its credentials"):
            shelf.merge()
    finally:
        shelf.store.start()
    shelf.merge()
    assert shelf.rows() == [(1, "a"), (2, "b")]
    shelf.assert_accounted()


@pytest.mark.parametrize("folder", ["s3://other/sales", "s3://bucket/empty", "ftp://bucket/sales"])
def test_a_folder_that_is_not_in_a_store_is_named(shelf: Shelf, folder: str) -> None:
    shelf.use(source=replace(SOURCE, folder=folder))
    with pytest.raises(SourceError, match=folder):
        shelf.merge()
