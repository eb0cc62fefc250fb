"""What in a history does not add up: arithmetic on its commits, which a batch and an audit do alike.

A difference stays until a person accepts it, or a RESTORE undoes its commit. Each commit carries on which versions have
one, so that the newest part of a history tells of all.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from lakehouse.ledger.accounting import in_words
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.positions import Range, words_of

_PROGRESS = ("batch", "gap", "recovery", "maintenance", "rewrite", "acceptance")  # kinds that tell how far it got
_CARRY_ON = ("maintenance", "rewrite", "acceptance")  # of these, kinds that get no further
_NO_RECORDS = ("load", "rejected", "derived")  # kinds of tables that merge no records
_MOST_CARRIED = 100  # versions that a commit carries on, the oldest


class Difference(NamedTuple):
    """What does not add up at a version, by the check of the audit that tells it."""

    check: str
    version: int
    text: str


def differences(entries: Sequence[Entry]) -> list[Difference]:
    """Everything that does not add up in a history, or a part of it, newest first; also what was accepted.

    Of an entry before the part only those are told that the newest carries on.
    """
    oldest_first = [entry for entry in reversed(entries) if entry.commit.kind not in _NO_RECORDS]
    found = [
        *_unread(oldest_first),
        *_overfull(oldest_first),
        *_breaks(oldest_first),
        *_wrong_totals(oldest_first),
    ]
    known = {each.version for each in found}
    before = (
        [v for v in entries[0].commit.unaccounted if v <= entries[-1].version and v not in known] if entries else []
    )
    text = "does not account for its records; its commit has expired, or is further back than was read."
    return [*(Difference("accounting_read", version, f"Version {version}: {text}") for version in before), *found]


def accepted(entries: Iterable[Entry]) -> dict[int, Entry]:
    """The versions whose differences a person accepted, and the commit that records it."""
    return {version: entry for entry in entries for version in entry.commit.accepted}


def unaccounted(entries: Sequence[Entry]) -> tuple[int, ...]:
    """The versions that do not add up and were not accepted, as a next commit carries them on: the oldest hundred."""
    found = {each.version for each in differences(entries)} - accepted(entries).keys()
    return tuple(sorted(found)[:_MOST_CARRIED])


def _unread(entries: Iterable[Entry]) -> Iterator[Difference]:
    for entry in entries:
        commit, rows = entry.commit, entry.metrics.source_rows
        if commit.read != commit.rejected + commit.duplicate + rows:
            text = f"Version {entry.version}: {in_words(entry)}; replay its ranges to merge what is missing."
            yield Difference("accounting_read", entry.version, text)


def _overfull(entries: Iterable[Entry]) -> Iterator[Difference]:
    for entry in entries:
        if entry.metrics.stale < 0:
            text = f"Version {entry.version}: {in_words(entry)}; it writes more rows than it was given."
            yield Difference("accounting_stale", entry.version, text)


def _breaks(entries: Iterable[Entry]) -> Iterator[Difference]:
    """Where a batch does not begin at the progress before it, or a gap does not name what it steps over."""
    told = [entry for entry in entries if entry.commit.kind in _PROGRESS]
    for before, entry in pairwise(told):
        texts = _between(before, entry)
        yield from (Difference("ranges_contiguous", entry.version, f"Version {entry.version}: {t}") for t in texts)


def _between(before: Entry, entry: Entry) -> Iterator[str]:
    same = before.commit.source in (None, entry.commit.source)
    kind = entry.commit.kind
    if kind in _CARRY_ON and entry.commit.progress != before.commit.progress:
        yield f"{kind} carries another progress on than version {before.version}."
    if kind == "recovery":  # a person recorded where to go on; what was before is not told
        return
    if kind == "gap":
        yield from _unnamed(before, entry) if same else ()
    elif not same:
        word = words_of(entry.commit.source).source
        yield f"reads another {word} than version {before.version}, and no gap says so."
    else:
        yield from _jumps(before, entry)


def _jumps(before: Entry, entry: Entry) -> Iterator[str]:
    known, words = before.commit.progress or {}, words_of(entry.commit.source)
    for part in entry.commit.ranges if known else ():
        expected = known.get(part.partition, 0)
        if part.partition not in known and part.start:
            yield (
                f"partition {part.partition} was new, and its {words.position}s 0 to {part.start - 1} had expired: they"
                f" were never merged, and no gap names them. The {words.source} no longer has those records: publish"
                " them again where somebody still does."
            )
        elif part.start != expected:
            kind = "gap" if part.start > expected else "overlap"
            first, last = min(expected, part.start), max(expected, part.start) - 1
            yield f"{kind} in partition {part.partition}, {words.position}s {first} to {last}; replay them."


def _unnamed(before: Entry, gap: Entry) -> Iterator[str]:
    """What a gap in the same source steps over without saying so."""
    known, word = before.commit.progress or {}, words_of(gap.commit.source).position
    for partition, start in sorted((gap.commit.progress or {}).items()):
        skipped = Range(partition, known.get(partition, 0 if known else start), start)
        if skipped.span > 0 and skipped not in gap.commit.gap:
            yield (
                f"steps over {word}s {skipped.start} to {start - 1} of partition {partition} without naming them;"
                " replay them."
            )


def _wrong_totals(entries: Iterable[Entry]) -> Iterator[Difference]:
    for before, entry in pairwise(entries):
        if entry.commit.totals_before != before.totals:
            text = f"begins with {entry.commit.totals_before}, expected {before.totals}."
            yield Difference("totals", entry.version, f"Version {entry.version}: {text}")
