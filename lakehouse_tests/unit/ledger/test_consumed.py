"""A consumed version is recognised, also if another commit reused its number after a restored backup."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.consumption import Consumption, has_consumed_version, version_to_consume
from lakehouse.ledger.ledger import Ledger
from lakehouse_tests.helpers.tables.logs import WrittenTable

pytestmark = pytest.mark.invariant("10.2")


@pytest.fixture
def table(tmp_path: Path) -> WrittenTable:
    """A table at version 2, with a backup of version 1."""
    table = WrittenTable.create(tmp_path / "t")
    table.batches(1)
    shutil.copytree(table.folder, tmp_path / "backup")
    table.batches(1)
    return table


def restore_backup(table: WrittenTable) -> None:
    shutil.rmtree(table.folder)
    shutil.copytree(table.folder.parent / "backup", table.folder)


def with_another_attempt(info: dict[str, Any]) -> dict[str, Any]:
    """Attempts are unique in real tables, but not in these."""
    return info | {"userMetadata": json.dumps(json.loads(info["userMetadata"]) | {"attempt": "another"})}


@pytest.mark.invariant("10.1")
def test_a_consumed_version_is_recognised_after_further_batches(table: WrittenTable) -> None:
    consumed = version_to_consume(table.ledger)
    assert consumed.version == 2 and consumed.commit
    table.batches(1)
    assert has_consumed_version(table.ledger, consumed)


def test_a_version_of_another_commit_after_a_restored_backup_is_another_version(table: WrittenTable) -> None:
    consumed = version_to_consume(table.ledger)
    restore_backup(table)
    assert not has_consumed_version(table.ledger, consumed)
    table.batches(1)
    table.edit(2, with_another_attempt)
    assert not Consumption(table.ledger, consumed).is_current
    table.batches(1)
    assert Consumption(table.ledger, version_to_consume(table.ledger)).is_current
    assert not has_consumed_version(table.ledger, consumed)


def test_a_version_of_another_program_is_recognised_by_its_time(table: WrittenTable) -> None:
    table.write(7)
    consumed = version_to_consume(table.ledger)
    assert has_consumed_version(table.ledger, consumed)
    restore_backup(table)
    table.batches(1)
    table.write(8)
    table.edit(3, lambda info: info | {"timestamp": info["timestamp"] + 1})
    assert not has_consumed_version(table.ledger, consumed)


def test_a_version_whose_commit_is_unknown_is_assumed_to_be_the_same(table: WrittenTable) -> None:
    """The commit was not in the log when the version was consumed, or is no longer there."""
    consumed = version_to_consume(table.ledger)
    assert has_consumed_version(table.ledger, Consumed(table_id=consumed.table_id, version=2))
    table.batches(2)
    table.clean(4)
    assert has_consumed_version(table.ledger, consumed)
    assert not has_consumed_version(table.ledger, Consumed(table_id="recreated", version=2))


@pytest.mark.parametrize(
    ("consumed", "batches", "unchanged", "rows"),
    [
        (4, {1, 2, 3, 4}, set(), 0),
        (3, {1, 2, 3, 4}, set(), 6),
        (1, {1, 2, 3, 4}, set(), 18),
        (2, {1, 2, 4}, set(), None),
        (3, {1, 2, 4}, set(), 6),
        (2, {1, 2, 4}, {3}, 6),
        (None, {1, 2, 3, 4}, set(), None),
    ],
)
def test_changed_rows_are_those_of_our_commits_since_and_unknown_if_another_program_committed(
    consumed: int | None, batches: set[int], unchanged: set[int], rows: int | None
) -> None:
    commit = Commit(kind="batch", number=1, attempt="a", table_version=0)
    metrics = Metrics(source_rows=9, inserted=2, updated=3, deleted=1)
    entries = tuple(Entry(version, datetime.now(UTC), commit, metrics) for version in sorted(batches, reverse=True))
    source = Ledger("/t", table_id="id", version=4, entries=entries, unchanged_versions=frozenset(unchanged))
    reader = Consumption(source, None if consumed is None else Consumed(table_id="id", version=consumed))
    assert reader.changed_rows == rows


def test_a_commit_accepts_no_value_of_a_wrong_type() -> None:
    commit = Commit(kind="derived", number=1, attempt="a", table_version=0)
    with pytest.raises(ValidationError, match="source"):
        commit.with_fields(source=Consumed(table_id="id", version=1))
