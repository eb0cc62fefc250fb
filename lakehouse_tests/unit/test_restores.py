"""Which versions had the same files, and which version a RESTORE names: arithmetic on what the log says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta.commits import Commit
from lakehouse.delta.log import File, FileChanges
from lakehouse.delta.restores import (
    back_to_a_file_of_the_newest,
    named_version,
    standing,
    versions_with_the_files_of_the_newest,
)

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


def batch(version: int, planned_on: int | None = None) -> dict[str, Any]:
    said = Commit(
        kind="batch",
        number=version,
        attempt=f"a{version}",
        table_version=version - 1 if planned_on is None else planned_on,
    )
    return {"version": version, "operation": "MERGE", "timestamp": 0, "userMetadata": said.model_dump_json()}


def test_before_a_restore_that_nothing_tells_nothing_counts() -> None:
    history = [{"version": 3, "operation": "RESTORE", "timestamp": 0}, batch(2), batch(1)]
    found = standing(history)
    assert (found.entries, found.undone, found.untold) == ([], {1, 2}, 3)


def test_a_batch_planned_before_such_a_restore_does_not_tell_the_progress() -> None:
    history = [batch(4, planned_on=2), {"version": 3, "operation": "RESTORE", "timestamp": 0}, batch(2)]
    found = standing(history)
    assert (found.entries, found.undone, found.untold) == ([], {2, 4}, 3)


def test_a_restore_that_was_undone_itself_need_not_be_told() -> None:
    asked: list[int] = []

    def put_back(restore: Any) -> int | None:
        asked.append(restore["version"])
        return named_version(restore)

    untold = {"version": 3, "operation": "RESTORE", "timestamp": 0}
    named = {"version": 4, "operation": "RESTORE", "timestamp": 0, "operationParameters": {"version": "1"}}
    found = standing([named, untold, batch(2), batch(1)], put_back)
    assert ([entry.version for entry in found.entries], found.undone, found.untold) == ([1], {2}, None)
    assert asked == [4]
