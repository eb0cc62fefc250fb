"""How many rows changed since a version: told by our commits, and by nobody where others committed."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse.derived import changes
from lakehouse.derived.changes import Upstream, changed_rows, derived_commit
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.commits import Commit, Consumed, Entry, Metrics, said_in
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


def test_the_commit_of_a_derived_table_says_what_it_consumed_in_a_form_that_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "to_consume", lambda ledger: since(ledger.version))
    commit = derived_commit(Ledger("/feed", exists=True, version=1), upstream(4), "cli")
    assert (commit.consumed, commit.source) == (since(4), None)
    assert said_in(commit.model_dump_json()) == commit


def test_a_commit_says_nothing_that_its_form_does_not_hold() -> None:
    commit = Commit(kind="derived", number=1, attempt="a", table_version=0)
    with pytest.raises(ValidationError, match="source"):
        commit.with_fields(source=since(4))
