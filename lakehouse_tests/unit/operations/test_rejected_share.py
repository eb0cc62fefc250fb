"""The share of rejected records is that of a recent window: what was put right is no alarm for ever."""

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.ledger.commits import Commit, Entry, Kind, Metrics, Totals
from lakehouse.ledger.ledger import Ledger
from lakehouse.operations.verify import rejected_share

pytestmark = pytest.mark.invariant(8)

NOW = datetime(2026, 5, 2, 12, tzinfo=UTC)


def entry(number: int, ago: timedelta, read: int, rejected: int, kind: Kind = "batch") -> Entry:
    totals = Totals(batches=number - 1, read=9_000, rejected=4_000)
    commit = Commit(
        kind=kind,
        number=number,
        attempt="a",
        table_version=number - 1,
        read=read,
        rejected=rejected,
        totals_before=totals,
    )
    return Entry(number, NOW - ago, commit, Metrics(source_rows=read - rejected, inserted=read - rejected))


def share_of(*entries: Entry) -> tuple[bool, str]:
    """What the check says of a history, oldest first."""
    found = rejected_share(Ledger("", entries=entries[::-1], transaction=len(entries)), NOW)
    return found.passed, found.detail


def test_what_was_rejected_more_than_a_day_ago_is_no_alarm() -> None:
    passed, said = share_of(entry(1, timedelta(hours=25), 5_000, 4_500), entry(2, timedelta(hours=1), 100, 0))
    assert passed
    assert "since 2026-05-02 11:00 UTC" in said


def test_what_was_rejected_lately_is_told_with_the_window_it_is_a_share_of() -> None:
    long_ago = entry(1, timedelta(days=9), 1_000_000, 0)
    passed, said = share_of(
        long_ago, entry(2, timedelta(hours=2), 60, 1), entry(3, timedelta(hours=1), 40, 2), entry(4, timedelta(0), 0, 0)
    )
    assert not passed
    assert "3 of 100 records were rejected (3.00%)" in said
    assert "since 2026-05-02 10:00 UTC" in said
    assert "24 hours" in said


def test_only_the_newest_hundred_commits_are_looked_at() -> None:
    wrong = entry(1, timedelta(hours=2), 100, 100)
    right = [entry(number, timedelta(hours=1), 1, 0) for number in range(2, 102)]
    assert share_of(wrong, *right)[0]
    assert not share_of(wrong, *right[:99])[0]


def test_records_that_were_read_before_are_not_counted_again() -> None:
    batch = entry(1, timedelta(hours=2), 1_000, 1)
    again = entry(2, timedelta(0), 50, 50, "replay"), entry(3, timedelta(0), 50, 50, "redrive")
    assert share_of(batch, *again)[0]


def test_a_table_that_nothing_was_merged_into_lately_is_no_alarm() -> None:
    assert share_of()[0]
    assert share_of(entry(1, timedelta(days=2), 100, 100))[0]
