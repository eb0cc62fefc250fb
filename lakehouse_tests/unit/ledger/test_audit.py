"""The proof from a history alone: what is not contiguous, or stepped over without a word, is found."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse.ledger.audit import audit, batches_accounted, finding
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Range, SourceId

ANEW = SourceId("kafka", "c/u")

pytestmark = pytest.mark.invariant(7)


def entry(number: int, start: int, end: int, **said: Any) -> Entry:
    """A commit that reads one partition from start to end, or says otherwise."""
    told: dict[str, Any] = {
        "kind": "batch",
        "number": number,
        "attempt": "",
        "table_version": number - 1,
        "source": SourceId("kafka", "c/t"),
        "ranges": (Range(0, start, end),),
        "progress": {0: end},
    }
    return Entry(number, datetime.now(UTC), Commit(**(told | said)), Metrics())


def gap(number: int, end: int, *gone: Range, **said: Any) -> Entry:
    return entry(number, end, end, **{"kind": "gap", "ranges": (), "gap": gone, **said})


def wide(number: int, start: int, end: int) -> Entry:
    """A batch that reads a second partition from start to end."""
    return entry(number, 6, 6, ranges=(Range(0, 6, 6), Range(1, start, end)), progress={0: 6, 1: end})


def contiguous(*history: Entry) -> str | None:
    """What the audit says of a history, oldest first; ``None`` where it holds."""
    findings = {each.check: each for each in audit(Ledger("", entries=history[::-1]))}
    found = findings["ranges_contiguous"]
    return None if found.passed else found.detail


@pytest.mark.parametrize(
    "history",
    [
        (entry(1, 0, 3), entry(2, 3, 5)),
        (entry(1, 0, 3), gap(2, 5, Range(0, 3, 5)), entry(3, 5, 9)),
        (entry(1, 0, 3), gap(2, 0, Range(0, 2, 3)), entry(3, 0, 2)),
        (entry(1, 0, 3), gap(2, 7, Range(0, 3, 3), source=ANEW), entry(3, 7, 9, source=ANEW)),
        (entry(1, 4, 6), wide(2, 0, 2)),
        (entry(1, 4, 6), gap(2, 6, Range(1, 0, 5), progress={0: 6, 1: 5}), wide(3, 5, 7)),
    ],
    ids=[
        "batches",
        "a gap that is named",
        "a topic cut off",
        "a topic made anew",
        "a new partition",
        "a new partition of which records expired",
    ],
)
def test_a_history_without_a_break_holds(history: tuple[Entry, ...]) -> None:
    assert contiguous(*history) is None


@pytest.mark.parametrize(
    ("history", "said"),
    [
        ((entry(1, 0, 3), entry(2, 4, 5)), "Version 2: gap in partition 0, offsets 3 to 3"),
        ((entry(1, 0, 3), entry(2, 2, 5)), "Version 2: overlap in partition 0, offsets 2 to 2"),
        ((entry(1, 0, 3), gap(2, 5)), "Version 2: steps over offsets 3 to 4 of partition 0 without naming them"),
        ((entry(1, 0, 3), gap(2, 6, Range(0, 3, 5))), "steps over offsets 3 to 5 of partition 0"),
        ((entry(1, 4, 6), wide(2, 5, 7)), "Version 2: partition 1 was new, and its offsets 0 to 4 had expired"),
        ((entry(1, 4, 6), gap(2, 6, progress={0: 6, 1: 5})), "steps over offsets 0 to 4 of partition 1"),
        ((entry(1, 0, 3), entry(2, 0, 2, source=ANEW)), "reads another topic than version 1, and no gap says so"),
    ],
)
def test_a_break_is_named(history: tuple[Entry, ...], said: str) -> None:
    assert said in (contiguous(*history) or "")


def test_advice_is_told_however_many_problems_there_are() -> None:
    found = finding("keys_unique", [f"Key {number}." for number in range(9)], "every key stands once", "Restore.")
    assert found.detail == (
        "Does not hold: every key stands once. Key 0. Key 1. Key 2. Key 3. Key 4. And 4 more. Restore."
    )
    assert finding("keys_unique", [], "every key stands once", "Restore.").detail == "Holds: every key stands once."


@pytest.mark.parametrize(
    "counted",
    [Metrics(source_rows=2, updated=2), Metrics(source_rows=2), Metrics(source_rows=1, updated=2)],
    ids=["updated twice", "stale twice", "one row updates two"],
)
def test_a_touched_key_that_stands_twice_is_not_accounted_for(counted: Metrics) -> None:
    """The rows merged meet the table before they are counted, so that such a record counts twice."""
    doubled = replace(entry(1, 0, 1, read=1), metrics=counted)
    found = batches_accounted(Ledger("", entries=(doubled,)), [doubled])
    assert not found.passed
    assert "touched no key that stands twice" in found.detail
