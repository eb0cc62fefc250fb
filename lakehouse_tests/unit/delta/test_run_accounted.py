"""The commits of one run are checked by themselves: the newest part of the history is enough, however long it is."""

from datetime import UTC, datetime
from typing import Any

from lakehouse.delta.accounting import FIGURES, figures, in_words, sentence, sums
from lakehouse.delta.audit import Finding, batches_accounted
from lakehouse.delta.commits import Commit, Entry, Kind, Metrics, Totals
from lakehouse.topic.offsets import Range

TIME = datetime(2024, 1, 1, tzinfo=UTC)


def entry(version: int, start: int, end: int, kind: Kind = "batch", **said: Any) -> Entry:
    """A commit that read these offsets of partition 0 and wrote a row for each."""
    before = Totals(batches=version - 1, read=start, inserted=start)
    given = {"progress": {0: end}, "ranges": (Range(0, start, end),), "read": end - start, "totals_before": before}
    commit = Commit(kind=kind, number=version, attempt="a", table_version=version - 1, **{**given, **said})
    return Entry(version, TIME, commit, Metrics(source_rows=end - start, inserted=end - start))


ENTRIES = [entry(number, 10 * number - 10, 10 * number) for number in (1, 2, 3, 4, 5)]
NEWEST_FIRST = ENTRIES[::-1]


def found(history: list[Entry], written: list[Entry]) -> Finding:
    return batches_accounted(history, written)


def test_a_run_that_follows_the_history_is_accounted_for() -> None:
    assert found(NEWEST_FIRST, ENTRIES[3:]).passed
    assert found(NEWEST_FIRST, ENTRIES).passed
    assert found([], []).passed
    assert "nothing to commit" in found(NEWEST_FIRST, []).detail


def test_records_a_commit_does_not_account_for_are_told() -> None:
    wrong = entry(5, 40, 50, read=11)
    told = found([wrong, *NEWEST_FIRST[1:]], [wrong])
    assert not told.passed
    assert "Version 5: 11 records read" in told.detail


def test_a_run_with_nothing_to_commit_does_not_hide_that_the_one_before_it_does_not_add_up() -> None:
    wrong = entry(5, 40, 50, read=11)
    assert "Version 5: 11 records read" in found([wrong, *NEWEST_FIRST[1:]], []).detail
    assert not found([wrong, *NEWEST_FIRST[1:]], []).passed


def test_a_run_that_does_not_begin_where_the_one_before_it_ended_is_told() -> None:
    jump = entry(5, 42, 50, totals_before=ENTRIES[3].totals)
    told = found([jump, *NEWEST_FIRST[1:]], [jump])
    assert "gap in partition 0, offsets 40 to 41" in told.detail


def test_totals_that_do_not_go_on_are_told() -> None:
    wrong = entry(5, 40, 50, totals_before=Totals(batches=4, read=39, inserted=40))
    assert "Version 5: begins with" in found([wrong, *NEWEST_FIRST[1:]], [wrong]).detail


def test_what_is_behind_the_run_is_for_the_whole_checks() -> None:
    """An old fault is not told anew with every run."""
    old = [ENTRIES[0], entry(2, 13, 20), *ENTRIES[2:]]
    assert found(old[::-1], old[4:]).passed


def test_a_replay_between_two_batches_does_not_hide_where_the_first_ended() -> None:
    replay = entry(4, 0, 10, kind="replay", progress={0: 30}, totals_before=ENTRIES[2].totals)
    jump = entry(5, 35, 50, totals_before=ENTRIES[2].totals)
    assert "offsets 30 to 34" in found([jump, replay, *NEWEST_FIRST[2:]], [jump]).detail


def test_a_run_of_more_commits_than_are_read_is_checked_whole() -> None:
    wrong = entry(2, 10, 20, read=11)
    written = [ENTRIES[0], wrong, *ENTRIES[2:]]
    assert "Version 2" in found(NEWEST_FIRST[:2], written).detail


def test_a_commit_that_was_undone_meanwhile_is_not_expected_in_the_history() -> None:
    again = entry(7, 30, 50, totals_before=ENTRIES[2].totals)
    assert found([again, *NEWEST_FIRST[2:]], [ENTRIES[3], ENTRIES[4], again]).passed


def test_the_figures_have_one_spelling() -> None:
    assert tuple(figures(ENTRIES[0])) == FIGURES
    assert sums(ENTRIES)["read"] == 50
    assert set(sums([]).values()) == {0}
    words = "10 records read, 0 rejected, 0 duplicate, 0 late; 10 rows merged, 10 inserted, 0 updated, 0 stale"
    assert in_words(ENTRIES[0]) == words
    assert sentence(ENTRIES[0]) == f"batch 1 is version 1: {words}"
