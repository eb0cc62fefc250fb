"""The commits of one run are checked by themselves: the newest part of the history is enough, however long it is."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lakehouse.ledger.accounting import FIGURES, figures, in_words, sentence, sums
from lakehouse.ledger.audit import Finding, audit, batches_accounted
from lakehouse.ledger.commits import Commit, Entry, Kind, Metrics, Totals
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Range, SourceId

HERE = SourceId("kafka", "c/t")
TIME = datetime(2024, 1, 1, tzinfo=UTC)


def entry(version: int, start: int, end: int, kind: Kind = "batch", **said: Any) -> Entry:
    """A commit that read these offsets of partition 0 and wrote a row for each."""
    before = Totals(batches=version - 1, read=start, inserted=start)
    given = {"source": HERE, "progress": {0: end}, "ranges": (Range(0, start, end),), "read": end - start}
    commit = Commit(
        kind=kind, number=version, attempt="a", table_version=version - 1, **{**given, "totals_before": before, **said}
    )
    return Entry(version, TIME, commit, Metrics(source_rows=end - start, inserted=end - start))


def accepting(versions: tuple[int, ...], reason: str, totals: Totals) -> Entry:
    """Version 6, in which a person accepts what does not add up at these versions."""
    return entry(6, 50, 50, kind="acceptance", accepted=versions, reason=reason, totals_before=totals)


ENTRIES = [entry(number, 10 * number - 10, 10 * number) for number in (1, 2, 3, 4, 5)]
NEWEST_FIRST = ENTRIES[::-1]


def found(history: list[Entry], written: list[Entry]) -> Finding:
    return batches_accounted(ledger(history), written)


def ledger(history: list[Entry]) -> Ledger:
    """The ledger of table readings; ``history`` is newest first."""
    return Ledger("/tables/readings", entries=tuple(history), transaction=history[0].version if history else 0)


def followed(history: list[Entry], start: int, end: int) -> list[Entry]:
    """The history with one batch more, which carries on what the ledger carries on; newest first."""
    told = ledger(history)
    carried = told.next_commit("batch", "run")
    following = entry(carried.number, start, end, totals_before=told.totals, unaccounted=carried.unaccounted)
    return [following, *history]


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


def test_a_batch_that_does_not_add_up_fails_the_next_runs_too() -> None:
    wrong = entry(5, 40, 50, read=11)
    history = followed([wrong, *NEWEST_FIRST[1:]], 50, 60)
    told = found(history, history[:1])
    assert "Version 5: 11 records read" in told.detail
    assert "lakehouse accept-difference readings --version 5 --reason" in told.detail
    assert not found(history, []).passed


def test_a_range_that_was_stepped_over_fails_the_next_runs_too() -> None:
    history = followed([entry(5, 42, 50, totals_before=ENTRIES[3].totals), *NEWEST_FIRST[1:]], 50, 60)
    assert "gap in partition 0, offsets 40 to 41" in found(history, history[:1]).detail


def test_a_batch_that_does_not_add_up_is_told_however_long_ago_it_was() -> None:
    """Each commit carries on which ones do not, so that no more of the history has to be read."""
    history = [entry(5, 40, 50, read=11), *NEWEST_FIRST[1:]]
    for start in range(50, 90, 10):
        history = followed(history, start, start + 10)[:2]
    told = found(history, history[:1])
    assert not told.passed
    assert "Version 5" in told.detail


def test_what_the_history_shows_to_be_right_is_carried_on_no_longer() -> None:
    carrying = entry(6, 50, 60, unaccounted=(4,), totals_before=ENTRIES[4].totals)
    assert found([carrying, *NEWEST_FIRST], []).passed
    assert ledger([carrying, *NEWEST_FIRST]).next_commit("batch", "run").unaccounted == ()
    assert not found([carrying, *NEWEST_FIRST[:1]], []).passed


def test_a_difference_that_a_person_accepted_fails_no_run_and_is_told_by_the_audit() -> None:
    before = [entry(5, 40, 50, read=11), *NEWEST_FIRST[1:]]
    history = [accepting((5,), "one record was a test", before[0].totals), *before]
    assert found(history, []).passed
    assert ledger(history).next_commit("batch", "run").unaccounted == ()
    read = next(each for each in audit(ledger(history)) if each.check == "accounting_read")
    assert read.passed
    assert "version 5 (accepted in version 6: one record was a test)" in read.detail


def test_one_difference_that_is_accepted_hides_no_other() -> None:
    wrong = [entry(4, 30, 40, read=11), entry(5, 40, 50, read=12)]
    totals = wrong[0].totals
    before = [replace(wrong[1], commit=wrong[1].commit.model_copy(update={"totals_before": totals})), wrong[0]]
    history = [accepting((4,), "known", before[0].totals), *before, *NEWEST_FIRST[2:]]
    assert "Version 4" not in found(history, []).detail
    assert "Version 5" in found(history, []).detail
    assert ledger(history).next_commit("batch", "run").unaccounted == (5,)


def test_the_audit_tells_of_a_difference_whose_commit_has_expired() -> None:
    left = [entry(9, 80, 90, unaccounted=(5,))]
    read = next(each for each in audit(ledger(left)) if each.check == "accounting_read")
    assert not read.passed
    assert "Version 5" in read.detail


def test_tables_without_records_have_nothing_to_account_for() -> None:
    rows = [entry(1, 0, 0, kind=kind, progress=None, ranges=(), totals_before=Totals()) for kind in ("load", "derived")]
    written = [replace(each, metrics=Metrics(source_rows=3, inserted=3)) for each in rows]
    assert ledger(written).next_commit("derived", "run").unaccounted == ()


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
