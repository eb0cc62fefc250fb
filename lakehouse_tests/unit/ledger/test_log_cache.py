"""What was read of a log is read again as soon as anything was written there."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.errors import StoreRefusedError
from lakehouse.ledger import log_cache
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.log import open_table
from lakehouse.ledger.log_cache import _MOST, Kept
from lakehouse.storage.delta_rs_writer import append_quickly
from lakehouse.storage.layout import Layout
from lakehouse_tests.helpers.tables.plain_tables import OSLO, PARIS, made, next_commit, rows
from lakehouse_tests.helpers.waiting import wait_until

Change = Callable[[Layout, Path], None]


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test wrote a moment ago counts as written long ago."""
    monkeypatch.setattr(log_cache, "_TICK", -(10**12))


def commit(layout: Layout, _: Path) -> None:
    write_deltalake(layout.uri, rows(OSLO), mode="append")


def commit_of_ours(layout: Layout, _: Path) -> None:
    append_quickly(layout, rows(OSLO), next_commit(layout))


def bring_back(layout: Layout, copy: Path) -> None:
    """The same version, from a backup."""
    shutil.rmtree(layout.uri)
    shutil.copytree(copy, layout.uri)


def go_back(layout: Layout, _: Path) -> None:
    """The newest commit is taken away, as where a backup is copied over a table."""
    Path(layout.uri, "_delta_log", f"{1:020d}.json").unlink()


def forget(layout: Layout, _: Path) -> None:
    """As the log expires."""
    DeltaTable(layout.uri).create_checkpoint()
    Path(layout.uri, "_delta_log", f"{0:020d}.json").unlink()


def damage(layout: Layout, _: Path) -> None:
    """In place: of another file only its contents tell."""
    file = Path(layout.uri, "_delta_log", f"{0:020d}.json")
    file.write_text(file.read_text().replace("WRITE", "WROTE"))


@pytest.mark.invariant(1)
@pytest.mark.parametrize("change", [commit, commit_of_ours, bring_back, go_back, forget, damage])
def test_it_is_kept_until_something_is_written(tmp_path: Path, change: Change) -> None:
    layout = made(tmp_path, PARIS)
    append_quickly(layout, rows(OSLO), next_commit(layout))
    shutil.copytree(layout.uri, tmp_path / "copy")
    opened, ledger = open_table(layout.uri), read_ledger(layout.uri, "t")
    assert open_table(layout.uri) is opened and read_ledger(layout.uri, "t") is ledger
    change(layout, tmp_path / "copy")
    again = open_table(layout.uri)
    assert again is not opened and read_ledger(layout.uri, "t") is not ledger
    assert again is not None and again.version() == DeltaTable(layout.uri).version()
    assert read_ledger(layout.uri, "t") == read_ledger(layout.uri, "t", whole=True)


def test_a_whole_history_is_always_read(tmp_path: Path) -> None:
    layout = made(tmp_path, PARIS)
    assert read_ledger(layout.uri, "t", whole=True) is not read_ledger(layout.uri, "t", whole=True)


@contextmanager
def forbidden(folder: Path) -> Iterator[None]:
    """Nobody may look into a folder; root becomes somebody else for that."""
    root, mode = os.geteuid() == 0, folder.stat().st_mode
    folder.chmod(0)
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(mode)


def test_what_may_no_longer_be_read_is_told_as_such_though_it_was_kept(tmp_path: Path) -> None:
    layout = made(tmp_path, PARIS)
    read_ledger(layout.uri, "t")
    with forbidden(Path(layout.uri)), pytest.raises(StoreRefusedError, match="Permission denied"):
        read_ledger(layout.uri, "t")


class Reads:
    """Versions of a table, as they are read one after another, while somebody does something to it."""

    def __init__(self, *versions: int) -> None:
        self.kept, self.versions = Kept[list[int]](lambda value: value[0]), list(versions)

    def __call__(self, layout: Layout, asked: int = 0, meanwhile: Callable[[], object] = lambda: None) -> int:
        def read() -> list[int]:
            meanwhile()
            return [self.versions.pop(0), asked]

        return self.kept.read(asked, layout.uri, read)[0]


def test_what_was_read_of_a_version_that_is_not_the_newest_is_not_kept(tmp_path: Path) -> None:
    layout, read = made(tmp_path, PARIS), Reads(0, 1, 2)
    commit(layout, tmp_path)
    assert [read(layout), read(layout), read(layout)] == [0, 1, 1]


def test_what_was_read_while_another_table_took_its_place_is_not_kept(tmp_path: Path) -> None:
    layout, read = made(tmp_path, PARIS), Reads(0, 0)
    shutil.copytree(layout.uri, tmp_path / "copy")
    read(layout, meanwhile=lambda: bring_back(layout, tmp_path / "copy"))
    read(layout)
    assert not read.versions


def test_what_was_read_while_a_commit_was_written_over_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a backup that is copied over the log: that changes neither the folder nor the names in it."""
    monkeypatch.undo()
    layout, read = made(tmp_path, PARIS), Reads(0, 0)
    read(layout, meanwhile=lambda: damage(layout, tmp_path))
    read(layout)
    assert not read.versions


def test_what_was_read_in_the_moment_of_a_change_is_kept_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    layout, read = made(tmp_path, PARIS), Reads(*[0] * 1_000)
    wait_until(lambda: (len(read.versions), read(layout))[0] == len(read.versions), 10)


def test_so_much_is_kept_and_nothing_of_a_store(tmp_path: Path) -> None:
    layout, read = made(tmp_path, PARIS), Reads(*[0] * (_MOST + 4))
    for asked in (*range(_MOST + 1), _MOST, 1, 0):
        read(layout, asked)
    assert len(read.versions) == 2, "the first was read again"
    stored = replace(layout, uri="s3://bucket/t")
    read(stored)
    read(stored)
    assert not read.versions


def test_whoever_writes_changes_nothing_that_others_look_at(tmp_path: Path) -> None:
    layout = made(tmp_path, PARIS)
    opened = open_table(layout.uri)
    commit_of_ours(layout, tmp_path)
    assert opened is not None and opened.version() == 0
