"""A consumed version is recognised, also if another commit reused its number after a restored backup."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.consumption import has_consumed_version, is_consumed, version_to_consume
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
    assert not is_consumed(table.ledger, consumed)
    table.batches(1)
    assert is_consumed(table.ledger, version_to_consume(table.ledger))
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
