"""What consumed a version of a table knows it again, also where another commit took its number after a backup."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lakehouse.ledger.commits import Consumed
from lakehouse.ledger.ledger import still_holds, to_consume
from lakehouse_tests.helpers.tables.logs import Written

pytestmark = pytest.mark.invariant(10)


@pytest.fixture
def table(tmp_path: Path) -> Written:
    """A table at version 2, of which a backup was taken at version 1."""
    table = Written.create(tmp_path / "t")
    table.batches(1)
    shutil.copytree(table.folder, tmp_path / "backup")
    table.batches(1)
    return table


def bring_back(table: Written) -> None:
    shutil.rmtree(table.folder)
    shutil.copytree(table.folder.parent / "backup", table.folder)


def with_another_attempt(info: dict[str, Any]) -> dict[str, Any]:
    """Attempts are never twice the same, but in these tables."""
    return info | {"userMetadata": json.dumps(json.loads(info["userMetadata"]) | {"attempt": "another"})}


def test_a_version_is_the_one_consumed_as_long_as_the_table_goes_on(table: Written) -> None:
    consumed = to_consume(table.ledger)
    assert consumed.version == 2 and consumed.commit
    table.batches(1)
    assert still_holds(table.ledger, consumed)


def test_a_version_that_another_commit_made_after_a_backup_is_another_one(table: Written) -> None:
    consumed = to_consume(table.ledger)
    bring_back(table)
    assert not still_holds(table.ledger, consumed)
    table.batches(1)
    table.edit(2, with_another_attempt)
    assert not table.ledger.is_consumed(consumed)
    table.batches(1)
    assert table.ledger.is_consumed(to_consume(table.ledger))
    assert not still_holds(table.ledger, consumed)


def test_a_version_that_somebody_else_committed_is_known_by_its_time(table: Written) -> None:
    table.write(7)
    consumed = to_consume(table.ledger)
    assert still_holds(table.ledger, consumed)
    bring_back(table)
    table.batches(1)
    table.write(8)
    table.edit(3, lambda info: info | {"timestamp": info["timestamp"] + 1})
    assert not still_holds(table.ledger, consumed)


def test_what_is_not_told_is_taken_for_the_same(table: Written) -> None:
    """Of a version whose commit is no longer in the log, when it was consumed or now."""
    consumed = to_consume(table.ledger)
    assert still_holds(table.ledger, Consumed(table_id=consumed.table_id, version=2))
    table.batches(2)
    table.clean(4)
    assert still_holds(table.ledger, consumed)
    assert not still_holds(table.ledger, Consumed(table_id="made anew", version=2))
