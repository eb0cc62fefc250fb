"""The effect of a RESTORE: the commits it undid, the version it names, and the versions with the same files."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ledger.commit_infos import entry_of
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import File, FileChanges
from lakehouse.ledger.positions import SourceId
from lakehouse.ledger.restores import (
    changes_since_newest_file,
    named_version,
    valid_history,
    versions_with_newest_files,
)
from lakehouse_tests.helpers.tables.infos import commit, merged, own_info, restored

Files = frozenset[str]


def changes(states: list[Files]) -> list[FileChanges]:
    """Return the commits that lead from no files through these states, newest first.

    A file that appears again was restored.
    """
    commits, all_files = [], set[str]()
    for version, (before, after) in enumerate(zip([Files(), *states], states, strict=False)):
        added_files, removed_files = after - before, before - after
        commits.append(
            FileChanges(version, to_files(added_files), to_files(removed_files), to_files(added_files - all_files))
        )
        all_files |= added_files
    return commits[::-1]


def to_files(files: Files) -> frozenset[File]:
    return frozenset((file, "") for file in files)


HISTORIES = st.lists(st.frozensets(st.sampled_from("abcd")), min_size=1, max_size=12)


@pytest.mark.invariant("1.7")
@given(HISTORIES, st.integers(0, 5))
def test_the_versions_with_the_files_of_the_newest_one_are_returned(states: list[Files], expired_count: int) -> None:
    log = changes(states)[: max(1, len(states) - expired_count)]
    expected = [v for v in range(len(states) - 2, log[-1].version - 1, -1) if states[v] == states[-1]]
    assert versions_with_newest_files(log) == expected


@pytest.mark.invariant("1.7")
@given(HISTORIES)
def test_no_older_version_than_a_file_of_the_newest_had_its_files(states: list[Files]) -> None:
    log = changes(states)
    newest_changes = changes_since_newest_file(log)
    assert versions_with_newest_files(newest_changes) == versions_with_newest_files(log)


@pytest.mark.invariant("1.3", "1.7")
def test_the_log_is_read_only_back_to_a_file_of_the_newest_version() -> None:
    states = [Files(f"a{n}") for n in "123"]
    states += [states[-1] | {"b"}, states[-1]]
    assert [change.version for change in changes_since_newest_file(changes(states))] == [4, 3, 2]


@pytest.mark.invariant("1.7")
def test_an_active_file_that_is_added_again_was_active_before() -> None:
    a, b = ("a", ""), ("b", "")
    log = [
        FileChanges(3, frozenset(), frozenset({b})),
        FileChanges(2, frozenset({a, b}), frozenset()),
        FileChanges(1, frozenset({a}), frozenset()),
        FileChanges(0, frozenset(), frozenset()),
    ]
    assert versions_with_newest_files(log) == [1]


@pytest.mark.invariant("1.7")
def test_a_file_with_another_deletion_vector_is_another_file() -> None:
    without_vector, with_vector = ("a", ""), ("a", "u/v/1")
    log = [
        FileChanges(3, frozenset({without_vector}), frozenset({with_vector})),
        FileChanges(2, frozenset({with_vector}), frozenset({without_vector})),
        FileChanges(1, frozenset({without_vector}), frozenset()),
        FileChanges(0, frozenset(), frozenset()),
    ]
    assert versions_with_newest_files(log) == [1]


@pytest.mark.invariant("1.7")
@pytest.mark.parametrize(
    ("parameters", "version"),
    [
        ({"version": "7", "timestamp": None}, 7),
        ({"version": 7}, 7),
        ({"version": 0}, 0),
        ({"version": None, "timestamp": "2026-01-01 00:00:00.0"}, None),
        ({"version": "null", "timestamp": "2026-01-01 00:00:00.0"}, None),
        ({"version": "", "timestamp": "2026-01-01"}, None),
        ({"datetime": "1795341655364"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_restore_names_a_version_or_none(parameters: dict[str, Any] | None, version: int | None) -> None:
    assert named_version({"version": 9, "operation": "RESTORE", "operationParameters": parameters}) == version


def numbers(*history: dict[str, Any]) -> tuple[list[int], set[int]]:
    """Return the valid numbers, newest first, and the undone ones; ``history`` is oldest first."""
    valid = valid_history(reversed(history))
    return [entry.commit.number for entry in valid.entries], valid.undone_numbers


def test_without_a_restore_nothing_is_undone() -> None:
    assert numbers(commit(0, "CREATE TABLE"), merged(1), commit(2, "OPTIMIZE"), merged(3)) == ([3, 1], set())


@pytest.mark.invariant("1.6")
def test_a_restore_undoes_the_commits_after_the_version_it_restored() -> None:
    assert numbers(merged(1), merged(2), merged(3), restored(4, to=1), merged(5)) == ([5, 1], {2, 3})


@pytest.mark.invariant("1.6")
def test_a_restore_of_undone_commits_makes_them_valid_again() -> None:
    assert numbers(merged(1), merged(2), restored(3, to=1), restored(4, to=2)) == ([2, 1], set())


@pytest.mark.invariant("1.13")
def test_a_batch_planned_before_a_restore_and_committed_after_it_is_undone() -> None:
    assert numbers(merged(1), merged(2), restored(3, to=1), merged(4, planned_on=2)) == ([1], {2, 4})


def test_a_foreign_commit_has_no_number_to_undo() -> None:
    assert numbers(merged(1), commit(2, "UPDATE"), restored(3, to=1)) == ([1], set())


@pytest.mark.invariant("1.13")
def test_maintenance_planned_before_a_restore_and_committed_after_it_is_undone() -> None:
    history = (merged(1), merged(2), restored(3, to=1), own_info(4, "maintenance", table_version=2))
    assert numbers(*history) == ([1], {2, 4})


@pytest.mark.invariant("1.8")
def test_no_commit_before_an_unknown_restore_is_valid() -> None:
    history = [commit(3, "RESTORE"), merged(2), merged(1)]
    valid = valid_history(history)
    assert (valid.entries, valid.undone_numbers, valid.unknown_restore) == ([], {1, 2}, 3)


@pytest.mark.invariant("1.8", "1.13")
def test_a_batch_planned_before_an_unknown_restore_records_no_progress() -> None:
    history = [merged(4, planned_on=2), commit(3, "RESTORE"), merged(2)]
    valid = valid_history(history)
    assert (valid.entries, valid.undone_numbers, valid.unknown_restore) == ([], {2, 4}, 3)


@pytest.mark.invariant("1.6")
def test_the_version_of_a_restore_that_was_undone_itself_is_not_needed() -> None:
    interpreted: list[int] = []

    def restored_version_of(restore: Any) -> int | None:
        interpreted.append(restore["version"])
        return named_version(restore)

    unknown_restore = commit(3, "RESTORE")
    known_restore = restored(4, to=1)
    valid = valid_history([known_restore, unknown_restore, merged(2), merged(1)], restored_version_of)
    assert ([entry.version for entry in valid.entries], valid.undone_numbers, valid.unknown_restore) == ([1], {2}, None)
    assert interpreted == [4]


def read_up_to(version: int, ends: dict[int, int], topic: str = "t", **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = dict(table_version=version - 1, source=SourceId("kafka", f"c/{topic}"), progress=ends)
    return own_info(version, "batch", **(fields | changes))


def test_the_positions_of_undone_commits_are_carried_on_until_the_progress_reaches_them() -> None:
    void = read_up_to(4, {0: 9, 1: 2}, table_version=2)
    history = (read_up_to(1, {0: 3}), read_up_to(2, {0: 5}), restored(3, to=1), void)
    valid = valid_history(reversed(history))
    assert valid.undone_ends == {"kafka:c/t": {0: 9, 1: 2}}
    ledger = Ledger("uri", entries=tuple(valid.entries), undone_ends=valid.undone_ends, transaction=4)
    assert ledger.reached == {"kafka:c/t": {0: 9, 1: 2}}
    maintenance = ledger.next_commit("maintenance", "run")
    assert maintenance.reached == {"kafka:c/t": {0: 9, 1: 2}}
    later_ledger = replace(
        ledger, entries=(entry(read_up_to(5, {0: 9, 1: 1}, reached=maintenance.reached)),), undone_ends={}
    )
    assert later_ledger.next_commit("batch", "run").reached == {"kafka:c/t": {1: 2}}
    current_ledger = replace(
        ledger, entries=(entry(read_up_to(6, {0: 9, 1: 2}, reached=maintenance.reached)),), undone_ends={}
    )
    assert current_ledger.next_commit("batch", "run").reached == {}


def test_positions_are_kept_by_source() -> None:
    recreated_entry = read_up_to(7, {0: 1}, topic="u", reached={"kafka:c/t": {0: 9}})
    ledger = Ledger("uri", entries=(entry(recreated_entry),), transaction=7)
    assert ledger.reached == {"kafka:c/t": {0: 9}, "kafka:c/u": {0: 1}}
    assert ledger.next_commit("batch", "run").reached == {"kafka:c/t": {0: 9}}


@pytest.mark.invariant("1.4")
def test_progress_is_that_of_the_transaction_number_or_else_of_the_newest_commit() -> None:
    entries = tuple(entry(read_up_to(version, {0: version})) for version in (3, 2))
    for transaction, position in ((2, 2), (3, 3), (9, 3)):
        progress = Ledger("uri", entries=entries, transaction=transaction).progress
        assert progress and progress.positions == {0: position}


def entry(info: dict[str, Any]) -> Entry:
    result = entry_of(info)
    assert result
    return result
