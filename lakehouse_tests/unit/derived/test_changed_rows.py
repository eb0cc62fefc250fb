"""How many rows changed since a version: told by our commits, and by nobody where others committed."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse.derived.changes import Upstream, changed_rows
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.commits import Commit, Consumed, Entry, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.settings import Settings
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.stored_table import StoredTable

AT = datetime(2026, 5, 1, tzinfo=UTC)


def upstream(*versions: int) -> Upstream:
    """A merged table at version 4; each of these versions is a batch that inserted 2, updated 3 and deleted 1."""
    commit = Commit(kind="batch", number=1, attempt="a", table_version=0)
    counted = Metrics(source_rows=9, inserted=2, updated=3, deleted=1)
    entries = tuple(Entry(version, AT, commit, counted) for version in sorted(versions, reverse=True))
    none: Any = None
    merged = StoredTable(none, merged_layout(temperatures, Settings()))
    ledger = Ledger(merged.layout.uri, exists=True, table_id="id", version=4, entries=entries)
    return Upstream(temperatures, merged, ledger)


def since(version: int) -> Consumed:
    return Consumed(table_id="id", version=version)


@pytest.mark.parametrize(("consumed", "rows"), [(4, 0), (3, 6), (1, 18)])
def test_the_rows_that_changed_are_those_of_the_commits_since(consumed, rows):
    assert changed_rows(upstream(1, 2, 3, 4), since(consumed)) == rows


def test_nobody_knows_how_many_rows_a_commit_of_another_program_changed():
    assert changed_rows(upstream(1, 2, 4), since(2)) is None
    assert changed_rows(upstream(1, 2, 4), since(3)) == 6


def test_a_version_that_changed_no_row_counts_none():
    quiet = upstream(1, 2, 4)
    assert changed_rows(replace(quiet, ledger=replace(quiet.ledger, unchanged=frozenset({3}))), since(2)) == 6


def test_nothing_is_known_before_the_first_version_is_consumed():
    assert changed_rows(upstream(1, 2, 3, 4), None) is None
