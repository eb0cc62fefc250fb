"""RESTORE on real tables without a JVM: the files show the restored version, never a clock."""

import json
from datetime import timedelta

import pytest

from lakehouse.errors import LedgerError
from lakehouse.ledger import restores
from lakehouse.ledger.ledger import read_ledger, require_progress
from lakehouse.ledger.log import file_changes
from lakehouse_tests.helpers.tables.logs import NAME


@pytest.mark.invariant("1.7")
def test_a_time_between_a_commit_and_its_file_restores_the_version_before(table):
    time = table.committed_at(2) + timedelta(milliseconds=2)
    table.put_file_time(2, time + timedelta(milliseconds=3))
    table.restore_by_time(1, f"{time:%Y-%m-%d %H:%M:%S.%f}")  # Delta uses the time of the file: version 2 is later
    assert table.progress == 1 == len(table.rows)
    assert table.ledger.undone_numbers == {2, 3}


@pytest.mark.invariant("1.7")
def test_a_time_in_another_zone_restores_the_version_with_the_active_files(table):
    time = table.committed_at(1) + timedelta(hours=2)
    table.restore_by_time(1, f"{time:%Y-%m-%d %H:%M:%S.%f}")
    assert table.progress == 1


@pytest.mark.invariant("1.7")
def test_delta_rs_names_the_time_differently(table):
    table.table.restore(table.committed_at(2))
    assert table.table.history(1)[0]["operationParameters"].keys() == {"datetime"}
    assert table.progress == len(table.rows)


@pytest.mark.invariant("1.7")
def test_delta_rs_names_the_version_as_spark_does(table):
    table.restore(1)
    assert table.table.history(1)[0]["operationParameters"] == {"version": "1"}
    assert table.progress == 1


@pytest.mark.invariant("1.7")
def test_files_that_a_compaction_replaced_are_restored_with_an_older_version(table):
    table.table.optimize.compact()
    table.merge(7)
    table.restore_by_time(2)
    assert table.progress == 2 == len(table.rows)


@pytest.mark.invariant("1.7")
def test_a_compacted_version_is_restored(table):
    table.table.optimize.compact()
    table.batches(2)
    table.restore_by_time(4)
    assert table.progress == 3 == len(table.rows)


@pytest.mark.invariant("1.6", "1.7")
def test_restoring_a_version_before_a_restore_makes_undone_commits_valid_again(table):
    table.restore_by_time(1)
    table.restore_by_time(3)
    assert table.progress == 3 == len(table.rows)
    assert table.ledger.undone_numbers == set()


@pytest.mark.invariant("1.6", "1.7")
def test_a_version_after_another_restore_is_restored(table):
    table.restore_by_time(1)
    table.merge(7)
    table.merge(8)
    table.restore_by_time(5)
    assert (table.rows, table.progress) == ([7, 1000], 4)
    assert table.ledger.undone_numbers == {2, 3, 5}


@pytest.mark.invariant("1.8")
def test_the_oldest_version_with_the_same_files_is_assumed(table):
    table.merge_nothing()  # all its records were stale
    table.merge(7)
    table.restore_by_time(4)
    assert table.progress == 3 == len(table.rows)


@pytest.mark.invariant("1.8")
def test_a_version_before_all_remaining_commits_of_ours_is_not_assumed(table):
    table.table.optimize.compact()
    table.merge_nothing("maintenance")
    table.merge(7)
    table.clean(4)  # the compaction is the oldest remaining commit
    table.restore_by_time(5)
    assert require_progress(table.ledger, NAME).progress.positions == {0: 4}
    assert table.ledger.undone_numbers == {5}


@pytest.mark.invariant("1.7")
def test_files_with_new_statistics_are_the_same_files(table):
    added_lines = [line for line in table.log_file(1).read_text().splitlines() if line.startswith('{"add"')]
    new_lines = [json.dumps({"add": json.loads(line)["add"] | {"dataChange": False}}) for line in added_lines]
    info = json.dumps({"commitInfo": {"timestamp": 1, "operation": "COMPUTE STATS", "operationParameters": {}}})
    table.log_file(4).write_text("\n".join([info, *new_lines]))
    table.merge(7)
    table.restore_by_time(2)
    assert table.progress == 2
    table.clean(3)  # no older commit mentions the file
    restores._versions_with_same_files.cache_clear()
    assert table.ledger.undone_numbers >= {3}


@pytest.mark.invariant("1.8")
def test_the_error_for_an_unknown_restore_names_both_remedies(table):
    restore = table.restore_by_time(2)
    lines = table.log_file(1).read_text().splitlines()
    (path,) = [json.loads(line)["add"]["path"] for line in lines if line.startswith('{"add"')]
    removal = json.dumps({"remove": {"path": path, "dataChange": True, "deletionTimestamp": 1}})
    table.log_file(restore).write_text(f"{table.log_file(restore).read_text()}\n{removal}\n")  # a lost file
    with pytest.raises(LedgerError, match=r"lakehouse repair progress t .*lakehouse restore t --version VERSION"):
        require_progress(table.ledger, NAME)
    table.restore(2)
    assert require_progress(table.ledger, NAME) and table.progress == 2


@pytest.mark.invariant("1.8")
def test_a_restore_of_an_expired_version_is_unknown(table):
    restore = table.restore_by_time(1)
    table.clean(3)
    with pytest.raises(LedgerError, match=f"RESTORE in version {restore} restored"):
        require_progress(table.ledger, NAME)


@pytest.mark.invariant("1.8")
def test_a_batch_after_an_unknown_restore_records_the_progress(table):
    table.restore_by_time(1)
    table.merge(7)
    table.clean(3)
    for whole in (False, True):
        ledger = require_progress(read_ledger(str(table.folder), NAME, whole=whole), NAME)
        assert ledger.progress.positions == {0: 4}
        assert ledger.undone_numbers == {3}  # what it resolved is not taken for merged


def test_the_log_is_read_once_and_only_for_a_restore_to_a_time(table, monkeypatch):
    versions_read: list[int] = []

    def record_read(uri: str, newest: int):
        versions_read.append(newest)
        return file_changes(uri, newest)

    monkeypatch.setattr(restores, "file_changes", record_read)
    table.restore(2)
    assert (table.progress, versions_read) == (2, [])
    restore = table.restore_by_time(1)
    assert (table.progress, table.progress, versions_read) == (1, 1, [restore])


@pytest.mark.invariant("1.6")
def test_commits_undone_before_the_newest_hundred_are_known(table):
    table.batches(2)
    for _ in range(100):
        table.write()
    table.restore(3)
    table.merge(7)
    assert table.ledger.undone_numbers == {4, 5}


@pytest.mark.invariant("8.5")
def test_undone_commits_are_known_until_a_batch_has_stored_them(table):
    table.restore(1)
    for _ in range(100):
        table.write()
    table.merge_nothing("maintenance")
    assert table.ledger.undone_numbers == {2, 3}
    table.merge(7)
    assert not table.ledger.complete  # the newest hundred are enough
