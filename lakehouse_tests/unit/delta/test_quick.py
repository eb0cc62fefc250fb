"""Few rows written without Spark: once, on the version they were planned on, and only into tables that allow it."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.delta.commits import Commit
from lakehouse.delta.layout import Layout, TableColumn
from lakehouse.delta.ledger import app_id, read_ledger
from lakehouse.delta.quick import append_quickly, is_quick, is_quick_to_merge, merge_quickly
from lakehouse.errors import ConflictError, TableError

COLUMNS = {"place": "STRING", "at": "DECIMAL(9,6)", "last": "TIMESTAMP", "n": "BIGINT"}
SCHEMA = pa.schema(
    [("place", pa.string()), ("at", pa.decimal128(9, 6)), ("last", pa.timestamp("us", "UTC")), ("n", pa.int64())]
)
FAR = datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
FIRST = datetime(1, 1, 1, tzinfo=UTC)


def rows(*values: tuple[Any, ...]) -> pa.Table:
    """Rows of a table, with ``gone`` where a fifth value is told."""
    names = [*SCHEMA.names, "gone"][: max(map(len, values))]
    schema = pa.schema([*SCHEMA, ("gone", pa.bool_())][: len(names)])
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in values], schema=schema)


def made(folder: Path, *values: tuple[Any, ...], **properties: str) -> Layout:
    """A table of these rows, as version 0."""
    columns = [TableColumn(name, type_, "d") for name, type_ in COLUMNS.items()]
    layout = Layout("t", str(folder / "t"), "d", columns, statistics=("place", "at"))
    first = rows(*values) if values else SCHEMA.empty_table()
    write_deltalake(layout.uri, first, configuration=layout.statistics_properties | properties)
    return layout


def next_commit(layout: Layout) -> Commit:
    return read_ledger(layout.uri, layout.name).next_commit("derived", "cli")


def stored(layout: Layout) -> list[tuple[Any, ...]]:
    found = DeltaTable(layout.uri).to_pyarrow_table().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=str)


PARIS = ("Paris", Decimal("48.850000"), FAR, 3)
NOWHERE = (None, None, FIRST, None)
OSLO = ("Oslo", Decimal("59.910000"), None, 1)


@pytest.mark.invariant(1, 11)
def test_an_append_is_one_commit_with_the_number_and_what_it_says_of_itself(tmp_path: Path) -> None:
    layout = made(tmp_path, PARIS)
    commit = next_commit(layout)
    entry = append_quickly(layout, rows(OSLO, NOWHERE), commit)
    assert (entry.version, entry.commit, entry.metrics.inserted) == (1, commit, 2)
    assert DeltaTable(layout.uri).transaction_version(app_id("t")) == commit.number == 1
    assert stored(layout) == sorted([PARIS, OSLO, NOWHERE], key=str)


@pytest.mark.invariant(10)
def test_a_merge_deletes_updates_and_inserts_what_differs_and_copies_the_rest_as_it_is(tmp_path: Path) -> None:
    layout = made(tmp_path, PARIS, NOWHERE, OSLO, ("Rome", Decimal(0), FAR, 4))
    now = rows((*NOWHERE[:3], 7, False), (*OSLO, True), (*PARIS, False), ("Bern", None, FAR, 0, False))
    entry = merge_quickly(layout, now, ["place", "at"], "gone", next_commit(layout))
    counted = entry.metrics
    assert (counted.source_rows, counted.inserted, counted.updated, counted.deleted) == (4, 1, 1, 1)
    there = [PARIS, (*NOWHERE[:3], 7), ("Bern", None, FAR, 0), ("Rome", Decimal("0.000000"), FAR, 4)]
    assert stored(layout) == sorted(there, key=str)


@pytest.mark.invariant(10)
@pytest.mark.parametrize("row", [(*NOWHERE, True), (*PARIS, False)])
def test_a_merge_that_changes_nothing_is_a_commit_without_a_file(tmp_path: Path, row: tuple[Any, ...]) -> None:
    """What was consumed has to be told all the same."""
    layout = made(tmp_path, PARIS)
    before = DeltaTable(layout.uri).file_uris()
    entry = merge_quickly(layout, rows(row), ["place", "at"], "gone", next_commit(layout))
    assert (entry.version, entry.metrics.inserted, entry.metrics.updated, entry.metrics.deleted) == (1, 0, 0, 0)
    assert DeltaTable(layout.uri).file_uris() == before and stored(layout) == [PARIS]


@pytest.mark.invariant(10)
def test_an_append_of_nothing_is_a_commit_without_a_file(tmp_path: Path) -> None:
    layout = made(tmp_path, PARIS)
    before = DeltaTable(layout.uri).file_uris()
    assert append_quickly(layout, SCHEMA.empty_table(), next_commit(layout)).version == 1
    assert DeltaTable(layout.uri).file_uris() == before


@pytest.mark.invariant(10)
def test_a_merge_rewrites_no_file_in_which_nothing_changes(tmp_path: Path) -> None:
    layout = made(tmp_path, PARIS)
    append_quickly(layout, rows(OSLO), next_commit(layout))
    (kept,) = (f for f in DeltaTable(layout.uri).file_uris() if pq.read_table(f)["place"].to_pylist() == ["Paris"])
    merge_quickly(layout, rows((*PARIS, False), (*OSLO[:3], 2, False)), ["place", "at"], "gone", next_commit(layout))
    assert kept in DeltaTable(layout.uri).file_uris()
    assert stored(layout) == sorted([PARIS, (*OSLO[:3], 2)], key=str)


def test_every_tenth_version_is_a_checkpoint(tmp_path: Path) -> None:
    """Else whoever opens the table reads a hundred commits one by one."""
    layout = made(tmp_path, PARIS)
    for _ in range(11):
        append_quickly(layout, rows(OSLO), next_commit(layout))
    log = Path(layout.uri, "_delta_log")
    assert [file.name for file in log.glob("*.checkpoint.parquet")] == [f"{10:020d}.checkpoint.parquet"]
    assert DeltaTable(layout.uri).transaction_version(app_id("t")) == 11 and len(stored(layout)) == 12


@pytest.mark.invariant(11)
def test_what_was_planned_on_another_version_is_not_written(tmp_path: Path) -> None:
    """Also where that is a RESTORE, with which an append by Spark does not conflict."""
    layout = made(tmp_path, PARIS)
    planned = next_commit(layout)
    append_quickly(layout, rows(OSLO), next_commit(layout))
    DeltaTable(layout.uri).restore(0)
    with pytest.raises(ConflictError):
        append_quickly(layout, rows(OSLO), planned)
    with pytest.raises(ConflictError):
        merge_quickly(layout, rows((*OSLO, False)), ["place", "at"], "gone", planned)
    assert stored(layout) == [PARIS]


@pytest.mark.invariant(11)
def test_what_another_writer_commits_in_the_same_moment_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = made(tmp_path, PARIS)
    planned = next_commit(layout)
    opened = DeltaTable(layout.uri)
    monkeypatch.setattr("lakehouse.delta.quick.open_table", lambda _: opened)
    write_deltalake(layout.uri, rows(OSLO), mode="append")
    with pytest.raises(ConflictError):
        append_quickly(layout, rows(NOWHERE), planned)
    with pytest.raises(ConflictError):
        merge_quickly(layout, rows((*NOWHERE, False)), ["place", "at"], "gone", planned)
    assert stored(layout) == sorted([PARIS, OSLO], key=str)


def test_a_disk_that_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = made(tmp_path, PARIS)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lakehouse.delta.quick.write_deltalake", full)
    with pytest.raises(TableError, match="No space left"):
        append_quickly(layout, rows(OSLO), next_commit(layout))


def test_it_is_quick_where_the_rows_are_few_and_the_table_is_on_a_local_disk(tmp_path: Path) -> None:
    layout = made(tmp_path, PARIS)
    assert is_quick(layout, 50_000) and is_quick_to_merge(layout, 50_000)
    assert not is_quick(layout, 50_001) and not is_quick(layout, None)
    assert not is_quick(replace(layout, uri="s3://bucket/t"), 1)
    assert not is_quick(replace(layout, uri=str(tmp_path / "none")), 1)


@pytest.mark.parametrize("type_", ["DOUBLE", "DECIMAL(16,2)", "DECIMAL(38, 0)", "STRUCT<a: INT>"])
def test_it_is_not_where_deltalake_would_write_other_bounds(tmp_path: Path, type_: str) -> None:
    layout = made(tmp_path, PARIS)
    columns = [TableColumn("place", type_, "d"), *layout.columns[1:]]
    assert not is_quick(replace(layout, columns=columns), 1)


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.dataSkippingStatsColumns": "n"},
        {"delta.appendOnly": "true"},
        {"delta.minWriterVersion": "4"},
        {"delta.enableDeletionVectors": "true"},
    ],
)
def test_it_is_not_where_somebody_gave_the_table_other_properties(tmp_path: Path, properties: dict[str, str]) -> None:
    assert not is_quick(made(tmp_path, PARIS, **properties), 1)


def test_it_is_not_where_the_table_has_other_columns(tmp_path: Path) -> None:
    layout = made(tmp_path, PARIS)
    assert not is_quick(replace(layout, columns=[*layout.columns, TableColumn("more", "INT", "d")]), 1)
    assert not is_quick(replace(layout, columns=layout.columns[::-1]), 1)


def test_a_merge_is_not_where_a_file_holds_times_as_nanoseconds(tmp_path: Path) -> None:
    layout = made(tmp_path, PARIS)
    (file,) = Path(layout.uri).glob("*.parquet")
    pq.write_table(rows(PARIS), file, use_deprecated_int96_timestamps=True)
    assert is_quick(layout, 1) and not is_quick_to_merge(layout, 1)
    file.unlink()
    assert not is_quick_to_merge(layout, 1), "Spark says what is wrong with it"
