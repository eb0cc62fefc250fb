"""A table that is declared otherwise than its rows are stored: what is said of it, and that nothing is lost."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse.declaration import Column, StreamTable
from lakehouse.errors import TableError
from lakehouse.ledger.audit import audit
from lakehouse.operations.planned_changes import plan_changes
from lakehouse.operations.verify import verify_keys, verify_rollup
from lakehouse_tests.helpers.brokers.streams import Stream


def otherwise(table: StreamTable, *columns: Column, **changes: Any) -> StreamTable:
    named = {column.name: column for column in columns}
    return replace(table, columns=[named.get(each.name, each) for each in table.columns], **changes)


def refused(stream: Stream) -> str:
    """What plan says of the declaration, which is what a merge stops with."""
    (told, *_) = (each.detail for each in plan_changes(stream.settings, stream.table) if each.kind == "refuse")
    with pytest.raises(TableError) as stopped:
        stream.merge()
    assert str(stopped.value) == told
    return told


def assert_exact(stream: Stream, key: str) -> None:
    assert verify_rollup(stream.context, stream.table.rollups[0]).passed
    assert verify_keys(stream.context).passed
    assert all(finding.passed for finding in audit(stream.ledger))
    rows = stream.snapshot_of(key)
    stream.replay()
    assert stream.snapshot_of(key) == rows
