"""A history read backwards: what counts, and what a RESTORE undid."""

from typing import Any

from lakehouse.commits import Commit
from lakehouse.ledger import walk


def merged(version: int, planned_on: int | None = None) -> dict[str, Any]:
    """A commit of ours; its number is its version."""
    on = version - 1 if planned_on is None else planned_on
    said = Commit(kind="batch", number=version, attempt=f"a{version}", table_version=on)
    return commit(version, "MERGE", userMetadata=said.model_dump_json())


def commit(version: int, operation: str, **more: Any) -> dict[str, Any]:
    return {"version": version, "timestamp": 1000 * version, "operation": operation, **more}


def restored(version: int, to: int) -> dict[str, Any]:
    return commit(version, "RESTORE", operationParameters={"version": str(to)})


def walked(*history: dict[str, Any]) -> tuple[list[int], set[int]]:
    """The numbers that count, newest first, and those undone, of a history given oldest first."""
    entries, _, undone = walk(reversed(history))
    return [entry.commit.number for entry in entries], set(undone)


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


def test_a_restore_by_time_undoes_what_came_later() -> None:
    by_time = commit(3, "RESTORE", operationParameters={"timestamp": "1970-01-01 00:00:01.500"})
    assert walked(merged(1), merged(2), by_time) == ([1], {2})
