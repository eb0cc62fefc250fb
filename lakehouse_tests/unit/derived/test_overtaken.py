"""A derived table goes back to no older version because a run that began earlier ends later."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.derived import feed, refresh
from lakehouse.derived.feed import Upstream, derived_commit
from lakehouse.errors import ConflictError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.commit_infos import parse_metadata
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.ledger.ledger import Ledger
from lakehouse.operations.verify import verify_rollup
from lakehouse.settings import Settings
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.tables.logs import WrittenTable

Update = Callable[[Upstream, StoredTable], object]


class DerivedBefore:
    """A derived table that another process has updated to a version of the merged table."""

    def __init__(self, table_id: str, version: int) -> None:
        consumed = Consumed(table_id=table_id, version=version)
        commit = Commit(kind="derived", number=1, attempt="a", table_version=0, consumed=consumed)
        no_value: Any = None
        entry = Entry(1, no_value, commit, no_value)
        self.ledger = Ledger("derived", exists=True, transaction=1, entries=(entry,))
        self.layout = self.spark = no_value

    def ensured_ledger(self) -> Ledger:
        """Return the ledger."""
        return self.ledger


def update_feed(upstream: Upstream, table: StoredTable) -> object:
    return feed.update_changes(upstream, table, "older")


def update_rollup(upstream: Upstream, table: StoredTable) -> object:
    return refresh.update_rollup(upstream, temperatures.rollups[0], table, "older")


@pytest.mark.invariant("10.13")
@pytest.mark.parametrize("update", [update_feed, update_rollup])
def test_a_run_that_read_an_older_version_is_planned_again(tmp_path: Path, update: Update) -> None:
    merged = WrittenTable.create(tmp_path / "merged")
    merged.merge(1)
    read_before = merged.ledger
    merged.merge(2)
    no_session: Any = None
    derived: Any = DerivedBefore(read_before.table_id, merged.version)
    with pytest.raises(ConflictError, match="has derived a newer version"):
        update(Upstream(temperatures, no_session, read_before), derived)


@pytest.mark.invariant("10.13")
@pytest.mark.parametrize("update", [update_feed, update_rollup])
def test_a_merged_table_that_went_back_is_no_conflict(tmp_path: Path, update: Update) -> None:
    merged = WrittenTable.create(tmp_path / "merged")
    merged.merge(1)
    no_session: Any = None
    derived: Any = DerivedBefore(merged.ledger.table_id, 7)
    with pytest.raises(AttributeError):  # it goes on, to what needs a session
        update(Upstream(temperatures, no_session, merged.ledger), derived)


@pytest.mark.invariant("10.1")
def test_the_commit_of_a_derived_table_names_the_version_and_its_commit(tmp_path: Path) -> None:
    merged = WrittenTable.create(tmp_path / "merged")
    merged.merge(1)
    no_session: Any = None
    commit = derived_commit(
        Ledger("/feed", exists=True, version=1), Upstream(temperatures, no_session, merged.ledger), "cli"
    )
    assert commit.consumed == version_to_consume(merged.ledger)
    assert (commit.consumed.version, commit.source) == (merged.version, None)
    assert parse_metadata(commit.model_dump_json()) == commit


@pytest.mark.invariant("10.2")
def test_a_rollup_is_not_compared_with_a_version_that_another_commit_made(tmp_path: Path) -> None:
    """Double: the merged table was restored from a backup, and another batch has the number of the consumed version."""
    settings, (by_location,) = Settings(home=tmp_path, _env_file=None), temperatures.rollups
    merged = WrittenTable.create(Path(settings.table_uri(temperatures.name)), temperatures.name)
    merged.batches(1)
    consumed = Consumed(table_id=merged.ledger.table_id, version=1, commit="another")
    derived_table = WrittenTable.create(Path(settings.table_uri(by_location.name)), by_location.name)
    derived_table.merge(1)
    commit = {"kind": "derived", "consumed": consumed.model_dump(), "declaration": by_location.fingerprint}
    derived_table.edit(1, lambda info: info | {"userMetadata": json.dumps(json.loads(info["userMetadata"]) | commit)})
    no_session: Any = None
    finding = verify_rollup(TableContext(no_session, settings, temperatures), by_location)
    assert not finding.passed
    assert "temperatures was recreated or restored since then" in finding.detail
