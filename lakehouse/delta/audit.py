"""The proof that a ledger accounts for every record: arithmetic on the history alone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakehouse.delta.accounting import in_words
from lakehouse.delta.commits import Entry
from lakehouse.delta.ledger import Ledger
from lakehouse.topic.offsets import Range

_PROGRESS = ("batch", "gap", "recovery", "maintenance", "migration")  # kinds that say how far the table got
_SHOWN = 5  # problems spelled out; the rest are counted


@dataclass(frozen=True)
class Finding:
    """The answer of one check: passed or not, and in words what was found and what to do."""

    check: str
    passed: bool
    detail: str


def audit(ledger: Ledger) -> list[Finding]:
    """Check a ledger that was read whole: both equations, the ranges and the running totals."""
    oldest_first = ledger.entries[::-1]
    return [
        finding("accounting_read", _unread(oldest_first), "read = rejected + duplicate + rows merged in every commit"),
        finding("accounting_stale", _overfull(oldest_first), "stale = rows merged - inserted - updated is at least 0"),
        finding(
            "ranges_contiguous",
            [*_untold(ledger), *_breaks(oldest_first)],
            "every batch begins where the one before it ended",
        ),
        finding("totals", _wrong_totals(oldest_first), "the running totals equal the sums of the batches"),
    ]


def batches_accounted(history: Sequence[Entry], written: Sequence[Entry]) -> Finding:
    """Check the commits of one run by the arithmetic of ``audit``, and that they go on where the one before ended.

    ``history`` are the entries of the ledger, newest first, as far as they were read: that need not be far.
    ``written`` are those of the run. Where there are none, the newest of the history stands for them: the run that
    made it may have stopped at it. A touched key that stands twice breaks the arithmetic: rows meet the
    table before they are counted, so that its record counts twice.
    """
    first = min((entry.version for entry in written), default=None)
    if first is None:
        newest = [*_unread(history[:1]), *_overfull(history[:1])]
        return finding("batches_accounted", newest, "the run had nothing to commit, and the newest commit adds up")
    oldest = min((entry.version for entry in history), default=first)
    older = [entry for entry in written if entry.version < oldest]
    told = sorted([*history, *older], key=lambda entry: entry.version)
    before, own = [e for e in told if e.version < first], [e for e in told if e.version >= first]
    progressed = [entry for entry in before if entry.commit.kind in _PROGRESS][-1:]
    wrong = [*_unread(own), *_overfull(own), *_breaks([*progressed, *own]), *_wrong_totals([*before[-1:], *own])]
    fact = "every commit of the run accounts for its records, follows the last, and touched no key that stands twice"
    return finding("batches_accounted", wrong, fact)


def finding(check: str, problems: Iterable[str], fact: str, advice: str = "") -> Finding:
    """Make a finding of the problems a check saw: none means that the fact holds.

    ``advice`` is what to do about all of them; it is told however many there are.
    """
    found = list(problems)
    if not found:
        return Finding(check, True, f"Holds: {fact}.")
    more = f" And {len(found) - _SHOWN} more." if len(found) > _SHOWN else ""
    return Finding(check, False, f"Does not hold: {fact}. {' '.join(found[:_SHOWN])}{more} {advice}".rstrip())


def every_change_kept(ledger: Ledger) -> Finding:
    """Check the ledger of a change feed: whether any of its commits had to write a net difference."""
    problems = [
        f"Version {entry.version} holds a net difference (reconciled = true in its rows): the single changes were"
        " gone before they were read. Run the job more often than the retention of the table."
        for entry in ledger.entries
        if entry.commit.reconciled
    ]
    return finding("every_change_kept", problems, "every change is one the table recorded")


def changes_kept(*, reconciled: bool) -> Finding:
    """Check one update of a change feed: whether it had to write a net difference."""
    problem = "The run wrote a net difference: the single changes were gone. Run the job more often than the retention."
    return finding("changes_kept", [problem] if reconciled else [], "every change of the run is one the table recorded")


def _unread(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        commit, rows = entry.commit, entry.metrics.source_rows
        if commit.read != commit.rejected + commit.duplicate + rows:
            yield f"Version {entry.version}: {in_words(entry)}; replay its ranges to merge what is missing."


def _overfull(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        if entry.metrics.stale < 0:
            yield f"Version {entry.version}: {in_words(entry)}; it writes more rows than it was given."


def _breaks(entries: Iterable[Entry]) -> Iterator[str]:
    """Where a batch does not begin at the progress before it, or a gap does not name what it steps over."""
    told = [entry for entry in entries if entry.commit.kind in _PROGRESS]
    for before, entry in pairwise(told):
        same = before.commit.incarnation in (None, entry.commit.incarnation)
        kind = entry.commit.kind
        if kind in ("maintenance", "migration") and entry.commit.progress != before.commit.progress:
            yield f"Version {entry.version}: {kind} carries another progress on than version {before.version}."
        if kind == "recovery":  # a person recorded where to go on; what was before is not told
            continue
        if kind == "gap":
            yield from _unnamed(before, entry) if same else ()
        elif not same:
            yield f"Version {entry.version}: reads another topic than version {before.version}, and no gap says so."
        else:
            yield from _jumps(before, entry)


def _untold(ledger: Ledger) -> Iterator[str]:
    if ledger.untold is not None:
        yield f"Version {ledger.untold}: a RESTORE, and nothing tells what it put back; RESTORE again, by a version."


def _jumps(before: Entry, entry: Entry) -> Iterator[str]:
    known = before.commit.progress or {}
    for part in entry.commit.ranges:
        expected = known.get(part.partition, part.start)
        if part.start != expected:
            kind = "gap" if part.start > expected else "overlap"
            yield (
                f"Version {entry.version}: {kind} in partition {part.partition}, offsets"
                f" {min(expected, part.start)} to {max(expected, part.start) - 1}; replay them."
            )


def _unnamed(before: Entry, gap: Entry) -> Iterator[str]:
    """What a gap in the same topic steps over without saying so."""
    known = before.commit.progress or {}
    for partition, start in sorted((gap.commit.progress or {}).items()):
        skipped = Range(partition, known.get(partition, start), start)
        if skipped.span > 0 and skipped not in gap.commit.gap:
            yield (
                f"Version {gap.version}: steps over offsets {skipped.start} to {start - 1} of partition"
                f" {partition} without naming them; replay them."
            )


def _wrong_totals(entries: Iterable[Entry]) -> Iterator[str]:
    for before, entry in pairwise(entries):
        if entry.commit.totals_before != before.totals:
            yield f"Version {entry.version}: begins with {entry.commit.totals_before}, expected {before.totals}."
