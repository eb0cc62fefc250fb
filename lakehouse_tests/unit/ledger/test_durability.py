"""A commit is synced before it is reported, and only once."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import write_deltalake

from lakehouse.errors import TableError
from lakehouse.ledger.durability import require_undamaged, sync_commits
from lakehouse.storage.delta_rs_writer import append_quickly
from lakehouse.storage.layout import Layout
from lakehouse_tests.helpers.tables.plain_tables import OSLO, PARIS, create_table, next_commit, rows
from lakehouse_tests.helpers.tables.synced_tables import entry, newest_file, synced_table

STRACE = shutil.which("strace")
APPEND = """
import sys
from pathlib import Path
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.delta_rs_writer import append_quickly, upsert_quickly
from lakehouse_tests.helpers.tables.plain_tables import COLUMNS, OSLO, next_commit, rows
columns = [TableColumn(name, type_, "d") for name, type_ in COLUMNS.items()]
layout = Layout("t", sys.argv[1], "d", columns, "at", statistics=("place",), sync=sys.argv[2] == "synced")
append_quickly(layout, rows(OSLO), next_commit(layout))
print("reported", flush=True)
"""


def partitioned_table(folder: Path) -> Layout:
    """Return a table with partitions, at version 0."""
    layout = create_table(folder, PARIS)
    shutil.rmtree(layout.uri)
    write_deltalake(layout.uri, rows(PARIS), partition_by=["at"], configuration=layout.statistics_properties)
    return replace(layout, partition_by="at")


def trace_append(layout: Layout, mode: str, output: Path) -> list[str]:
    """Return the system calls of a process that appends a row, in order, by the names of files in the table."""
    command = [STRACE or "", "-f", "-y", "-o", str(output), "-e", "trace=fsync,link,linkat,rename,write"]
    subprocess.run([*command, sys.executable, "-c", APPEND, layout.uri, mode], check=True, capture_output=True)
    folder = re.escape(layout.uri)
    pattern = rf'(fsync\(\d+<{folder}[^>]*>|link(?:at)?\([^\n]*\.json"|write\(1[^\n]*"reported)'
    calls = re.findall(pattern, output.read_text())
    return [re.sub(rf"fsync\(\d+<{folder}/?([^>]*)>", r"\1", call) for call in calls]


@pytest.mark.invariant("11.8")
@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
def test_files_then_their_folders_then_the_entry_are_synced_before_a_commit_is_reported(tmp_path: Path) -> None:
    layout = partitioned_table(tmp_path)
    append_quickly(layout, rows(PARIS), next_commit(layout))
    calls = trace_append(layout, "synced", tmp_path / "trace")
    file = str(newest_file(layout).relative_to(layout.uri))
    log = f"_delta_log/{2:020d}.json"
    linked, *synced, report_call = [call for call in calls if not call.startswith("_delta_log/.")]
    assert linked.startswith("link") and report_call.startswith("write"), "the commit is made first and reported last"
    assert set(synced) == {file, str(Path(file).parent), "", log, "_delta_log"} and len(synced) == 5
    assert {*synced[:3]} == {file, str(Path(file).parent), ""}, "the entry is synced after the files that it names"


@pytest.mark.invariant("11.10")
@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
def test_nothing_is_synced_if_sync_is_off(tmp_path: Path) -> None:
    layout = partitioned_table(tmp_path)
    assert [call.split("(")[0] for call in trace_append(layout, "off", tmp_path / "trace")] == ["linkat", "write"]


@pytest.mark.invariant("11.9")
def test_synced_commits_are_not_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = synced_table(tmp_path)
    files_read: list[Path] = []
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda file: files_read.append(file) or read_bytes(file))
    monkeypatch.setattr("os.fsync", lambda _: pytest.fail("already synced"))
    for _ in range(2):
        require_undamaged(layout.uri)
        sync_commits(layout.uri)
    assert {file.name for file in files_read} == {"t.synced"}


@pytest.mark.invariant("11.8")
def test_a_foreign_commit_is_synced_with_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = synced_table(tmp_path)
    write_deltalake(layout.uri, rows(OSLO), mode="append")
    foreign_file, synced_names, fsync = newest_file(layout), set[str](), os.fsync

    def record_sync(descriptor: int) -> None:
        synced_names.add(Path(f"/proc/self/fd/{descriptor}").readlink().name if sys.platform == "linux" else "")
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", record_sync)
    append_quickly(layout, rows(OSLO), next_commit(layout))
    if sys.platform == "linux":
        entries = {entry(layout, 2).name, entry(layout, 3).name}
        assert {foreign_file.name, newest_file(layout).name, *entries} <= synced_names


@pytest.mark.invariant("11.8")
def test_a_failed_sync_fails_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = synced_table(tmp_path)

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(TableError, match="No space left"):
        append_quickly(layout, rows(OSLO), next_commit(layout))


def test_a_table_in_an_object_store_is_not_checked() -> None:
    require_undamaged("s3://bucket/t")
    sync_commits("s3://bucket/t")
