"""A commit that a power failure left incomplete is detected before anything is written."""

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse.errors import TableDamagedError, restore_advice
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.durability import is_cut, require_undamaged
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.log import open_uncached
from lakehouse.storage.delta_rs_writer import append_quickly, upsert_quickly
from lakehouse.storage.layout import Layout
from lakehouse.storage.spark_writer import commit_without_spark, write_alone
from lakehouse_tests.helpers.tables.plain_tables import OSLO, PARIS, next_commit, rows
from lakehouse_tests.helpers.tables.synced_tables import commit_unsynced, entry, newest_file, synced_table, truncate

DAMAGES: dict[str, tuple[Callable[[Layout], object], str]] = {
    "an empty file": (lambda layout: truncate(newest_file(layout)), "a data file has 0 of"),
    "a truncated file": (lambda layout: truncate(newest_file(layout), 100), "a data file has 100 of"),
    "a file of zeros": (
        lambda layout: newest_file(layout).write_bytes(bytes(newest_file(layout).stat().st_size)),
        "does not end as a Parquet file",
    ),
    "a missing file": (lambda layout: newest_file(layout).unlink(), "a data file is missing"),
}


@pytest.mark.invariant("11.9")
@pytest.mark.parametrize(("damage", "problem"), DAMAGES.values(), ids=DAMAGES)
def test_an_incomplete_commit_is_reported(tmp_path: Path, damage: Callable[[Layout], object], problem: str) -> None:
    layout = commit_unsynced(synced_table(tmp_path))
    require_undamaged(layout.uri)
    file = newest_file(layout)
    damage(layout)
    with pytest.raises(TableDamagedError, match=rf"Version 2 of t is incomplete.*{problem}") as raised:
        require_undamaged(layout.uri)
    text = str(raised.value)
    assert "copy the folder. Restore version 1, and delete that file." in text and str(file) in text
    assert text.endswith(restore_advice(layout.uri, 1))
    DeltaTable(layout.uri).restore(1)
    require_undamaged(layout.uri)


@pytest.mark.invariant("11.10")
def test_an_incomplete_commit_is_not_looked_for_if_sync_is_off(tmp_path: Path) -> None:
    layout = commit_unsynced(synced_table(tmp_path))
    truncate(newest_file(layout))
    with write_alone(replace(layout, sync=False)):
        pass
    with pytest.raises(TableDamagedError, match="Version 2 of t is incomplete"), write_alone(layout):
        pytest.fail("nothing may be written")


@pytest.mark.invariant("11.9")
def test_the_first_of_several_incomplete_commits_is_reported(tmp_path: Path) -> None:
    layout = commit_unsynced(commit_unsynced(synced_table(tmp_path)))
    first_damaged = newest_file(layout)
    commit_unsynced(layout)
    truncate(newest_file(layout))
    truncate(first_damaged)
    with pytest.raises(TableDamagedError, match="Version 3 of t"):
        require_undamaged(layout.uri)


DAMAGED_ENTRIES: dict[str, Callable[[Path], object]] = {
    "empty": truncate,
    "truncated": lambda file: truncate(file, file.stat().st_size - 20),
    "zeros": lambda file: file.write_bytes(bytes(100)),
}


@pytest.mark.invariant("11.9")
@pytest.mark.parametrize("damage", DAMAGED_ENTRIES.values(), ids=DAMAGED_ENTRIES)
def test_a_truncated_entry_is_reported_on_open(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    layout = commit_unsynced(synced_table(tmp_path))
    damage(entry(layout, 2))
    for check in (require_undamaged, open_uncached):
        with pytest.raises(TableDamagedError, match=r"Version 2 of t is incomplete.*versions after 1 "):
            check(layout.uri)
    entry(layout, 2).unlink()
    require_undamaged(layout.uri)
    assert DeltaTable(layout.uri).version() == 1


@pytest.mark.invariant("11.9")
def test_an_entry_that_is_truncated_after_a_line_is_reported(tmp_path: Path) -> None:
    layout = commit_unsynced(synced_table(tmp_path))
    lines = entry(layout, 2).read_bytes().splitlines(keepends=True)
    assert [next(iter(json.loads(line))) for line in lines] == ["commitInfo", "add", "txn"]
    entry(layout, 2).write_bytes(lines[0])
    with pytest.raises(TableDamagedError, match=r"Version 2 of t is incomplete.*names less.*versions after 1 "):
        require_undamaged(layout.uri)


@pytest.mark.invariant("11.9")
@pytest.mark.parametrize("line_count", range(1, 4))
def test_a_merge_with_missing_files_is_reported(tmp_path: Path, line_count: int) -> None:
    layout = synced_table(tmp_path)
    changed_rows = rows((*PARIS[:3], 9, False), (*OSLO, False))
    upsert_quickly(replace(layout, sync=False), changed_rows, ["place"], "gone", next_commit(layout))
    require_undamaged(layout.uri)
    lines = entry(layout, 2).read_bytes().splitlines(keepends=True)
    assert [next(iter(json.loads(line))) for line in lines] == ["commitInfo", "add", "remove", "txn"]
    entry(layout, 2).write_bytes(b"".join(lines[:line_count]))
    with pytest.raises(TableDamagedError, match="Version 2 of t is incomplete") if line_count < 3 else nullcontext():
        require_undamaged(layout.uri)


def entry_of_spark(operation: str, metrics: dict[str, str], *actions: dict[str, object]) -> list[dict[str, object]]:
    metadata = Commit(kind="batch", number=1, attempt="a", table_version=0).model_dump_json()
    info = {"operation": operation, "operationMetrics": metrics, "userMetadata": metadata}
    return [{"commitInfo": info}, *actions]


ADD: dict[str, object] = {"add": {"path": "a", "size": 1, "stats": '{"numRecords":3}'}}
REMOVE: dict[str, object] = {"remove": {"path": "b"}}
MERGED = {"numTargetFilesAdded": "1", "numTargetFilesRemoved": "1", "numTargetChangeFilesAdded": "0"}
APPEND_METRICS = {"numFiles": "2", "numOutputRows": "6"}


@pytest.mark.invariant("11.9")
@pytest.mark.parametrize(
    ("actions", "is_incomplete"),
    [
        (entry_of_spark("MERGE", MERGED, ADD, REMOVE), False),
        (entry_of_spark("MERGE", MERGED, ADD), True),
        (entry_of_spark("MERGE", MERGED | {"numTargetChangeFilesAdded": "1"}, ADD, REMOVE), True),
        (entry_of_spark("MERGE", MERGED | {"numTargetFilesRemoved": "0"}, ADD, REMOVE), False),
        (entry_of_spark("WRITE", APPEND_METRICS, ADD, ADD), False),
        (entry_of_spark("WRITE", APPEND_METRICS, ADD), True),
        (entry_of_spark("WRITE", APPEND_METRICS, ADD, {"add": {"path": "a", "size": 1}}), False),
        (entry_of_spark("WRITE", {"numFiles": "1", "numOutputRows": "0"}), False),
        ([{"commitInfo": {"operation": "MERGE", "operationMetrics": MERGED}}], False),
    ],
)
def test_an_entry_of_spark_is_compared_with_its_counts(actions: list[dict[str, object]], is_incomplete: bool) -> None:
    assert is_cut(actions) == is_incomplete


@pytest.mark.invariant("11.9")
def test_every_kind_of_commit_stops_at_an_incomplete_one(tmp_path: Path) -> None:
    layout = commit_unsynced(synced_table(tmp_path))
    marker = tmp_path / ".locks" / "t.synced"
    marker_before = marker.read_bytes()
    truncate(newest_file(layout))
    with pytest.raises(TableDamagedError, match="Version 2 of t is incomplete"):
        commit_without_spark(layout, next_commit(layout), lambda: pytest.fail("nothing may be written"))
    with pytest.raises(TableDamagedError, match="Version 2 of t is incomplete"), write_alone(layout):
        pytest.fail("nothing may be written")
    assert marker.read_bytes() == marker_before and read_ledger(layout.uri, "t").version == 2


@pytest.mark.invariant("11.9")
def test_without_a_marker_an_incomplete_entry_before_others_is_damage(tmp_path: Path) -> None:
    layout = commit_unsynced(commit_unsynced(synced_table(tmp_path)))
    truncate(entry(layout, 2))
    (tmp_path / ".locks" / "t.synced").unlink()
    require_undamaged(layout.uri)
    with pytest.raises(TableDamagedError, match="Restore the table from a backup"):
        read_ledger(layout.uri, "t", whole=True)


@pytest.mark.invariant("11.9")
def test_a_missing_entry_before_another_one_is_reported(tmp_path: Path) -> None:
    layout = commit_unsynced(commit_unsynced(synced_table(tmp_path)))
    entry(layout, 2).unlink()
    with pytest.raises(TableDamagedError, match="Version 2 of t is incomplete"):
        require_undamaged(layout.uri)


@pytest.mark.invariant("11.9")
def test_a_truncated_checkpoint_has_to_be_deleted(tmp_path: Path) -> None:
    layout = commit_unsynced(synced_table(tmp_path))
    DeltaTable(layout.uri).create_checkpoint()
    checkpoint = entry(layout, 2).with_suffix(".checkpoint.parquet")
    truncate(checkpoint)
    message = r"its checkpoint is truncated.*Delete that checkpoint, and _last_checkpoint"
    for check in (require_undamaged, open_uncached):
        with pytest.raises(TableDamagedError, match=message):
            check(layout.uri)
    for file in (checkpoint, checkpoint.with_name("_last_checkpoint")):
        file.unlink()
    require_undamaged(layout.uri)
    assert DeltaTable(layout.uri).version() == 2


@pytest.mark.invariant("11.9")
@pytest.mark.parametrize("state", ["lost", "empty", "of another log", "of a recreated table"])
def test_without_a_valid_marker_more_entries_are_compared(tmp_path: Path, state: str) -> None:
    layout = commit_unsynced(synced_table(tmp_path))
    marker = tmp_path / ".locks" / "t.synced"
    assert marker.exists()
    if state == "lost":
        marker.unlink()
    elif state == "empty":
        marker.write_bytes(b"")
    elif state == "of another log":
        shutil.copytree(layout.uri, tmp_path / "copy")
        shutil.rmtree(layout.uri)
        (tmp_path / "copy").rename(layout.uri)
    else:
        marker.write_text('{"version": 7, "entry": [1, 2, 3]}')
    require_undamaged(layout.uri)
    truncate(newest_file(layout))
    with pytest.raises(TableDamagedError, match="Version 2"):
        require_undamaged(layout.uri)


@pytest.mark.invariant("11.9")
def test_removed_files_may_be_missing(tmp_path: Path) -> None:
    layout = commit_unsynced(synced_table(tmp_path))
    upsert_quickly(replace(layout, sync=False), rows((*OSLO[:3], 9, False)), ["place"], "gone", next_commit(layout))
    for file in {*DeltaTable(layout.uri, version=2).file_uris()} - {*DeltaTable(layout.uri).file_uris()}:
        Path(file).unlink()
    require_undamaged(layout.uri)
    append_quickly(layout, rows(OSLO), next_commit(layout))
    require_undamaged(layout.uri)


@pytest.mark.invariant("11.9")
def test_files_outside_the_table_are_checked(tmp_path: Path) -> None:
    """The log of a clone names its files by absolute paths; some are in a store."""
    layout = commit_unsynced(synced_table(tmp_path))
    file, log = newest_file(layout), entry(layout, 2)
    text = log.read_text()
    file.rename(tmp_path / "else where.parquet")
    for path in ("s3://bucket/file.parquet", f"file://{tmp_path}/else%20where.parquet"):
        log.write_text("\n" + text.replace(file.name, path))
        require_undamaged(layout.uri)
    truncate(tmp_path / "else where.parquet")
    with pytest.raises(TableDamagedError, match=r"Version 2.*else where\.parquet"):
        require_undamaged(layout.uri)
