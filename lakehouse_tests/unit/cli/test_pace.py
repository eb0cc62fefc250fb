"""How far a merge is, from its commits: no session, no broker."""

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.cli.output import Pace, merge_progress
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.positions import Plan, Range, SourceId

HERE = SourceId("kafka", "cluster/topic")


def outcome(*ranges: Range, lag: int, read: int, seconds: float) -> Outcome:
    """A batch that read ``read`` records of its ranges; without ranges, a commit of base rows or of a gap."""
    commit = Commit(kind="batch", number=1, attempt="", table_version=0, read=read)
    plan = Plan("temperatures", HERE, ranges) if ranges else None
    span = plan.span if plan else 0
    return Outcome(Entry(1, datetime.now(UTC), commit, Metrics()), plan, lag, lag - span, seconds)


def pace_of(*outcomes: Outcome) -> Pace:
    pace = Pace()
    for commit_outcome in outcomes:
        pace.add(commit_outcome)
    return pace


FIRST = outcome(Range(0, 0, 300), Range(1, 500, 700), lag=2_000, read=400, seconds=10.0)
SECOND = outcome(Range(0, 300, 800), lag=9_999, read=500, seconds=5.0)


def test_the_pace_is_empty_before_the_first_batch() -> None:
    assert str(pace_of()) == ""
    assert pace_of().time_left == timedelta()


def test_the_rate_counts_records_and_the_time_left_counts_offsets() -> None:
    assert str(pace_of(FIRST)) == "500 of 2,000 offsets, 40 records a second, 0:00:30 left"


def test_records_that_arrive_meanwhile_do_not_count() -> None:
    assert str(pace_of(FIRST, SECOND)) == "1,000 of 2,000 offsets, 60 records a second, 0:00:15 left"


def test_the_slow_first_batches_do_not_count() -> None:
    slow = outcome(Range(0, 0, 500), lag=2_000, read=500, seconds=300.0)
    assert str(pace_of(slow, SECOND, SECOND, SECOND)) == "2,000 of 2,000 offsets, 100 records a second, 0:00:00 left"


def test_no_time_is_left_if_everything_is_merged() -> None:
    assert pace_of(outcome(Range(0, 0, 7), lag=7, read=7, seconds=3.0)).time_left == timedelta()


def test_base_rows_and_gaps_do_not_count() -> None:
    other_outcome = outcome(lag=5, read=210_384, seconds=60.0)
    assert pace_of(other_outcome, FIRST, other_outcome) == pace_of(FIRST)


def test_only_a_terminal_shows_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def bar_text() -> str:
        with merge_progress() as show:
            show(FIRST)
        return capsys.readouterr().err

    assert bar_text() == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then assumes a terminal
    monkeypatch.setenv("COLUMNS", "200")
    assert "500 of 2,000 offsets, 40 records a second, 0:00:30 left" in bar_text()
