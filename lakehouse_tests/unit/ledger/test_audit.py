"""The audit of a history finds ranges that are not contiguous, and positions that no gap names."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse.errors import restore_advice
from lakehouse.ledger.audit import audit, batches_accounted, finding
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Range, SourceId

RECREATED_SOURCE = SourceId("kafka", "c/u")
EXPIRED_TEXT = "Version 2: partition 1 was new, and its offsets 0 to 4 had expired"
OTHER_TOPIC = "Version 2: reads a different topic than version 1, and no gap records the change"


def entry(number: int, start: int, end: int, **changes: Any) -> Entry:
    """Return a commit that reads one partition from start to end, with changed fields."""
    fields: dict[str, Any] = {
        "kind": "batch",
        "number": number,
        "attempt": "",
        "table_version": number - 1,
        "source": SourceId("kafka", "c/t"),
        "ranges": (Range(0, start, end),),
        "progress": {0: end},
    }
    return Entry(number, datetime.now(UTC), Commit(**(fields | changes)), Metrics())


def gap(number: int, end: int, *ranges: Range, **changes: Any) -> Entry:
    return entry(number, end, end, **{"kind": "gap", "ranges": (), "gap": ranges, **changes})


def two_partitions(number: int, start: int, end: int) -> Entry:
    """Return a batch that reads a second partition from start to end."""
    return entry(number, 6, 6, ranges=(Range(0, 6, 6), Range(1, start, end)), progress={0: 6, 1: end})


def range_problems(*history: Entry) -> str | None:
    """Return what the audit reports for a history, oldest first; ``None`` if it passes."""
    findings = {result.check: result for result in audit(Ledger("", entries=history[::-1]))}
    result = findings["ranges_contiguous"]
    return None if result.passed else result.detail


def start(number: int, first: int, *left_out: Range, **changes: Any) -> Entry:
    return entry(number, first, first, **{"kind": "start", "ranges": (), "left_out": left_out, **changes})


def after_start(number: int, first: int, end: int, *left_out: Range) -> Entry:
    return entry(number, first, end, left_out=left_out)


@pytest.mark.invariant("2.6")
@pytest.mark.parametrize(
    "history",
    [
        (start(1, 7, Range(0, 2, 7)), after_start(2, 7, 9, Range(0, 2, 7))),
        (start(1, 0), after_start(2, 0, 9)),
        (entry(1, 0, 0, kind="maintenance", source=None, progress=None), start(2, 7, Range(0, 2, 7))),
        (
            start(1, 7, Range(0, 2, 7)),
            gap(2, 0, Range(0, 7, 7), source=RECREATED_SOURCE),
            entry(3, 0, 2, source=RECREATED_SOURCE),
        ),
    ],
    ids=["a start", "a start at the first record", "a table of base rows", "a topic that was created again"],
)
def test_what_a_table_left_out_on_purpose_is_not_a_gap(history: tuple[Entry, ...]) -> None:
    assert range_problems(*history) is None


@pytest.mark.invariant("2.6")
@pytest.mark.parametrize(
    ("history", "message"),
    [
        ((entry(1, 0, 3), start(2, 7, Range(0, 3, 7))), "records a start, but version 1 had progress already"),
        ((start(1, 7, Range(0, 2, 7)), entry(2, 7, 9)), "lists other left-out offsets than version 1"),
        ((entry(1, 0, 3), after_start(2, 3, 9, Range(0, 0, 3))), "lists other left-out offsets than version 1"),
        ((start(1, 7, Range(0, 2, 7)), after_start(2, 8, 9, Range(0, 2, 7))), "gap in partition 0, offsets 7 to 7"),
    ],
)
def test_what_was_left_out_is_recorded_once_before_the_first_batch(history: tuple[Entry, ...], message: str) -> None:
    assert message in (range_problems(*history) or "")


@pytest.mark.invariant("7.9")
@pytest.mark.parametrize(
    "history",
    [
        (entry(1, 0, 3), entry(2, 3, 5)),
        (entry(1, 0, 3), gap(2, 5, Range(0, 3, 5)), entry(3, 5, 9)),
        (entry(1, 0, 3), gap(2, 0, Range(0, 2, 3)), entry(3, 0, 2)),
        (entry(1, 0, 3), gap(2, 7, Range(0, 3, 3), source=RECREATED_SOURCE), entry(3, 7, 9, source=RECREATED_SOURCE)),
        (entry(1, 4, 6), two_partitions(2, 0, 2)),
        (entry(1, 4, 6), gap(2, 6, Range(1, 0, 5), progress={0: 6, 1: 5}), two_partitions(3, 5, 7)),
    ],
    ids=[
        "batches",
        "a gap that is named",
        "a topic cut off",
        "a recreated topic",
        "a new partition",
        "a new partition with expired records",
    ],
)
def test_a_history_without_a_break_passes(history: tuple[Entry, ...]) -> None:
    assert range_problems(*history) is None


@pytest.mark.invariant("7.9")
@pytest.mark.parametrize(
    ("history", "message"),
    [
        ((entry(1, 0, 3), entry(2, 4, 5)), "Version 2: gap in partition 0, offsets 3 to 3"),
        ((entry(1, 0, 3), entry(2, 2, 5)), "Version 2: overlap in partition 0, offsets 2 to 2"),
        ((entry(1, 0, 3), gap(2, 5)), "Version 2: skips offsets 3 to 4 of partition 0 without naming them"),
        ((entry(1, 0, 3), gap(2, 6, Range(0, 3, 5))), "skips offsets 3 to 5 of partition 0"),
        (
            (entry(1, 4, 6), two_partitions(2, 5, 7)),
            EXPIRED_TEXT,
        ),
        ((entry(1, 4, 6), gap(2, 6, progress={0: 6, 1: 5})), "skips offsets 0 to 4 of partition 1"),
        (
            (entry(1, 0, 3), entry(2, 0, 2, source=RECREATED_SOURCE)),
            OTHER_TOPIC,
        ),
    ],
)
def test_a_break_is_reported(history: tuple[Entry, ...], message: str) -> None:
    assert message in (range_problems(*history) or "")


def test_a_break_is_shown_with_the_commands_that_accept_and_undo_it() -> None:
    ledger = Ledger("/tables/t", entries=(entry(2, 4, 5), entry(1, 0, 3)))
    (failed_findings,) = [
        audit_finding for audit_finding in audit(ledger) if audit_finding.check == "ranges_contiguous"
    ]
    assert (
        "lakehouse replay t - then accept it: lakehouse repair difference t --version 2 --reason"
        in failed_findings.detail
    )
    assert failed_findings.detail.endswith(restore_advice("/tables/t", 1))


def test_an_unknown_restore_is_shown_with_the_command_that_restores() -> None:
    failed_findings = [
        audit_finding for audit_finding in audit(Ledger("/tables/t", unknown_restore=3)) if not audit_finding.passed
    ]
    assert [audit_finding.check for audit_finding in failed_findings] == ["ranges_contiguous"]
    assert failed_findings[0].detail.endswith(f"again, by its number. {restore_advice('/tables/t')}")


def test_the_advice_is_shown_no_matter_how_many_problems_there_are() -> None:
    result = finding("keys_unique", [f"Key {number}." for number in range(9)], "every key is unique", "Restore.")
    assert result.detail == (
        "Does not hold: every key is unique. Key 0. Key 1. Key 2. Key 3. Key 4. And 4 more. Restore."
    )
    assert finding("keys_unique", [], "every key is unique", "Restore.").detail == "Holds: every key is unique."


@pytest.mark.invariant("7.8")
@pytest.mark.parametrize(
    "metrics",
    [Metrics(source_rows=2, updated=2), Metrics(source_rows=2), Metrics(source_rows=1, updated=2)],
    ids=["updated twice", "stale twice", "one row updates two"],
)
def test_a_touched_duplicate_key_is_not_accounted_for(metrics: Metrics) -> None:
    """A record matches both rows of the key and is counted twice."""
    with_duplicate = replace(entry(1, 0, 1, read=1), metrics=metrics)
    result = batches_accounted(Ledger("", entries=(with_duplicate,)), [with_duplicate])
    assert not result.passed
    assert "touched no duplicate key" in result.detail
