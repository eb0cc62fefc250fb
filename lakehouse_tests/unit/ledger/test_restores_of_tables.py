"""RESTORE on real tables without a JVM: the version it put back is told by the files, never by a clock."""

import json
from datetime import timedelta

import pytest

from lakehouse.errors import LedgerError
from lakehouse.ledger import restores
from lakehouse.ledger.ledger import read_ledger, require_told
from lakehouse.ledger.log import file_changes
from lakehouse_tests.helpers.tables.logs import NAME

pytestmark = pytest.mark.invariant(1)


def test_a_moment_between_the_time_of_a_commit_and_that_of_its_file_puts_the_version_before_back(table):
    moment = table.committed_at(2) + timedelta(milliseconds=2)
    table.put_file_time(2, moment + timedelta(milliseconds=3))
    table.restore_by_time(1, f"{moment:%Y-%m-%d %H:%M:%S.%f}")  # Delta goes by the file: version 2 came later
    assert table.progress == 1 == len(table.rows)
    assert table.ledger.undone == {2, 3}


def test_a_moment_in_another_zone_puts_the_version_back_whose_files_are_there(table):
    moment = table.committed_at(1) + timedelta(hours=2)
    table.restore_by_time(1, f"{moment:%Y-%m-%d %H:%M:%S.%f}")
    assert table.progress == 1


def test_delta_rs_names_the_moment_otherwise(table):
    table.table.restore(table.committed_at(2))
    assert table.table.history(1)[0]["operationParameters"].keys() == {"datetime"}
    assert table.progress == len(table.rows)


def test_delta_rs_names_the_version_as_spark_does(table):
    table.restore(1)
    assert table.table.history(1)[0]["operationParameters"] == {"version": "1"}
    assert table.progress == 1


def test_files_that_a_compaction_replaced_come_back_with_the_version_before_it(table):
    table.table.optimize.compact()
    table.merge(7)
    table.restore_by_time(2)
    assert table.progress == 2 == len(table.rows)


def test_a_compacted_version_is_put_back_as_such(table):
    table.table.optimize.compact()
    table.batches(2)
    table.restore_by_time(4)
    assert table.progress == 3 == len(table.rows)


def test_a_restore_that_was_restored_brings_back_what_it_undid(table):
    table.restore_by_time(1)
    table.restore_by_time(3)
    assert table.progress == 3 == len(table.rows)
    assert table.ledger.undone == set()


def test_a_version_before_another_restore_is_put_back(table):
    table.restore_by_time(1)
    table.merge(7)
    table.merge(8)
    table.restore_by_time(5)
    assert (table.rows, table.progress) == ([7, 1000], 4)
    assert table.ledger.undone == {2, 3, 5}


def test_of_versions_with_the_same_files_the_oldest_counts(table):
    table.merge_nothing()  # all its records were stale
    table.merge(7)
    table.restore_by_time(4)
    assert table.progress == 3 == len(table.rows)


def test_of_versions_with_the_same_files_only_one_counts_up_to_which_a_commit_of_ours_is_left(table):
    table.table.optimize.compact()
    table.merge_nothing("maintenance")
    table.merge(7)
    table.clean(4)  # the compaction is the oldest that is left
    table.restore_by_time(5)
    assert require_told(table.ledger, NAME).progress.positions == {0: 4}
    assert table.ledger.undone == {5}


def test_files_that_are_described_anew_are_the_same_files(table):
    added = [line for line in table.log_file(1).read_text().splitlines() if line.startswith('{"add"')]
    anew = [json.dumps({"add": json.loads(line)["add"] | {"dataChange": False}}) for line in added]
    info = json.dumps({"commitInfo": {"timestamp": 1, "operation": "COMPUTE STATS", "operationParameters": {}}})
    table.log_file(4).write_text("\n".join([info, *anew]))
    table.merge(7)
    table.restore_by_time(2)
    assert table.progress == 2
    table.clean(3)  # nothing older is told of the file
    restores._versions_put_back.cache_clear()
    assert table.ledger.undone >= {3}


def test_where_no_version_had_these_files_the_error_says_both_ways_on(table):
    made = table.restore_by_time(2)
    lines = table.log_file(1).read_text().splitlines()
    (path,) = [json.loads(line)["add"]["path"] for line in lines if line.startswith('{"add"')]
    gone = json.dumps({"remove": {"path": path, "dataChange": True, "deletionTimestamp": 1}})
    table.log_file(made).write_text(f"{table.log_file(made).read_text()}\n{gone}\n")  # it was not to be found
    with pytest.raises(LedgerError, match=r"TO VERSION AS OF .*lakehouse recover-progress t"):
        require_told(table.ledger, NAME)
    table.restore(2)
    assert require_told(table.ledger, NAME) and table.progress == 2


def test_where_the_log_no_longer_holds_the_version_the_ledger_does_not_tell(table):
    made = table.restore_by_time(1)
    table.clean(3)
    with pytest.raises(LedgerError, match=f"RESTORE of version {made} put back"):
        require_told(table.ledger, NAME)


def test_what_was_committed_on_top_of_a_restore_tells_the_progress_whatever_it_put_back(table):
    table.restore_by_time(1)
    table.merge(7)
    table.clean(3)
    for whole in (False, True):
        ledger = require_told(read_ledger(str(table.folder), NAME, whole=whole), NAME)
        assert ledger.progress.positions == {0: 4}
        assert ledger.undone == {3}  # nothing resolved by it is taken for merged


def test_only_a_restore_to_a_moment_makes_the_log_be_read_and_only_once(table, monkeypatch):
    read: list[int] = []

    def counted(uri: str, newest: int):
        read.append(newest)
        return file_changes(uri, newest)

    monkeypatch.setattr(restores, "file_changes", counted)
    table.restore(2)
    assert (table.progress, read) == (2, [])
    made = table.restore_by_time(1)
    assert (table.progress, table.progress, read) == (1, 1, [made])


def test_what_a_restore_undid_beyond_the_newest_hundred_commits_is_told(table):
    table.batches(2)
    for _ in range(100):
        table.write()
    table.restore(3)
    table.merge(7)
    assert table.ledger.undone == {4, 5}


def test_what_a_restore_undid_is_told_until_a_batch_has_stored_it(table):
    table.restore(1)
    for _ in range(100):
        table.write()
    table.merge_nothing("maintenance")
    assert table.ledger.undone == {2, 3}
    table.merge(7)
    assert not table.ledger.complete  # the newest hundred are enough
