"""What was read of a log is read again as soon as anything was written there."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.delta.kept import _MOST, Kept
from lakehouse.delta.layout import Layout
from lakehouse.delta.ledger import read_ledger
from lakehouse.delta.log import open_table
from lakehouse.delta.quick import append_quickly
from lakehouse_tests.helpers.plain_tables import OSLO, PARIS, made, next_commit, rows

Change = Callable[[Layout, Path], None]


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


@pytest.mark.invariant(1)
@pytest.mark.parametrize("change", [commit, commit_of_ours, bring_back, go_back, forget])
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


def test_what_was_read_of_a_version_that_is_no_longer_the_newest_is_not_kept(tmp_path: Path) -> None:
    layout, kept = made(tmp_path, PARIS), Kept[str]()
    commit(layout, tmp_path)
    assert kept.keep("asked", layout.uri, 0, "old") == "old" and kept.get("asked", layout.uri) is None


def test_so_much_is_kept(tmp_path: Path) -> None:
    layout, kept = made(tmp_path, PARIS), Kept[int]()
    for number in range(_MOST + 1):
        kept.keep(number, layout.uri, 0, number)
    assert [kept.get(number, layout.uri) for number in (0, 1, _MOST)] == [None, 1, _MOST]
    assert kept.get(1, "s3://bucket/t") is None
