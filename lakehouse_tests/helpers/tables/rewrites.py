"""Tables whose declaration differs from the stored rows: the message of the refusal, and checks that no row is lost."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse.declaration import Column, StreamTable
from lakehouse.errors import TableError
from lakehouse.ledger.audit import audit
from lakehouse.operations.planned_changes import plan_changes
from lakehouse.operations.verify import verify_keys, verify_rollup
from lakehouse_tests.helpers.brokers.streams import Stream


def with_columns(table: StreamTable, *columns: Column, **changes: Any) -> StreamTable:
    new_columns = {column.name: column for column in columns}
    return replace(table, columns=[new_columns.get(column.name, column) for column in table.columns], **changes)


def require_refusal(stream: Stream) -> str:
    """Return the refusal of the plan, and check that a merge fails with the same message."""
    (refusal, *_) = (change.detail for change in plan_changes(stream.settings, stream.table) if change.kind == "refuse")
    with pytest.raises(TableError) as raised:
        stream.merge()
    assert str(raised.value) == refusal
    return refusal


def assert_exact(stream: Stream, key: str) -> None:
    assert verify_rollup(stream.context, stream.table.rollups[0]).passed
    assert verify_keys(stream.context).passed
    assert all(finding.passed for finding in audit(stream.ledger))
    rows = stream.snapshot_of(key)
    stream.replay()
    assert stream.snapshot_of(key) == rows
