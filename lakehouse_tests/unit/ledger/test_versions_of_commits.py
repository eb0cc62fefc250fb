"""A commit has the version that its file is named by, whatever the commits around it say of themselves."""

import json

import pytest
from deltalake import DeltaTable

from lakehouse.errors import TableDamagedError
from lakehouse.ledger import ledger, log
from lakehouse.ledger.ledger import read_ledger
from lakehouse_tests.helpers.tables import stores
from lakehouse_tests.helpers.tables.logs import NAME, Written

pytestmark = pytest.mark.invariant(1)


def write_silently(table: Written, *rows: int) -> int:
    """A commit of somebody else that says nothing of itself, as Delta allows; returns its version."""
    table.write(*rows)
    file = table.log_file(table.version)
    lines = [line for line in file.read_text().splitlines() if "commitInfo" not in json.loads(line)]
    file.write_text("".join(f"{line}\n" for line in lines))
    return table.version


def versions(table: Written) -> dict[int, int]:
    """The version of each commit of ours, by its number."""
    return {entry.commit.number: entry.version for entry in table.ledger.entries}


def test_a_commit_that_says_nothing_shifts_no_older_version_and_is_foreign(table):
    silent = write_silently(table, 7)
    table.merge(8)
    assert versions(table) == {1: 1, 2: 2, 3: 3, 4: 5}
    (foreign,) = table.ledger.foreign
    assert (foreign.version, foreign.operation) == (silent, "UNKNOWN")
    assert abs(foreign.committed_at - table.committed_at(3)).total_seconds() < 3600
    assert table.ledger.complete


def test_a_batch_on_top_of_a_restore_is_not_void_for_a_silent_commit_after_it(table):
    table.restore(2)
    table.merge(7)
    write_silently(table, 8)
    assert (table.progress, table.ledger.undone) == (4, {3})


def test_a_change_is_not_taken_for_maintenance_for_silent_commits_after_it(table):
    table.table.optimize.compact()
    table.batches(2)
    write_silently(table, 7)
    write_silently(table, 8)
    assert table.ledger.unchanged == {4}
    assert table.ledger.next_change(4) == 5


def test_also_in_a_log_that_was_cleaned_up_and_beyond_the_newest_hundred(table):
    write_silently(table, 7)
    table.merge(8)
    table.clean(2)
    assert versions(table) == {2: 2, 3: 3, 4: 5}
    assert not table.ledger.complete
    for _ in range(97):
        table.write()
    assert versions(table) == {3: 3, 4: 5}


def test_also_in_an_object_store(table, tmp_path):
    write_silently(table, 7)
    with stores.serving(tmp_path) as root:
        told = log.read_history(f"{root}/t", 3)
    assert [info["version"] for info in told] == [4, 3, 2]
    assert told[1:] == log.read_history(str(table.folder), 3)[1:]


def test_commits_made_since_a_table_was_opened_shift_no_version(table, monkeypatch):
    def opened_then_overtaken(uri: str) -> DeltaTable:
        opened = DeltaTable(uri)
        table.merge(7)
        table.write(8)
        return opened

    monkeypatch.setattr(ledger, "open_table", opened_then_overtaken)
    told = read_ledger(str(table.folder), NAME)
    assert (told.version, told.transaction) == (3, 3)
    assert [(entry.version, entry.commit.number) for entry in told.entries] == [(3, 3), (2, 2), (1, 1)]


def test_a_log_read_by_name_tells_what_deltalake_tells(table):
    table.restore(2)
    expected = table.table.history()
    by_name = list(log._by_name(str(table.folder), table.version))
    assert by_name == expected


@pytest.mark.slow
def test_a_history_that_is_counted_right_is_not_read_twice(table, monkeypatch):
    def refused(*_: object) -> None:
        raise AssertionError("read by name")

    monkeypatch.setattr(log, "_by_name", refused)
    assert versions(table) == {1: 1, 2: 2, 3: 3}
    table.clean(2)
    assert versions(table) == {2: 2, 3: 3}
    table.batches(100)
    assert len(table.ledger.entries) == 100


@pytest.mark.parametrize("version", [2, 3])
def test_an_empty_commit_amid_the_log_is_damage(table, version):
    table.log_file(version).write_text("")
    with pytest.raises(TableDamagedError, match=f"{version:020d}.json"):
        _ = table.ledger
