"""The commits of one run are checked on their own: the newest part of a long history is enough."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse.ledger.accounting import FIGURES, describe_counts, describe_entry, figures, sums
from lakehouse.ledger.audit import Finding, audit, batches_accounted, rows_unchanged
from lakehouse.ledger.commit_values import Totals
from lakehouse.ledger.commits import Commit, Entry, Kind, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Range, SourceId

SOURCE = SourceId("kafka", "c/t")
TIME = datetime(2024, 1, 1, tzinfo=UTC)


def entry(version: int, start: int, end: int, kind: Kind = "batch", **changes: Any) -> Entry:
    """Return a commit that read these offsets of partition 0 and wrote a row for each."""
    before = Totals(batches=version - 1, read=start, inserted=start)
    read = {"ranges": (Range(0, start, end),), "progress": {0: end}, "read": end - start}
    fields = {"source": SOURCE, **read, "totals_before": before, **changes}
    commit = Commit(kind=kind, number=version, attempt="a", table_version=version - 1, **fields)
    return Entry(version, TIME, commit, Metrics(source_rows=end - start, inserted=end - start))


def acceptance(versions: tuple[int, ...], reason: str, totals: Totals) -> Entry:
    """Return version 6, in which a person accepts the differences at these versions."""
    return entry(6, 50, 50, kind="acceptance", accepted=versions, reason=reason, totals_before=totals)


ENTRIES = [entry(number, 10 * number - 10, 10 * number) for number in (1, 2, 3, 4, 5)]
NEWEST_FIRST = ENTRIES[::-1]


def check(history: list[Entry], run_entries: list[Entry]) -> Finding:
    return batches_accounted(ledger(history), run_entries)


def ledger(history: list[Entry]) -> Ledger:
    """Return the ledger of table readings; ``history`` is newest first."""
    return Ledger("/tables/readings", entries=tuple(history), transaction=history[0].version if history else 0)


def add_batch(history: list[Entry], start: int, end: int) -> list[Entry]:
    """Return the history with one more batch, which carries on the fields of the ledger; newest first."""
    before = ledger(history)
    commit = before.next_commit("batch", "run")
    batch = entry(commit.number, start, end, totals_before=before.totals, unaccounted=commit.unaccounted)
    return [batch, *history]


def test_a_run_that_continues_the_history_passes() -> None:
    assert check(NEWEST_FIRST, ENTRIES[3:]).passed
    assert check(NEWEST_FIRST, ENTRIES).passed
    assert check([], []).passed
    assert "nothing to commit" in check(NEWEST_FIRST, []).detail


def test_a_replay_that_changed_rows_is_reported_with_its_versions() -> None:
    stale = replace(entry(6, 0, 10, "replay"), metrics=Metrics(source_rows=10))
    assert rows_unchanged([], "Look.").passed
    assert rows_unchanged([stale, stale], "Look.").passed
    wrong_entries = [
        replace(stale, version=7, metrics=Metrics(10, **{name: 1})) for name in ("inserted", "updated", "deleted")
    ]
    for changed_entry in wrong_entries:
        finding = rows_unchanged([stale, changed_entry], "Look.")
        assert not finding.passed
        assert "Version 7 inserted" in finding.detail
        assert finding.detail.endswith(" rows. Look.")
    assert "Version 6" not in rows_unchanged([stale, wrong_entries[0]], "").detail


@pytest.mark.invariant("7.7")
def test_records_without_account_are_reported() -> None:
    wrong_entries = entry(5, 40, 50, read=11)
    result = check([wrong_entries, *NEWEST_FIRST[1:]], [wrong_entries])
    assert not result.passed
    assert "Version 5: 11 records read" in result.detail


@pytest.mark.invariant("7.7")
def test_a_run_without_commits_does_not_hide_an_older_difference() -> None:
    wrong_entries = entry(5, 40, 50, read=11)
    assert "Version 5: 11 records read" in check([wrong_entries, *NEWEST_FIRST[1:]], []).detail
    assert not check([wrong_entries, *NEWEST_FIRST[1:]], []).passed


@pytest.mark.invariant("7.9")
def test_a_run_that_does_not_begin_where_the_one_before_it_ended_is_reported() -> None:
    jump = entry(5, 42, 50, totals_before=ENTRIES[3].totals)
    result = check([jump, *NEWEST_FIRST[1:]], [jump])
    assert "gap in partition 0, offsets 40 to 41" in result.detail


@pytest.mark.invariant("7.1")
def test_totals_that_do_not_continue_are_reported() -> None:
    wrong_entries = entry(5, 40, 50, totals_before=Totals(batches=4, read=39, inserted=40))
    assert "Version 5: begins with" in check([wrong_entries, *NEWEST_FIRST[1:]], [wrong_entries]).detail


@pytest.mark.invariant("7.6", "7.7")
def test_an_unaccounted_batch_fails_the_next_runs_too() -> None:
    wrong_entries = entry(5, 40, 50, read=11)
    history = add_batch([wrong_entries, *NEWEST_FIRST[1:]], 50, 60)
    result = check(history, history[:1])
    assert "Version 5: 11 records read" in result.detail
    assert "lakehouse repair difference readings --version 5 --reason" in result.detail
    assert not check(history, []).passed


@pytest.mark.invariant("7.9")
def test_a_skipped_range_fails_the_next_runs_too() -> None:
    history = add_batch([entry(5, 42, 50, totals_before=ENTRIES[3].totals), *NEWEST_FIRST[1:]], 50, 60)
    assert "gap in partition 0, offsets 40 to 41" in check(history, history[:1]).detail


@pytest.mark.invariant("7.6", "7.7")
def test_an_unaccounted_batch_is_reported_no_matter_how_old_it_is() -> None:
    """Each commit carries on the versions with differences, so no more of the history has to be read."""
    history = [entry(5, 40, 50, read=11), *NEWEST_FIRST[1:]]
    for start in range(50, 90, 10):
        history = add_batch(history, start, start + 10)[:2]
    result = check(history, history[:1])
    assert not result.passed
    assert "Version 5" in result.detail


@pytest.mark.invariant("7.6")
def test_a_version_that_the_history_proves_right_is_not_carried_on() -> None:
    newest = entry(6, 50, 60, unaccounted=(4,), totals_before=ENTRIES[4].totals)
    assert check([newest, *NEWEST_FIRST], []).passed
    assert ledger([newest, *NEWEST_FIRST]).next_commit("batch", "run").unaccounted == ()
    assert not check([newest, *NEWEST_FIRST[:1]], []).passed


@pytest.mark.invariant("7.7")
def test_an_accepted_difference_fails_no_run_and_is_reported_by_the_audit() -> None:
    before = [entry(5, 40, 50, read=11), *NEWEST_FIRST[1:]]
    history = [acceptance((5,), "one record was a test", before[0].totals), *before]
    assert check(history, []).passed
    assert ledger(history).next_commit("batch", "run").unaccounted == ()
    result = next(finding for finding in audit(ledger(history)) if finding.check == "records_accounted")
    assert result.passed
    assert "version 5 (accepted in version 6: one record was a test)" in result.detail


@pytest.mark.invariant("7.7")
def test_an_accepted_difference_hides_no_other() -> None:
    wrong_entries = [entry(4, 30, 40, read=11), entry(5, 40, 50, read=12)]
    totals = wrong_entries[0].totals
    before = [
        replace(wrong_entries[1], commit=wrong_entries[1].commit.model_copy(update={"totals_before": totals})),
        wrong_entries[0],
    ]
    history = [acceptance((4,), "known", before[0].totals), *before, *NEWEST_FIRST[2:]]
    assert "Version 4" not in check(history, []).detail
    assert "Version 5" in check(history, []).detail
    assert ledger(history).next_commit("batch", "run").unaccounted == (5,)


@pytest.mark.invariant("7.6")
def test_a_commit_lists_the_oldest_hundred_versions_with_a_difference() -> None:
    history = [entry(number, 10 * number - 10, 10 * number, read=11) for number in range(120, 0, -1)]
    assert ledger(history).next_commit("batch", "run").unaccounted == tuple(range(1, 101))


@pytest.mark.invariant("7.6", "7.7")
def test_the_audit_reports_a_difference_whose_commit_has_expired() -> None:
    remaining_entries = [entry(9, 80, 90, unaccounted=(5,))]
    result = next(finding for finding in audit(ledger(remaining_entries)) if finding.check == "records_accounted")
    assert not result.passed
    assert "Version 5" in result.detail


def test_tables_without_records_have_nothing_to_account_for() -> None:
    fields: dict[str, Any] = {"progress": None, "ranges": (), "totals_before": Totals()}
    entries = [entry(1, 0, 0, kind=kind, **fields) for kind in ("load", "derived")]
    entries = [replace(item, metrics=Metrics(source_rows=3, inserted=3)) for item in entries]
    assert ledger(entries).next_commit("derived", "run").unaccounted == ()


@pytest.mark.invariant("7.9")
def test_a_replay_between_two_batches_does_not_hide_where_the_first_ended() -> None:
    replay = entry(4, 0, 10, kind="replay", progress={0: 30}, totals_before=ENTRIES[2].totals)
    jump = entry(5, 35, 50, totals_before=ENTRIES[2].totals)
    assert "offsets 30 to 34" in check([jump, replay, *NEWEST_FIRST[2:]], [jump]).detail


def test_a_run_with_more_commits_than_the_ledger_is_checked_completely() -> None:
    wrong_entries = entry(2, 10, 20, read=11)
    run_entries = [ENTRIES[0], wrong_entries, *ENTRIES[2:]]
    assert "Version 2" in check(NEWEST_FIRST[:2], run_entries).detail


@pytest.mark.invariant("7.7")
def test_a_commit_that_was_undone_meanwhile_is_not_checked() -> None:
    repeated_entry = entry(7, 30, 50, totals_before=ENTRIES[2].totals)
    assert check([repeated_entry, *NEWEST_FIRST[2:]], [ENTRIES[3], ENTRIES[4], repeated_entry]).passed


def test_the_counts_have_the_same_names_everywhere() -> None:
    assert tuple(figures(ENTRIES[0])) == tuple(figure.name for figure in FIGURES)
    assert sums(ENTRIES)["read"] == 50
    assert set(sums([]).values()) == {0}
    words = "10 records read, 0 rejected, 0 superseded, 0 late; 10 rows merged, 10 inserted, 0 updated, 0 stale"
    assert describe_counts(ENTRIES[0]) == words
    assert describe_entry(ENTRIES[0]) == f"batch 1 is version 1: {words}"
