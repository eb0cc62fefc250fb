"""A commit has the version in the name of its file, no matter what the commits around it contain."""

import json

import pytest
from deltalake import DeltaTable

from lakehouse.errors import TableDamagedError
from lakehouse.ledger import ledger, log
from lakehouse.ledger.ledger import read_ledger
from lakehouse_tests.helpers.tables import stores
from lakehouse_tests.helpers.tables.logs import NAME, WrittenTable


def write_without_info(table: WrittenTable, *rows: int) -> int:
    """Commit without ``commitInfo``, which Delta allows; return the version."""
    table.write(*rows)
    file = table.log_file(table.version)
    lines = [line for line in file.read_text().splitlines() if "commitInfo" not in json.loads(line)]
    file.write_text("".join(f"{line}\n" for line in lines))
    return table.version


def versions(table: WrittenTable) -> dict[int, int]:
    """Return the version of each lakehouse commit, by its number."""
    return {entry.commit.number: entry.version for entry in table.ledger.entries}


@pytest.mark.invariant("1.5", "1.9")
def test_a_commit_without_info_is_foreign_and_shifts_no_version(table):
    version = write_without_info(table, 7)
    table.merge(8)
    assert versions(table) == {1: 1, 2: 2, 3: 3, 4: 5}
    (foreign,) = table.ledger.foreign
    assert (foreign.version, foreign.operation) == (version, "UNKNOWN")
    assert abs(foreign.committed_at - table.committed_at(3)).total_seconds() < 3600
    assert table.ledger.complete


@pytest.mark.invariant("1.5")
def test_a_commit_without_info_does_not_void_a_batch_after_a_restore(table):
    table.restore(2)
    table.merge(7)
    write_without_info(table, 8)
    assert (table.progress, table.ledger.undone_numbers) == (4, {3})


@pytest.mark.invariant("1.5", "10.7")
def test_commits_without_info_do_not_turn_a_change_into_maintenance(table):
    table.table.optimize.compact()
    table.batches(2)
    write_without_info(table, 7)
    write_without_info(table, 8)
    assert table.ledger.unchanged_versions == {4}
    assert table.ledger.next_change(4) == 5


@pytest.mark.invariant("1.5")
def test_versions_are_right_in_a_cleaned_log_and_beyond_the_newest_hundred(table):
    write_without_info(table, 7)
    table.merge(8)
    table.clean(2)
    assert versions(table) == {2: 2, 3: 3, 4: 5}
    assert not table.ledger.complete
    for _ in range(97):
        table.write()
    assert versions(table) == {3: 3, 4: 5}


@pytest.mark.invariant("1.5")
def test_versions_are_right_in_an_object_store(table, tmp_path):
    write_without_info(table, 7)
    with stores.serving(tmp_path) as root:
        history = log.read_history(f"{root}/t", 3)
    assert [info["version"] for info in history] == [4, 3, 2]
    assert history[1:] == log.read_history(str(table.folder), 3)[1:]


@pytest.mark.invariant("1.5")
def test_commits_after_a_table_was_opened_shift_no_version(table, monkeypatch):
    def open_then_commit(uri: str) -> DeltaTable:
        opened_table = DeltaTable(uri)
        table.merge(7)
        table.write(8)
        return opened_table

    monkeypatch.setattr(ledger, "open_table", open_then_commit)
    read = read_ledger(str(table.folder), NAME)
    assert (read.version, read.transaction) == (3, 3)
    assert [(entry.version, entry.commit.number) for entry in read.entries] == [(3, 3), (2, 2), (1, 1)]


@pytest.mark.invariant("1.5")
def test_a_log_that_is_read_by_name_equals_that_of_deltalake(table):
    table.restore(2)
    expected = table.table.history()
    by_name = list(log._read_by_name(str(table.folder), table.version))
    assert by_name == expected


@pytest.mark.invariant("1.5")
@pytest.mark.slow
def test_a_history_with_right_versions_is_not_read_twice(table, monkeypatch):
    def fail(*_: object) -> None:
        raise AssertionError("read by name")

    monkeypatch.setattr(log, "_read_by_name", fail)
    assert versions(table) == {1: 1, 2: 2, 3: 3}
    table.clean(2)
    assert versions(table) == {2: 2, 3: 3}
    table.batches(100)
    assert len(table.ledger.entries) == 100


@pytest.mark.invariant("9.9")
@pytest.mark.parametrize("version", [2, 3])
def test_an_empty_commit_within_the_log_is_damage(table, version):
    table.log_file(version).write_text("")
    with pytest.raises(TableDamagedError, match=f"{version:020d}.json"):
        _ = table.ledger
