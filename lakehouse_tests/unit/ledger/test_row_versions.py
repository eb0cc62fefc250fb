"""The versions that changed no row, and the foreign commits of a history."""

from typing import Any

import pytest

from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.commits import Upkeep
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import Ledger, unchanged_versions
from lakehouse.ledger.restores import valid_history
from lakehouse_tests.helpers.tables.infos import commit, maintained, merged, own_info


def ledger_of(*history: dict[str, Any]) -> Ledger:
    """Return a ledger with the versions of a history; ``history`` is oldest first."""
    unchanged = unchanged_versions(reversed(history))
    return Ledger("uri", table_id="id", version=history[-1]["version"], unchanged_versions=unchanged)


VACUUMED_HISTORY = (
    commit(3, "OPTIMIZE"),
    commit(4, "VACUUM START"),
    commit(5, "VACUUM END"),
    maintained(6, rows_version=2),
)


@pytest.mark.invariant("10.7")
def test_compaction_vacuum_and_maintenance_change_no_row() -> None:
    for upkeep in (VACUUMED_HISTORY[:3], VACUUMED_HISTORY):
        ledger = ledger_of(merged(1), commit(2, "UPDATE"), *upkeep)
        assert (ledger.rows_version, ledger.next_change(1), ledger.next_change(2)) == (2, 2, 3 + len(upkeep))


@pytest.mark.invariant("10.7")
def test_a_later_commit_covers_versions_whose_commits_are_gone() -> None:
    batch = own_info(7, "batch", table_version=6, rows_version=2)
    assert ledger_of(batch).next_change(2) == 7
    assert ledger_of(VACUUMED_HISTORY[-1]).rows_version == 2


@pytest.mark.invariant("10.7")
def test_a_commit_between_plan_and_maintenance_is_not_skipped() -> None:
    ledger = ledger_of(merged(1), commit(2, "DELETE"), own_info(3, "maintenance", table_version=1, rows_version=1))
    assert ledger.rows_version == 2


@pytest.mark.invariant("10.7")
def test_our_own_properties_change_no_row_but_those_of_others_might() -> None:
    metadata = Upkeep(kind="upkeep", run="night").model_dump_json()
    assert ledger_of(merged(1), commit(2, "SET TBLPROPERTIES", userMetadata=metadata)).rows_version == 1
    assert ledger_of(merged(1), commit(2, "SET TBLPROPERTIES")).rows_version == 2


@pytest.mark.invariant("1.3", "10.7")
@pytest.mark.parametrize("metadata", ["{}", '{"job": "nightly"}', '{"kind": "upkeep"}', "[]", "null", "not json"])
def test_metadata_of_another_program_never_makes_a_commit_ours(metadata: str) -> None:
    history = (merged(1), commit(2, "UPDATE", userMetadata=metadata))
    assert [foreign.version for foreign in valid_history(reversed(history)).foreign] == [2]
    assert ledger_of(*history).rows_version == 2


@pytest.mark.invariant("10.7")
def test_a_consumer_of_the_last_change_has_consumed_the_table() -> None:
    ledger = ledger_of(merged(1), merged(2), *VACUUMED_HISTORY)
    readers = {v: Consumption(ledger, Consumed(table_id="id", version=v)) for v in (1, 2, 5, 6, 7)}
    expected = {1: (False, 1), 2: (True, 0), 5: (True, 0), 6: (True, 0), 7: (False, 3)}
    assert {version: (reader.is_current, reader.lag) for version, reader in readers.items()} == expected
    for consumed in (Consumed(table_id="another", version=6), None):
        assert not Consumption(ledger, consumed).is_current


@pytest.mark.invariant("1.9")
def test_maintenance_is_foreign_only_if_another_program_ran_it() -> None:
    metadata = Upkeep(kind="upkeep", run="night").model_dump_json()
    own_upkeep = [{**info, "userMetadata": metadata} for info in VACUUMED_HISTORY[:3]]
    valid = valid_history(reversed([merged(1), merged(2), *own_upkeep, maintained(6, 2), commit(7, "OPTIMIZE")]))
    assert [(foreign.version, foreign.operation) for foreign in valid.foreign] == [(7, "OPTIMIZE")]
