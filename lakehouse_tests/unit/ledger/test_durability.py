"""A commit is on the disk before anybody hears of it, and what a power cut left of another one is not taken for it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.errors import TableDamagedError, TableError
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.durability import require_whole, sync_commits
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.log import open_anew
from lakehouse.ledger.log_entries import is_cut
from lakehouse.storage.delta_rs_writer import append_quickly, merge_quickly
from lakehouse.storage.layout import Layout
from lakehouse.storage.spark_writer import alone, commit_otherwise
from lakehouse_tests.helpers.tables.plain_tables import NOWHERE, OSLO, PARIS, made, next_commit, rows

pytestmark = pytest.mark.invariant(1)
STRACE = shutil.which("strace")
APPEND = """
import sys
from pathlib import Path
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.delta_rs_writer import append_quickly, merge_quickly
from lakehouse_tests.helpers.tables.plain_tables import COLUMNS, OSLO, next_commit, rows
columns = [TableColumn(name, type_, "d") for name, type_ in COLUMNS.items()]
layout = Layout("t", sys.argv[1], "d", columns, "at", statistics=("place",), sync=sys.argv[2] == "synced")
append_quickly(layout, rows(OSLO), next_commit(layout))
print("reported", flush=True)
"""


def unsynced(layout: Layout, *more: tuple[object, ...]) -> Layout:
    """Commit a row as one does who is killed before it is on the disk."""
    append_quickly(replace(layout, sync=False), rows(*(more or (OSLO,))), next_commit(layout))
    return layout


def newest_file(layout: Layout) -> Path:
    """The file of rows that the newest version added."""
    table = DeltaTable(layout.uri)
    before = DeltaTable(layout.uri, version=table.version() - 1).file_uris()
    (file,) = {*table.file_uris()} - {*before}
    return Path(file)


def entry(layout: Layout, version: int) -> Path:
    return Path(layout.uri, "_delta_log", f"{version:020d}.json")


def cut(file: Path, to: int = 0) -> None:
    os.truncate(file, to)


def synced_once(folder: Path) -> Layout:
    """A table of two versions, which are on the disk."""
    layout = made(folder, PARIS)
    append_quickly(layout, rows(NOWHERE), next_commit(layout))
    return layout


def parted(folder: Path) -> Layout:
    """A table in partitions, as version 0."""
    layout = made(folder, PARIS)
    shutil.rmtree(layout.uri)
    write_deltalake(layout.uri, rows(PARIS), partition_by=["at"], configuration=layout.statistics_properties)
    return replace(layout, partition_by="at")


def traced(layout: Layout, how: str, told: Path) -> list[str]:
    """What a process that appends a row asked the system for, in order, by the names of files in the table."""
    command = [STRACE or "", "-f", "-y", "-o", str(told), "-e", "trace=fsync,link,linkat,rename,write"]
    subprocess.run([*command, sys.executable, "-c", APPEND, layout.uri, how], check=True, capture_output=True)
    folder = re.escape(layout.uri)
    calls = rf'(fsync\(\d+<{folder}[^>]*>|link(?:at)?\([^\n]*\.json"|write\(1[^\n]*"reported)'
    found = re.findall(calls, told.read_text())
    return [re.sub(rf"fsync\(\d+<{folder}/?([^>]*)>", r"\1", each) for each in found]


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
def test_files_then_their_folders_then_the_entry_are_synced_before_a_commit_is_reported(tmp_path: Path) -> None:
    layout = parted(tmp_path)
    append_quickly(layout, rows(PARIS), next_commit(layout))
    asked = traced(layout, "synced", tmp_path / "told")
    file = str(newest_file(layout).relative_to(layout.uri))
    log = f"_delta_log/{2:020d}.json"
    linked, *synced, reported = [each for each in asked if not each.startswith("_delta_log/.")]
    assert linked.startswith("link") and reported.startswith("write"), "the commit was made first, and reported last"
    assert set(synced) == {file, str(Path(file).parent), "", log, "_delta_log"} and len(synced) == 5
    assert {*synced[:3]} == {file, str(Path(file).parent), ""}, "the entry that names them comes after them"


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
def test_nothing_is_synced_where_that_is_turned_off(tmp_path: Path) -> None:
    layout = parted(tmp_path)
    assert [each.split("(")[0] for each in traced(layout, "off", tmp_path / "told")] == ["linkat", "write"]


def test_what_is_on_the_disk_is_not_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = synced_once(tmp_path)
    read: list[Path] = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda file: read.append(file) or real(file))
    monkeypatch.setattr("os.fsync", lambda _: pytest.fail("it was synced already"))
    for _ in range(2):
        require_whole(layout.uri)
        sync_commits(layout.uri)
    assert {file.name for file in read} == {"t.synced"}


TORN: dict[str, tuple[Callable[[Layout], object], str]] = {
    "a file of no bytes": (lambda layout: cut(newest_file(layout)), "a file of its rows has 0 of"),
    "a file that lacks its end": (lambda layout: cut(newest_file(layout), 100), "a file of its rows has 100 of"),
    "a file of zeros": (
        lambda layout: newest_file(layout).write_bytes(bytes(newest_file(layout).stat().st_size)),
        "does not end as one",
    ),
    "a file that is missing": (lambda layout: newest_file(layout).unlink(), "a file of its rows is missing"),
}


@pytest.mark.parametrize(("tear", "fact"), TORN.values(), ids=TORN)
def test_a_commit_whose_files_were_cut_off_is_named_with_the_version_before(
    tmp_path: Path, tear: Callable[[Layout], object], fact: str
) -> None:
    layout = unsynced(synced_once(tmp_path))
    require_whole(layout.uri)
    file = newest_file(layout)
    tear(layout)
    with pytest.raises(TableDamagedError, match=rf"Version 2 of t was cut off.*{fact}") as told:
        require_whole(layout.uri)
    assert "TO VERSION AS OF 1" in str(told.value) and str(file) in str(told.value)
    DeltaTable(layout.uri).restore(1)
    require_whole(layout.uri)


def test_the_first_of_several_is_named(tmp_path: Path) -> None:
    layout = unsynced(unsynced(synced_once(tmp_path)))
    torn = newest_file(layout)
    unsynced(layout)
    cut(newest_file(layout))
    cut(torn)
    with pytest.raises(TableDamagedError, match="Version 3 of t"):
        require_whole(layout.uri)


LOGS: dict[str, Callable[[Path], object]] = {
    "is empty": cut,
    "is cut off": lambda file: cut(file, file.stat().st_size - 20),
    "is of zeros": lambda file: file.write_bytes(bytes(100)),
}


@pytest.mark.parametrize("tear", LOGS.values(), ids=LOGS)
def test_an_entry_that_was_cut_off_is_told_by_whoever_opens_the_table(
    tmp_path: Path, tear: Callable[[Path], object]
) -> None:
    layout = unsynced(synced_once(tmp_path))
    tear(entry(layout, 2))
    for look in (require_whole, open_anew):
        with pytest.raises(TableDamagedError, match=r"Version 2 of t was cut off.*versions after 1, "):
            look(layout.uri)
    entry(layout, 2).unlink()
    require_whole(layout.uri)
    assert DeltaTable(layout.uri).version() == 1


def test_an_entry_that_was_cut_at_the_end_of_a_line_is_told(tmp_path: Path) -> None:
    layout = unsynced(synced_once(tmp_path))
    lines = entry(layout, 2).read_bytes().splitlines(keepends=True)
    assert [next(iter(json.loads(line))) for line in lines] == ["commitInfo", "add", "txn"]
    entry(layout, 2).write_bytes(lines[0])
    with pytest.raises(TableDamagedError, match=r"Version 2 of t was cut off.*lacks a part.*versions after 1, "):
        require_whole(layout.uri)


@pytest.mark.parametrize("left", range(1, 4))
def test_a_merge_that_lacks_any_of_its_files_is_told(tmp_path: Path, left: int) -> None:
    layout = synced_once(tmp_path)
    changed = rows((*PARIS[:3], 9, False), (*OSLO, False))
    merge_quickly(replace(layout, sync=False), changed, ["place"], "gone", next_commit(layout))
    require_whole(layout.uri)
    lines = entry(layout, 2).read_bytes().splitlines(keepends=True)
    assert [next(iter(json.loads(line))) for line in lines] == ["commitInfo", "add", "remove", "txn"]
    entry(layout, 2).write_bytes(b"".join(lines[:left]))
    with pytest.raises(TableDamagedError, match="Version 2 of t was cut off") if left < 3 else nullcontext():
        require_whole(layout.uri)


def entry_of_spark(kind: str, counted: dict[str, str], *others: dict[str, object]) -> list[dict[str, object]]:
    said = Commit(kind="batch", number=1, attempt="a", table_version=0).model_dump_json()
    return [{"commitInfo": {"operation": kind, "operationMetrics": counted, "userMetadata": said}}, *others]


ADD: dict[str, object] = {"add": {"path": "a", "size": 1, "stats": '{"numRecords":3}'}}
REMOVE: dict[str, object] = {"remove": {"path": "b"}}
MERGED = {"numTargetFilesAdded": "1", "numTargetFilesRemoved": "1", "numTargetChangeFilesAdded": "0"}
APPENDED = {"numFiles": "2", "numOutputRows": "6"}


@pytest.mark.parametrize(
    ("actions", "few"),
    [
        (entry_of_spark("MERGE", MERGED, ADD, REMOVE), False),
        (entry_of_spark("MERGE", MERGED, ADD), True),
        (entry_of_spark("MERGE", MERGED | {"numTargetChangeFilesAdded": "1"}, ADD, REMOVE), True),
        (entry_of_spark("MERGE", MERGED | {"numTargetFilesRemoved": "0"}, ADD, REMOVE), False),
        (entry_of_spark("WRITE", APPENDED, ADD, ADD), False),
        (entry_of_spark("WRITE", APPENDED, ADD), True),
        (entry_of_spark("WRITE", APPENDED, ADD, {"add": {"path": "a", "size": 1}}), False),
        (entry_of_spark("WRITE", {"numFiles": "1", "numOutputRows": "0"}), False),
        ([{"commitInfo": {"operation": "MERGE", "operationMetrics": MERGED}}], False),
    ],
)
def test_an_entry_of_spark_is_compared_with_its_counts(actions: list[dict[str, object]], few: bool) -> None:
    assert is_cut(actions) == few


def test_a_commit_by_whatever_way_stops_at_what_a_power_cut_left(tmp_path: Path) -> None:
    layout = unsynced(synced_once(tmp_path))
    marker = tmp_path / ".locks" / "t.synced"
    before = marker.read_bytes()
    cut(newest_file(layout))
    with pytest.raises(TableDamagedError, match="Version 2 of t was cut off"):
        commit_otherwise(layout, next_commit(layout), lambda: pytest.fail("nothing is written"))
    with pytest.raises(TableDamagedError, match="Version 2 of t was cut off"), alone(layout):
        pytest.fail("nothing is written")
    assert marker.read_bytes() == before and read_ledger(layout.uri, "t").version == 2


def test_one_amid_others_of_which_nobody_knows_whether_they_were_synced_is_damage(tmp_path: Path) -> None:
    layout = unsynced(unsynced(synced_once(tmp_path)))
    cut(entry(layout, 2))
    (tmp_path / ".locks" / "t.synced").unlink()
    require_whole(layout.uri)
    with pytest.raises(TableDamagedError, match="Bring it back from a backup"):
        read_ledger(layout.uri, "t", whole=True)


def test_an_entry_that_is_missing_before_another_is_told(tmp_path: Path) -> None:
    layout = unsynced(unsynced(synced_once(tmp_path)))
    entry(layout, 2).unlink()
    with pytest.raises(TableDamagedError, match="Version 2 of t was cut off"):
        require_whole(layout.uri)


def test_a_checkpoint_that_was_cut_off_is_to_be_deleted(tmp_path: Path) -> None:
    layout = unsynced(synced_once(tmp_path))
    DeltaTable(layout.uri).create_checkpoint()
    checkpoint = entry(layout, 2).with_suffix(".checkpoint.parquet")
    cut(checkpoint)
    for look in (require_whole, open_anew):
        with pytest.raises(TableDamagedError, match=r"its checkpoint is cut off.*Delete that, and _last_checkpoint"):
            look(layout.uri)
    for each in (checkpoint, checkpoint.with_name("_last_checkpoint")):
        each.unlink()
    require_whole(layout.uri)
    assert DeltaTable(layout.uri).version() == 2


@pytest.mark.parametrize("marker", ["lost", "empty", "of another log", "of a table made anew"])
def test_a_marker_that_tells_nothing_has_more_compared(tmp_path: Path, marker: str) -> None:
    layout = unsynced(synced_once(tmp_path))
    there = tmp_path / ".locks" / "t.synced"
    assert there.exists()
    if marker == "lost":
        there.unlink()
    elif marker == "empty":
        there.write_bytes(b"")
    elif marker == "of another log":
        shutil.copytree(layout.uri, tmp_path / "copy")
        shutil.rmtree(layout.uri)
        (tmp_path / "copy").rename(layout.uri)
    else:
        there.write_text('{"version": 7, "entry": [1, 2, 3]}')
    require_whole(layout.uri)
    cut(newest_file(layout))
    with pytest.raises(TableDamagedError, match="Version 2"):
        require_whole(layout.uri)


def test_files_that_are_no_longer_needed_are_not_missed(tmp_path: Path) -> None:
    layout = unsynced(synced_once(tmp_path))
    merge_quickly(replace(layout, sync=False), rows((*OSLO[:3], 9, False)), ["place"], "gone", next_commit(layout))
    for file in {*DeltaTable(layout.uri, version=2).file_uris()} - {*DeltaTable(layout.uri).file_uris()}:
        Path(file).unlink()
    require_whole(layout.uri)
    append_quickly(layout, rows(OSLO), next_commit(layout))
    require_whole(layout.uri)


def test_what_somebody_else_committed_is_synced_with_the_next_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = synced_once(tmp_path)
    write_deltalake(layout.uri, rows(OSLO), mode="append")
    theirs, synced, real = newest_file(layout), set[str](), os.fsync

    def noted(opened: int) -> None:
        synced.add(Path(f"/proc/self/fd/{opened}").readlink().name if sys.platform == "linux" else "")
        real(opened)

    monkeypatch.setattr("os.fsync", noted)
    append_quickly(layout, rows(OSLO), next_commit(layout))
    if sys.platform == "linux":
        assert {theirs.name, newest_file(layout).name, entry(layout, 2).name, entry(layout, 3).name} <= synced


def test_a_disk_that_refuses_to_sync_fails_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = synced_once(tmp_path)

    def refused(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refused)
    with pytest.raises(TableError, match="No space left"):
        append_quickly(layout, rows(OSLO), next_commit(layout))


def test_files_that_lie_elsewhere_are_found_where_they_are(tmp_path: Path) -> None:
    """As those of a clone, whose log names them by their whole paths; some are in a store."""
    layout = unsynced(synced_once(tmp_path))
    file, log = newest_file(layout), entry(layout, 2)
    told = log.read_text()
    file.rename(tmp_path / "else where.parquet")
    for path in ("s3://bucket/file.parquet", f"file://{tmp_path}/else%20where.parquet"):
        log.write_text("\n" + told.replace(file.name, path))
        require_whole(layout.uri)
    cut(tmp_path / "else where.parquet")
    with pytest.raises(TableDamagedError, match=r"Version 2.*else where\.parquet"):
        require_whole(layout.uri)


def test_a_table_in_a_store_is_left_to_the_store() -> None:
    require_whole("s3://bucket/t")
    sync_commits("s3://bucket/t")
