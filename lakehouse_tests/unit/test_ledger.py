"""A history read backwards: what counts, and what a RESTORE undid."""

from typing import Any

import pytest

from lakehouse.delta.commits import Commit, Kind, Source, Upkeep
from lakehouse.delta.ledger import Ledger
from lakehouse.delta.restores import standing
from lakehouse.delta.row_versions import unchanged_versions

pytestmark = pytest.mark.invariant(1)


def maintained(version: int, rows_version: int) -> dict[str, Any]:
    """The commit that ends maintenance, planned on the version before it."""
    return ours(version, "maintenance", table_version=version - 1, rows_version=rows_version)


def ours(version: int, kind: Kind, **more: Any) -> dict[str, Any]:
    said = Commit(kind=kind, number=version, attempt=f"a{version}", **more)
    return commit(version, "MERGE", userMetadata=said.model_dump_json())


def merged(version: int, planned_on: int | None = None) -> dict[str, Any]:
    """A commit of ours; its number is its version."""
    return ours(version, "batch", table_version=version - 1 if planned_on is None else planned_on)


def commit(version: int, operation: str, **more: Any) -> dict[str, Any]:
    return {"version": version, "timestamp": 1000 * version, "operation": operation, **more}


def restored(version: int, to: int) -> dict[str, Any]:
    return commit(version, "RESTORE", operationParameters={"version": str(to)})


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


def ledger_of(*history: dict[str, Any]) -> Ledger:
    """The ledger of a history given oldest first, as far as its versions go."""
    unchanged = unchanged_versions(reversed(history))
    return Ledger("uri", table_id="id", version=history[-1]["version"], unchanged=unchanged)


VACUUMED = (commit(3, "OPTIMIZE"), commit(4, "VACUUM START"), commit(5, "VACUUM END"), maintained(6, rows_version=2))


def test_compaction_vacuum_and_maintenance_change_no_row_whoever_ran_them() -> None:
    for upkeep in (VACUUMED[:3], VACUUMED):
        ledger = ledger_of(merged(1), commit(2, "UPDATE"), *upkeep)
        assert (ledger.rows_version, ledger.next_change(1), ledger.next_change(2)) == (2, 2, 3 + len(upkeep))


def test_a_later_commit_tells_of_versions_whose_commits_are_gone() -> None:
    later = ours(7, "batch", table_version=6, rows_version=2)
    assert ledger_of(later).next_change(2) == 7
    assert ledger_of(VACUUMED[-1]).rows_version == 2


def test_a_commit_between_plan_and_maintenance_is_not_passed_over() -> None:
    ledger = ledger_of(merged(1), commit(2, "DELETE"), ours(3, "maintenance", table_version=1, rows_version=1))
    assert ledger.rows_version == 2


def test_properties_of_ours_change_no_row_and_those_of_others_might() -> None:
    said = Upkeep(kind="upkeep", run="night").model_dump_json()
    assert ledger_of(merged(1), commit(2, "SET TBLPROPERTIES", userMetadata=said)).rows_version == 1
    assert ledger_of(merged(1), commit(2, "SET TBLPROPERTIES")).rows_version == 2


@pytest.mark.parametrize("said", ["{}", '{"job": "nightly"}', '{"kind": "upkeep"}', "[]", "null", "not json"])
def test_what_another_program_says_of_its_commit_never_makes_it_ours(said: str) -> None:
    history = (merged(1), commit(2, "UPDATE", userMetadata=said))
    assert [one.version for one in standing(reversed(history)).foreign] == [2]
    assert ledger_of(*history).rows_version == 2


def test_whoever_consumed_the_last_change_has_consumed_the_table() -> None:
    ledger = ledger_of(merged(1), merged(2), *VACUUMED)
    read = {version: ledger.is_consumed(Source(table_id="id", version=version)) for version in (1, 2, 5, 6, 7)}
    assert read == {1: False, 2: True, 5: True, 6: True, 7: False}
    assert not ledger.is_consumed(Source(table_id="another", version=6))
    assert not ledger.is_consumed(None)


def test_what_keeps_a_table_in_shape_is_foreign_only_where_somebody_else_did_it() -> None:
    said = Upkeep(kind="upkeep", run="night").model_dump_json()
    own = [{**info, "userMetadata": said} for info in VACUUMED[:3]]
    found = standing(reversed([merged(1), merged(2), *own, maintained(6, 2), commit(7, "OPTIMIZE")]))
    assert [(one.version, one.operation) for one in found.foreign] == [(7, "OPTIMIZE")]


def test_maintenance_planned_before_a_restore_and_committed_after_it_is_undone() -> None:
    history = (merged(1), merged(2), restored(3, to=1), ours(4, "maintenance", table_version=2))
    assert walked(*history) == ([1], {2, 4})
