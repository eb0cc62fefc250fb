"""How far a merge or a comparison is, as a terminal shows it, and the phases that a long command prints."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.cli import compare, output
from lakehouse.cli.compare import PassFigures, progress_text
from lakehouse.cli.output import CURRENT_PHASE, Pace, merge_progress, spinner
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.positions import Plan, Range, SourceId
from lakehouse.operations.compare import Progress
from lakehouse_tests.helpers.waiting import wait_until

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


PROGRESS = Progress("public.items", 20_000, 1_000_000, 1, 4)


def test_the_text_has_the_rows_of_an_estimate_and_the_pass_of_how_many() -> None:
    assert progress_text(PROGRESS) == "20,000 of about 1,000,000 rows of public.items, pass 1 of at most 4"
    assert progress_text(Progress("items", 1, None, 2, 11)) == "1 row of items, pass 2 of at most 11"


def test_the_text_changes_at_most_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(compare, "monotonic", lambda: now)
    figures = PassFigures()
    assert str(figures) == ""
    texts = list[str]()
    for tenth in range(25):
        now = 100.0 + tenth / 10
        figures.show(PROGRESS._replace(rows=tenth))
        texts.append(str(figures).partition(" ")[0])
    assert texts == ["0"] * 10 + ["10"] * 10 + ["20"] * 5


def test_only_a_terminal_shows_the_figures(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def spinner_text() -> str:
        figures = PassFigures()
        figures.show(PROGRESS)
        with spinner("Comparing", figures):
            pass
        return capsys.readouterr().err

    assert spinner_text() == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then assumes a terminal
    monkeypatch.setenv("COLUMNS", "200")
    assert "20,000 of about 1,000,000 rows of public.items, pass 1 of at most 4" in spinner_text()


LOG = logging.getLogger("lakehouse.ingest.batches")


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_FIRST_NOTICE", 0.0)


@pytest.mark.timeout(60)
def test_without_a_terminal_a_long_phase_is_printed_with_its_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    stderr = ""

    def is_printed() -> bool:
        nonlocal stderr
        stderr += capsys.readouterr().err
        return "Reading 12 offsets, " in stderr

    with output.track_phases():
        LOG.info("Reading %d offsets", 12)
        assert wait_until(is_printed)


def test_the_current_phase_is_the_newest_and_empty_before_the_first() -> None:
    with output.track_phases():
        assert str(CURRENT_PHASE) == ""
        LOG.info("Planning")
        LOG.info("Merging")
        assert str(CURRENT_PHASE).startswith("Merging, ")


def test_a_warning_is_printed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with output.track_phases():
        LOG.warning("Stopping the statement that writes %s", "t")
    assert "Stopping the statement that writes t" in capsys.readouterr().err
