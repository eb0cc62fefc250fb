"""What a RESTORE means: what it undid, which version it names, and which versions had the same files."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ledger.commits import Entry, entry_of
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import File, FileChanges
from lakehouse.ledger.positions import SourceId
from lakehouse.ledger.restores import (
    back_to_a_file_of_the_newest,
    named_version,
    standing,
    versions_with_the_files_of_the_newest,
)
from lakehouse_tests.helpers.tables.infos import commit, merged, ours, restored

pytestmark = pytest.mark.invariant(1)

Files = frozenset[str]


def changes(states: list[Files]) -> list[FileChanges]:
    """The commits that make one state after the other, of nothing at first, newest first; a file that comes back
    was restored."""
    told, ever = [], set[str]()
    for version, (before, after) in enumerate(zip([Files(), *states], states, strict=False)):
        added, removed = after - before, before - after
        told.append(FileChanges(version, named(added), named(removed), named(added - ever)))
        ever |= added
    return told[::-1]


def named(files: Files) -> frozenset[File]:
    return frozenset((file, "") for file in files)


HISTORIES = st.lists(st.frozensets(st.sampled_from("abcd")), min_size=1, max_size=12)


@given(HISTORIES, st.integers(0, 5))
def test_the_versions_found_are_those_with_the_files_of_the_newest(states: list[Files], expired: int) -> None:
    log = changes(states)[: max(1, len(states) - expired)]
    expected = [v for v in range(len(states) - 2, log[-1].version - 1, -1) if states[v] == states[-1]]
    assert versions_with_the_files_of_the_newest(log) == expected


@given(HISTORIES)
def test_no_older_version_than_a_file_of_the_newest_had_its_files(states: list[Files]) -> None:
    log = changes(states)
    taken = back_to_a_file_of_the_newest(log)
    assert versions_with_the_files_of_the_newest(taken) == versions_with_the_files_of_the_newest(log)


def test_the_log_is_read_no_further_than_to_a_file_of_the_newest() -> None:
    states = [Files(f"a{n}") for n in "123"]
    states += [states[-1] | {"b"}, states[-1]]
    assert [change.version for change in back_to_a_file_of_the_newest(changes(states))] == [4, 3, 2]


def test_a_file_that_is_added_again_while_it_is_active_was_active_before() -> None:
    a, b = ("a", ""), ("b", "")
    log = [
        FileChanges(3, frozenset(), frozenset({b})),
        FileChanges(2, frozenset({a, b}), frozenset()),
        FileChanges(1, frozenset({a}), frozenset()),
        FileChanges(0, frozenset(), frozenset()),
    ]
    assert versions_with_the_files_of_the_newest(log) == [1]


def test_a_file_with_another_deletion_vector_is_another_file() -> None:
    whole, less = ("a", ""), ("a", "u/v/1")
    log = [
        FileChanges(3, frozenset({whole}), frozenset({less})),
        FileChanges(2, frozenset({less}), frozenset({whole})),
        FileChanges(1, frozenset({whole}), frozenset()),
        FileChanges(0, frozenset(), frozenset()),
    ]
    assert versions_with_the_files_of_the_newest(log) == [1]


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


def walked(*history: dict[str, Any]) -> tuple[list[int], set[int]]:
    """The numbers that count, newest first, and those undone, of a history given oldest first."""
    found = standing(reversed(history))
    return [entry.commit.number for entry in found.entries], found.undone


def test_without_a_restore_nothing_is_undone() -> None:
    assert walked(commit(0, "CREATE TABLE"), merged(1), commit(2, "OPTIMIZE"), merged(3)) == ([3, 1], set())


def test_a_restore_undoes_the_commits_after_the_version_it_restored() -> None:
    assert walked(merged(1), merged(2), merged(3), restored(4, to=1), merged(5)) == ([5, 1], {2, 3})


def test_a_restore_of_what_was_undone_brings_it_back() -> None:
    assert walked(merged(1), merged(2), restored(3, to=1), restored(4, to=2)) == ([2, 1], set())


def test_a_batch_planned_before_a_restore_and_committed_after_it_is_undone() -> None:
    assert walked(merged(1), merged(2), restored(3, to=1), merged(4, planned_on=2)) == ([1], {2, 4})


def test_a_foreign_commit_has_no_number_to_undo() -> None:
    assert walked(merged(1), commit(2, "UPDATE"), restored(3, to=1)) == ([1], set())


def test_maintenance_planned_before_a_restore_and_committed_after_it_is_undone() -> None:
    history = (merged(1), merged(2), restored(3, to=1), ours(4, "maintenance", table_version=2))
    assert walked(*history) == ([1], {2, 4})


def test_before_a_restore_that_nothing_tells_nothing_counts() -> None:
    history = [commit(3, "RESTORE"), merged(2), merged(1)]
    found = standing(history)
    assert (found.entries, found.undone, found.untold) == ([], {1, 2}, 3)


def test_a_batch_planned_before_such_a_restore_does_not_tell_the_progress() -> None:
    history = [merged(4, planned_on=2), commit(3, "RESTORE"), merged(2)]
    found = standing(history)
    assert (found.entries, found.undone, found.untold) == ([], {2, 4}, 3)


def test_a_restore_that_was_undone_itself_need_not_be_told() -> None:
    asked: list[int] = []

    def put_back(restore: Any) -> int | None:
        asked.append(restore["version"])
        return named_version(restore)

    untold = commit(3, "RESTORE")
    named = restored(4, to=1)
    found = standing([named, untold, merged(2), merged(1)], put_back)
    assert ([entry.version for entry in found.entries], found.undone, found.untold) == ([1], {2}, None)
    assert asked == [4]


def read_up_to(version: int, ends: dict[int, int], topic: str = "t", **more: Any) -> dict[str, Any]:
    said: dict[str, Any] = dict(table_version=version - 1, source=SourceId("kafka", f"c/{topic}"), progress=ends)
    return ours(version, "batch", **(said | more))


def test_how_far_commits_read_that_do_not_count_is_told_and_carried_on_until_the_progress_is_there() -> None:
    void = read_up_to(4, {0: 9, 1: 2}, table_version=2)
    history = (read_up_to(1, {0: 3}), read_up_to(2, {0: 5}), restored(3, to=1), void)
    found = standing(reversed(history))
    assert found.reached == {"kafka:c/t": {0: 9, 1: 2}}
    ledger = Ledger("uri", entries=tuple(found.entries), reread=found.reached, transaction=4)
    assert ledger.reached == {"kafka:c/t": {0: 9, 1: 2}}
    carried = ledger.next_commit("maintenance", "run")
    assert carried.reached == {"kafka:c/t": {0: 9, 1: 2}}
    later = replace(ledger, entries=(entry(read_up_to(5, {0: 9, 1: 1}, reached=carried.reached)),), reread={})
    assert later.next_commit("batch", "run").reached == {"kafka:c/t": {1: 2}}
    there = replace(ledger, entries=(entry(read_up_to(6, {0: 9, 1: 2}, reached=carried.reached)),), reread={})
    assert there.next_commit("batch", "run").reached == {}


def test_positions_of_another_source_are_others() -> None:
    anew = read_up_to(7, {0: 1}, topic="u", reached={"kafka:c/t": {0: 9}})
    ledger = Ledger("uri", entries=(entry(anew),), transaction=7)
    assert ledger.reached == {"kafka:c/t": {0: 9}, "kafka:c/u": {0: 1}}
    assert ledger.next_commit("batch", "run").reached == {"kafka:c/t": {0: 9}}


def entry(info: dict[str, Any]) -> Entry:
    found = entry_of(info)
    assert found
    return found
