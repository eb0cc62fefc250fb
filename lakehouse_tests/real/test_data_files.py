"""Workers write the rows of new records as data files themselves: nothing else differs from what Spark writes."""

import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Computed, FieldIs, Files, Late, Month, Reject, StreamTable, Time
from lakehouse.errors import TableError
from lakehouse.ingest import batches, merge
from lakehouse.ingest.batches import merge_all
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.ingest.staging import stage_records
from lakehouse.ledger.audit import audit
from lakehouse.settings import Settings
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.attacks.deaths import dying
from lakehouse_tests.helpers.attacks.worker import Point
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.histories.upsets import mounted
from lakehouse_tests.helpers.tables.tables import column_of
from lakehouse_tests.helpers.waiting import wait_until

COLUMNS = [
    Column("id", "INT", "Number.", required=True),
    Column("count", "BIGINT", "Count."),
    Column("price", "DECIMAL(9,2)", "Price."),
    Column("amount", "DECIMAL(38,10)", "Amount."),
    Column("ratio", "DOUBLE", "Ratio."),
    Column("is_open", "BOOLEAN", "Whether it is open."),
    Column("name", "STRING", "Name."),
    Column("photo", "BINARY", "Bytes.", written="hex"),
    Column("day", "DATE", "Day.", written=Time("%Y-%m-%d")),
    Column("at", "TIMESTAMP", "Time.", written=Time("iso8601")),
]
TABLE = StreamTable(
    "things",
    doc="Things.",
    columns=COLUMNS,
    key=[],
    where=FieldIs("kind", ["thing"]),
    late=Late("at", timedelta(days=1), "accept"),
    source=Files("things", settle=timedelta(0)),
)
WHOLE = {
    "kind": "thing",
    "id": 1,
    "count": -(2**63),
    "price": -1234567.89,
    "amount": 1e-10,
    "ratio": -0.0,
    "is_open": False,
    "name": "ä" * 40,
    "photo": "00ff",
    "day": "0001-01-01",
    "at": "1500-02-28T23:59:59.999Z",
}
OTHERS = [
    {**WHOLE, "id": 2, "count": 2**63 - 1, "amount": 12345678901234567890.5, "name": "", "day": "9999-12-31"},
    {**WHOLE, "id": 3, "at": "9999-12-31T23:59:59.999Z", "ratio": 1e308, "is_open": True, "more": 1},
    {"kind": "thing", "id": 4},
    {"kind": "thing", "id": 2**31},
    {"kind": "other", "id": 5},
    {"kind": "thing", "id": 6, "more": None, "most": [1]},
]
LINES = b"\n".join([*(json.dumps(fields).encode() for fields in (WHOLE, *OTHERS)), b"{", b"", b'{"kind": 1}'])


@contextmanager
def written(by: str) -> Iterator[None]:
    """Let workers or Spark write the rows of new records."""
    with pytest.MonkeyPatch.context() as patch, by_spark(by == "Spark"):
        patch.setattr(merge, "MANY_BYTES", 0 if by == "workers" else 2**60)
        yield


@pytest.fixture
def context(spark: SparkSession, tmp_path: Path) -> TableContext:
    """The table, and a file of spoiled lines."""
    settings = Settings(home=tmp_path / "home", files=str(tmp_path / "files"))
    folder = tmp_path / "files" / "things"
    folder.mkdir(parents=True)
    (folder / "1.json").write_bytes(LINES)
    return TableContext(spark, settings, TABLE)


def rows(context: TableContext) -> list[tuple[Any, ...]]:
    """Every row by its position, without the time at which its file was numbered."""
    times = ["unix_micros(at) AS at", "_record.partition", "_record.position", "_record.sequence"]
    names = [column.name for column in COLUMNS if column.name != "at"]
    return sorted(map(tuple, context.merged.rows().selectExpr(*names, *times).collect()), key=lambda row: row[-2])


def statistics(context: TableContext) -> dict[str, Any]:
    """What the log of the table says about its only file."""
    (file,) = DeltaTable(context.merged.layout.uri).get_add_actions(flatten=True).to_struct_array().to_pylist()
    kinds = ("min.", "max.", "null_count.", "num_records")
    left_out = ("source", "_record.time")
    return {name: value for name, value in file.items() if name.startswith(kinds) and not name.endswith(left_out)}


@pytest.mark.invariant("1.1", "3.1")
def test_workers_write_the_rows_counts_and_statistics_that_spark_writes(context: TableContext) -> None:
    results = []
    for by in ("workers", "Spark"):
        named_context = replace(context, table=replace(TABLE, name=f"things_{by.lower()}"))
        with written(by):
            outcome = merge_all(named_context)[-1]
        commit, metrics = outcome.entry.commit, outcome.entry.metrics
        counts = (
            commit.read,
            commit.rejected,
            commit.filtered,
            commit.late,
            commit.rounded,
            metrics.inserted,
            outcome.unmapped_fields,
        )
        rejected = context.spark.read.format("delta").load(
            context.settings.table_uri(named_context.table.rejected_name)
        )
        reasons = sorted(map(tuple, rejected.select("position.position", "value", "reason", "detail").collect()))
        results.append((rows(named_context), counts, reasons, statistics(named_context)))
        assert all(finding.passed for finding in audit(named_context.ledger()))
    assert results[0] == results[1]
    assert results[0][1] == (9, 2, 2, 2, 0, 5, {"more": 2, "most": 1})


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each commit names that was made of files of workers, which also write few records."""
    counts = list[int]()
    add_files = StoredTable.add_files

    def count_files(table: StoredTable, files: Any, commit: Any) -> Any:
        counts.append(len(files))
        return add_files(table, files, commit)

    monkeypatch.setattr(StoredTable, "add_files", count_files)
    monkeypatch.setattr(merge, "MANY_BYTES", 0)
    return counts


def files_in(context: TableContext) -> set[str]:
    return {file.name for file in Path(context.merged.layout.uri).glob("*.parquet")}


def files_of_workers(context: TableContext) -> set[str]:
    return {name for name in files_in(context) if "-c000" not in name}


def ids(context: TableContext) -> list[int]:
    return sorted(row[0] for row in context.merged.rows().select("id").collect())


@pytest.mark.slow
@pytest.mark.invariant("1.17", "3.1")
def test_after_a_death_a_record_that_is_valid_by_now_is_stored_and_resolved_once(
    context: TableContext, commits: list[int]
) -> None:
    strict = replace(column_of(TABLE, "id"), between=(0, 3))
    with dying(Point("ingest.batches.append_records"), TABLE.name):
        merge_all(replace(context, table=replace(TABLE, columns=[strict, *COLUMNS[1:]])))
    left_files = files_in(context)
    assert left_files and not commits
    merge_all(context)
    assert commits == [], "Spark compares the records with those that were rejected"
    assert ids(context) == [1, 2, 3, 4, 6]
    rejected = context.spark.read.format("delta").load(context.settings.table_uri(TABLE.rejected_name))
    resolved = [tuple(row) for row in rejected.selectExpr("reason", "resolved_number IS NOT NULL").collect()]
    assert sorted(resolved) == [("out_of_range", False), *[("out_of_range", True)] * 2, ("truncated", False)]
    assert DeltaTable(context.merged.layout.uri).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert files_in(context).isdisjoint(left_files)


@pytest.mark.slow
@pytest.mark.invariant("3.1", "3.3")
def test_a_replay_and_a_range_that_was_undone_add_each_row_once(context: TableContext, commits: list[int]) -> None:
    merge_all(context)
    assert (commits, ids(context)) == ([1], [1, 2, 3, 4, 6])
    replay(context)
    uri = context.merged.layout.uri
    context.spark.sql(f"RESTORE TABLE delta.`{uri}` TO VERSION AS OF 1")
    assert ids(context) == []
    merge_all(context)
    redrive(context)
    assert (commits, ids(context)) == ([1], [1, 2, 3, 4, 6])
    assert all(finding.passed for finding in audit(context.ledger()))


@pytest.mark.invariant("1.17")
def test_a_batch_that_cannot_be_decoded_leaves_no_file(
    context: TableContext, commits: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Double: the second file changes after it was numbered, so the batch is planned again.

    A pipe in its place holds its worker until the other one has written a file.
    """
    second = tmp_path / "files" / "things" / "2.json"
    second.write_bytes(LINES)
    left_files = list[set[str]]()

    def change_second() -> None:
        assert wait_until(lambda: bool(files_of_workers(context)), 60)
        second.write_bytes(b'{"kind": "thing", "id": 7}')

    def stage_spoiled(*arguments: Any) -> Any:
        change = Thread(target=change_second, daemon=True)
        if not left_files:
            second.unlink()
            os.mkfifo(second)
            change.start()
        try:
            return stage_records(*arguments)
        finally:
            left_files.append(files_of_workers(context))
            if second.is_fifo():
                change.join(60)
                second.unlink()
                second.write_bytes(b'{"kind": "thing", "id": 7}')

    monkeypatch.setattr(batches, "stage_records", stage_spoiled)
    merge_all(context)
    assert len(left_files) == 2
    assert left_files[0], "a worker wrote the rows of the first file"
    assert left_files[0].isdisjoint(left_files[1])
    assert ids(context) == [1, 2, 3, 4, 6], "the next batch reads the second file as a new one"
    assert files_of_workers(context) == left_files[1]
    assert commits == [len(left_files[1])]


@pytest.mark.slow
@pytest.mark.invariant("1.17")
def test_a_disk_that_is_full_while_workers_write_changes_nothing(
    context: TableContext, commits: list[int], tmp_path: Path
) -> None:
    with mounted(tmp_path / "tables", "4m") as disk:
        small = replace(context, settings=context.settings.model_copy(update={"tables": str(disk.folder)}))
        merge_all(small)
        things = [{**WHOLE, "id": number, "name": random.Random(number).randbytes(200).hex()} for number in range(3000)]
        lines = b"\n".join(json.dumps(thing).encode() for thing in things)
        (tmp_path / "files" / "things" / "2.json").write_bytes(lines)
        disk.fill(300 * 1024)
        files = files_in(small)
        with pytest.raises(TableError, match=r"No space left on device.*Free some space and run it again"):
            merge_all(small)
        assert files_in(small) == files
        disk.clear()
        merge_all(small)
        assert ids(small) == sorted([1, 2, 3, 4, 6, *range(3000)])
        assert commits == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"key": ["id"]},
        {"columns": [*COLUMNS, Column("tags", "ARRAY<STRING>", "Tags.")]},
        {"columns": [*COLUMNS, Computed("total", "BIGINT", sql="id + 1", doc="Total.")]},
        {"rejects": [Reject("no_name", when="name = '-'")]},
        {"partition_by": Month("day")},
    ],
    ids=["key", "array", "computed", "rule", "partitions"],
)
def test_spark_writes_where_workers_might_write_other_rows(
    context: TableContext, commits: list[int], changes: dict[str, Any]
) -> None:
    other_context = replace(context, table=replace(TABLE, **changes))
    merge_all(other_context)
    assert (commits, ids(other_context)) == ([], [1, 2, 3, 4, 6])
