"""Which versions changed no row, and what of a history is not ours."""

from typing import Any

import pytest

from lakehouse.ledger.commits import Consumed, Upkeep
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.restores import standing
from lakehouse.ledger.row_versions import unchanged_versions
from lakehouse_tests.helpers.tables.infos import commit, maintained, merged, ours

pytestmark = pytest.mark.invariant(1, 10)


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
    read = {version: ledger.is_consumed(Consumed(table_id="id", version=version)) for version in (1, 2, 5, 6, 7)}
    assert read == {1: False, 2: True, 5: True, 6: True, 7: False}
    assert not ledger.is_consumed(Consumed(table_id="another", version=6))
    assert not ledger.is_consumed(None)


def test_what_keeps_a_table_in_shape_is_foreign_only_where_somebody_else_did_it() -> None:
    said = Upkeep(kind="upkeep", run="night").model_dump_json()
    own = [{**info, "userMetadata": said} for info in VACUUMED[:3]]
    found = standing(reversed([merged(1), merged(2), *own, maintained(6, 2), commit(7, "OPTIMIZE")]))
    assert [(one.version, one.operation) for one in found.foreign] == [(7, "OPTIMIZE")]
