"""The number of rows that changed since a version: known from our commits, unknown if other programs committed."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse.derived import changes
from lakehouse.derived.changes import Upstream, changed_rows, derived_commit
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.commit_infos import parse_metadata
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.settings import Settings
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.stored_table import StoredTable

AT = datetime(2026, 5, 1, tzinfo=UTC)


def upstream(*versions: int) -> Upstream:
    """Return a merged table at version 4; each given version is a batch that inserted 2, updated 3 and deleted 1."""
    commit = Commit(kind="batch", number=1, attempt="a", table_version=0)
    metrics = Metrics(source_rows=9, inserted=2, updated=3, deleted=1)
    entries = tuple(Entry(version, AT, commit, metrics) for version in sorted(versions, reverse=True))
    no_spark: Any = None
    merged = StoredTable(no_spark, merged_layout(temperatures, Settings()))
    ledger = Ledger(merged.layout.uri, exists=True, table_id="id", version=4, entries=entries)
    return Upstream(temperatures, merged, ledger)


def since(version: int) -> Consumed:
    return Consumed(table_id="id", version=version)


@pytest.mark.parametrize(("consumed", "rows"), [(4, 0), (3, 6), (1, 18)])
def test_the_changed_rows_are_those_of_the_commits_since_a_version(consumed, rows):
    assert changed_rows(upstream(1, 2, 3, 4), since(consumed)) == rows


def test_the_number_of_rows_that_another_program_changed_is_unknown():
    assert changed_rows(upstream(1, 2, 4), since(2)) is None
    assert changed_rows(upstream(1, 2, 4), since(3)) == 6


def test_a_version_that_changed_no_row_counts_none():
    merged_table = upstream(1, 2, 4)
    ledger = replace(merged_table.ledger, unchanged_versions=frozenset({3}))
    assert changed_rows(replace(merged_table, ledger=ledger), since(2)) == 6


def test_the_number_is_unknown_before_the_first_version_is_consumed():
    assert changed_rows(upstream(1, 2, 3, 4), None) is None


@pytest.mark.invariant("10.1")
def test_the_consumed_version_in_the_commit_of_a_derived_table_can_be_read_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "version_to_consume", lambda ledger: since(ledger.version))
    commit = derived_commit(Ledger("/feed", exists=True, version=1), upstream(4), "cli")
    assert (commit.consumed, commit.source) == (since(4), None)
    assert parse_metadata(commit.model_dump_json()) == commit


def test_a_commit_accepts_no_value_of_a_wrong_type() -> None:
    commit = Commit(kind="derived", number=1, attempt="a", table_version=0)
    with pytest.raises(ValidationError, match="source"):
        commit.with_fields(source=since(4))
