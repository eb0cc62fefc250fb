"""The accounting of a table whose records have many rows: records and rows both add up."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse.errors import AccountingError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.counts import Counts
from lakehouse.ledger.accounting import describe_counts, figures, require_accounted, shown_totals
from lakehouse.ledger.audit import audit
from lakehouse.ledger.commit_infos import parse_metadata
from lakehouse.ledger.commit_values import Totals
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Range, SourceId
from lakehouse.operations.verify import rejected_share

TIME = datetime(2024, 1, 1, tzinfo=UTC)
# of four records, one is without a row; the others have seven rows
COUNTS = {"read": 4, "empty": 1, "rows_read": 7, "filtered": 1, "rejected": 2, "superseded": 1}


def batch(**changes: Any) -> Entry:
    ranges = {"ranges": (Range(0, 0, 4),), "progress": {0: 4}, "source": SourceId("kafka", "c/t")}
    commit = Commit(kind="batch", number=1, attempt="a", table_version=0, **ranges, **COUNTS | changes)
    return Entry(1, TIME, commit, Metrics(source_rows=3, inserted=3))


@pytest.mark.invariant("7.11")
def test_a_batch_whose_records_and_rows_add_up_is_accounted_for() -> None:
    assert require_accounted(batch(), temperatures.name) == batch()
    assert all(finding.passed for finding in audit(Ledger("t", entries=(batch(),), transaction=1)))


@pytest.mark.invariant("7.5", "7.11")
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rows_read": 8}, "read 8 rows but accounts for 7"),
        ({"read": 9}, "read 9 records, 1 of them without a row, but only 7 rows"),
        ({"empty": 5}, "read 4 records, 5 of them without a row, but only 7 rows"),
        ({"rows_read": None}, "read 4 records but accounts for 7"),
    ],
)
def test_a_batch_that_lost_a_record_or_a_row_is_an_error_and_fails_the_audit(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(AccountingError, match=problem):
        require_accounted(batch(**changes), temperatures.name)
    findings = audit(Ledger("t", entries=(batch(**changes),), transaction=1))
    assert "records_accounted" in [finding.check for finding in findings if not finding.passed]


@pytest.mark.invariant("7.1")
def test_the_counts_of_rows_are_shown_and_summed() -> None:
    assert (figures(batch())["rows_read"], figures(batch())["empty"]) == (7, 1)
    assert "4 records read, 1 empty, 7 rows read, 1 filtered, 2 rejected" in describe_counts(batch())
    assert (batch().totals.rows_read, batch().totals.empty) == (7, 1)
    plain = batch(rows_read=None, empty=0)
    assert "rows read" not in describe_counts(plain)
    assert {"rows_read", "empty"}.isdisjoint(shown_totals(plain.totals.model_dump()))


def test_the_share_of_rejected_rows_is_that_of_rows() -> None:
    now = TIME.replace(hour=1)
    detail = rejected_share(Ledger("t", entries=(batch(),), transaction=1), now).detail
    assert "2 of 6 records were rejected" in detail


def test_rows_to_merge_are_those_that_were_read_and_not_left_out() -> None:
    counts = Counts(4, rejected=2, superseded=1, late=0, filtered=1, empty=1, rows_read=7)
    assert (counts.rows, replace(counts, rows_read=None).rows) == (3, 0)


@pytest.mark.invariant("1.10")
def test_a_commit_without_the_counts_of_rows_is_read() -> None:
    document = '{"metadata": 19, "kind": "batch", "number": 1, "attempt": "a", "table_version": 0, "read": 3}'
    commit = parse_metadata(document)
    assert isinstance(commit, Commit)
    assert (commit.rows_read, commit.judged, commit.totals_before) == (None, 3, Totals())
