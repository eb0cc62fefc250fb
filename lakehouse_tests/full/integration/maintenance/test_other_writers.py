"""Maintenance and other writers: a batch in between, and a restore across it."""

from collections.abc import Callable
from typing import Any

import pytest

from lakehouse.storage.stored_table import StoredTable
from lakehouse_tests.helpers.brokers.streams import hour, record
from lakehouse_tests.helpers.tables.old_files import leave_old_file


@pytest.mark.invariant("11.1")
def test_a_batch_committed_during_maintenance_is_not_undone(stream, monkeypatch):
    """One batch before maintenance plans its commit, and one between plan and commit."""
    stream.send_and_merge(record(time=hour(0)))
    new_records = iter([record(time=hour(1)), record(time=hour(2))])

    def merge_before(real_step: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            value = next(new_records, None)
            if value:
                stream.send_and_merge(value)
            return real_step(*arguments)

        return step

    monkeypatch.setattr(StoredTable, "run_upkeep", merge_before(StoredTable.run_upkeep))
    monkeypatch.setattr(StoredTable, "commit_nothing", merge_before(StoredTable.commit_nothing))
    leave_old_file(stream.uri)
    stream.maintain()
    assert next(new_records, None) is None
    assert set(stream.temperatures()) == {hour(number) for number in range(3)}
    assert stream.ledger.progress.positions[0] == 3
    assert stream.ledger.newest.commit.kind == "maintenance"
    stream.assert_accounted()


@pytest.mark.invariant("1.6")
def test_a_restore_across_maintenance_moves_the_progress_back_and_loses_no_record(stream):
    """First to a version within the maintenance, then to one before it."""
    stream.send_and_merge(record(time=hour(0)))
    stream.send_and_merge(record(time=hour(1)))
    leave_old_file(stream.uri)
    stream.maintain()
    rows = stream.snapshot()
    vacuum_version = stream.operations()[::-1].index("VACUUM START")
    for version, progress in ((vacuum_version, 2), (1, 1)):
        stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
        assert stream.ledger.progress.positions[0] == progress
    stream.merge()
    assert stream.snapshot() == rows
    assert stream.ledger.totals.read == 2
    stream.assert_accounted()
