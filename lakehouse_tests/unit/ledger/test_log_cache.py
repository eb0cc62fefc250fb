"""A cached log is read again as soon as the log changes."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.errors import StoreRefusedError
from lakehouse.ledger import log_files
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.log import open_table
from lakehouse.ledger.log_files import _MAX_VALUES, LogCache
from lakehouse.storage.delta_rs_writer import append_quickly
from lakehouse.storage.layout import Layout
from lakehouse_tests.helpers.tables.plain_tables import OSLO, PARIS, create_table, next_commit, rows
from lakehouse_tests.helpers.waiting import wait_until

Change = Callable[[Layout, Path], None]


@pytest.fixture(autouse=True)
def no_clock_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a test has just written count as old."""
    monkeypatch.setattr(log_files, "_CLOCK_TICK", -(10**12))


def commit(layout: Layout, _: Path) -> None:
    write_deltalake(layout.uri, rows(OSLO), mode="append")


def commit_of_ours(layout: Layout, _: Path) -> None:
    append_quickly(layout, rows(OSLO), next_commit(layout))


def restore_backup(layout: Layout, copy: Path) -> None:
    """Restore the same version from a backup."""
    shutil.rmtree(layout.uri)
    shutil.copytree(copy, layout.uri)


def delete_newest(layout: Layout, _: Path) -> None:
    """Delete the newest commit, as if a backup is copied over a table."""
    Path(layout.uri, "_delta_log", f"{1:020d}.json").unlink()


def expire(layout: Layout, _: Path) -> None:
    """Expire a part of the log."""
    DeltaTable(layout.uri).create_checkpoint()
    Path(layout.uri, "_delta_log", f"{0:020d}.json").unlink()


def change_in_place(layout: Layout, _: Path) -> None:
    """Change the contents of a file but keep its name."""
    file = Path(layout.uri, "_delta_log", f"{0:020d}.json")
    file.write_text(file.read_text().replace("WRITE", "WROTE"))


@pytest.mark.invariant("1.19")
@pytest.mark.parametrize("change", [commit, commit_of_ours, restore_backup, delete_newest, expire, change_in_place])
def test_tables_and_ledgers_are_cached_until_the_log_changes(tmp_path: Path, change: Change) -> None:
    layout = create_table(tmp_path, PARIS)
    append_quickly(layout, rows(OSLO), next_commit(layout))
    shutil.copytree(layout.uri, tmp_path / "copy")
    opened_table, ledger = open_table(layout.uri), read_ledger(layout.uri, "t")
    assert open_table(layout.uri) is opened_table and read_ledger(layout.uri, "t") is ledger
    change(layout, tmp_path / "copy")
    opened_again = open_table(layout.uri)
    assert opened_again is not opened_table and read_ledger(layout.uri, "t") is not ledger
    assert opened_again is not None and opened_again.version() == DeltaTable(layout.uri).version()
    assert read_ledger(layout.uri, "t") == read_ledger(layout.uri, "t", whole=True)


def test_a_whole_history_is_never_cached(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    assert read_ledger(layout.uri, "t", whole=True) is not read_ledger(layout.uri, "t", whole=True)


@contextmanager
def without_access(folder: Path) -> Iterator[None]:
    """Remove all access to a folder; root becomes another user meanwhile."""
    is_root, mode = os.geteuid() == 0, folder.stat().st_mode
    folder.chmod(0)
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(mode)


def test_lost_permissions_are_reported_although_the_ledger_is_cached(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    read_ledger(layout.uri, "t")
    with without_access(Path(layout.uri)), pytest.raises(StoreRefusedError, match="Permission denied"):
        read_ledger(layout.uri, "t")


class CachedReads:
    """Returns the next of some versions for each read that is not cached; ``act_meanwhile`` runs during the read."""

    def __init__(self, *versions: int) -> None:
        self.cache, self.versions = LogCache[list[int]](lambda value: value[0]), list(versions)

    def __call__(self, layout: Layout, key: int = 0, act_meanwhile: Callable[[], object] = lambda: None) -> int:
        def read() -> list[int]:
            act_meanwhile()
            return [self.versions.pop(0), key]

        return self.cache.read(key, layout.uri, read)[0]


@pytest.mark.invariant("1.19")
def test_a_version_that_is_not_the_newest_is_not_cached(tmp_path: Path) -> None:
    layout, read = create_table(tmp_path, PARIS), CachedReads(0, 1, 2)
    commit(layout, tmp_path)
    assert [read(layout), read(layout), read(layout)] == [0, 1, 1]


@pytest.mark.invariant("1.19")
def test_a_table_that_is_replaced_during_the_read_is_not_cached(tmp_path: Path) -> None:
    layout, read = create_table(tmp_path, PARIS), CachedReads(0, 0)
    shutil.copytree(layout.uri, tmp_path / "copy")
    read(layout, act_meanwhile=lambda: restore_backup(layout, tmp_path / "copy"))
    read(layout)
    assert not read.versions


@pytest.mark.invariant("1.19")
def test_a_commit_that_is_changed_during_the_read_is_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup that is copied over the log changes neither the folder nor the names in it."""
    monkeypatch.undo()
    layout, read = create_table(tmp_path, PARIS), CachedReads(0, 0)
    read(layout, act_meanwhile=lambda: change_in_place(layout, tmp_path))
    read(layout)
    assert not read.versions


def test_a_log_is_cached_once_its_last_change_is_old_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "_CLOCK_TICK", 10**9)
    layout, read = create_table(tmp_path, PARIS), CachedReads(*[0] * 1_000)
    assert [read(layout), read(layout)] == [0, 0]
    assert len(read.versions) == 998, "its last change is too new"
    assert wait_until(lambda: (len(read.versions), read(layout))[0] == len(read.versions), 10)


def test_the_cache_is_limited(tmp_path: Path) -> None:
    layout, read = create_table(tmp_path, PARIS), CachedReads(*[0] * (_MAX_VALUES + 4))
    for key in (*range(_MAX_VALUES + 1), _MAX_VALUES, 1, 0):
        read(layout, key)
    assert len(read.versions) == 2, "the first value is read again"


def test_a_writer_does_not_change_a_table_that_is_shared(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    opened_table = open_table(layout.uri)
    commit_of_ours(layout, tmp_path)
    assert opened_table is not None and opened_table.version() == 0
