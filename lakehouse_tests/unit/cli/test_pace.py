"""How far a merge is, from the commits it made: no session, no broker."""

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.cli.pace import Pace, merging
from lakehouse.ingest.batches import Outcome
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.positions import Plan, Range, SourceId

HERE = SourceId("kafka", "cluster/topic")


def outcome(*ranges: Range, lag: int, read: int, seconds: float) -> Outcome:
    """A batch that read so many records of its ranges; without ranges, a commit of base rows or of a gap."""
    commit = Commit(kind="batch", number=1, attempt="", table_version=0, read=read)
    plan = Plan("temperatures", HERE, ranges) if ranges else None
    span = plan.span if plan else 0
    return Outcome(Entry(1, datetime.now(UTC), commit, Metrics()), plan, lag, lag - span, seconds)


def pace_of(*outcomes: Outcome) -> Pace:
    pace = Pace()
    for each in outcomes:
        pace.add(each)
    return pace


FIRST = outcome(Range(0, 0, 300), Range(1, 500, 700), lag=2_000, read=400, seconds=10.0)
SECOND = outcome(Range(0, 300, 800), lag=9_999, read=500, seconds=5.0)


def test_nothing_is_told_before_the_first_batch() -> None:
    assert str(pace_of()) == ""
    assert pace_of().left == timedelta()


def test_the_rate_counts_records_and_the_time_left_offsets() -> None:
    assert str(pace_of(FIRST)) == "500 of 2,000 offsets, 40 records a second, 0:00:30 left"


def test_what_arrives_meanwhile_is_no_part_of_it() -> None:
    assert str(pace_of(FIRST, SECOND)) == "1,000 of 2,000 offsets, 60 records a second, 0:00:15 left"


def test_the_first_slow_batches_are_forgotten() -> None:
    slow = outcome(Range(0, 0, 500), lag=2_000, read=500, seconds=300.0)
    assert str(pace_of(slow, SECOND, SECOND, SECOND)) == "2,000 of 2,000 offsets, 100 records a second, 0:00:00 left"


def test_all_merged_leaves_no_time() -> None:
    assert pace_of(outcome(Range(0, 0, 7), lag=7, read=7, seconds=3.0)).left == timedelta()


def test_base_rows_and_gaps_are_no_part_of_it() -> None:
    other = outcome(lag=5, read=210_384, seconds=60.0)
    assert pace_of(other, FIRST, other) == pace_of(FIRST)


def test_only_a_terminal_shows_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> str:
        with merging() as show:
            show(FIRST)
        return capsys.readouterr().err

    assert shown() == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    monkeypatch.setenv("COLUMNS", "200")
    assert "500 of 2,000 offsets, 40 records a second, 0:00:30 left" in shown()
