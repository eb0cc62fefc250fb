"""Finds the differences in a history: what does not add up. A batch and an audit use the same arithmetic.

A difference remains until a person accepts it, or a RESTORE undoes its commit. Each commit lists the versions with open
differences, so the newest part of a history is enough to find all of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from lakehouse.ledger.accounting import describe_counts
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.positions import Range, source_words
from lakehouse.ledger.reached import ReachedEnds
from lakehouse.ledger.several_sources import of_stream

_CARRYING_KINDS = ("maintenance", "purge", "rewrite", "acceptance", "wait")
"""Kinds that record the progress without advancing it."""
_PROGRESS_KINDS = ("batch", "gap", "start", "recovery", *_CARRYING_KINDS)
_KINDS_WITHOUT_RECORDS = ("load", "rejected", "derived", "deletes", "truncate", "missing")
"""Kinds that merge no records."""
_MAX_UNACCOUNTED = 100  # versions that a commit lists, the oldest ones


class Difference(NamedTuple):
    """What does not add up at a version, with the check of the audit that reports it."""

    check: str
    version: int
    text: str


def differences(entries: Sequence[Entry]) -> list[Difference]:
    """Return all differences in a history, or a part of it, newest first; includes accepted ones.

    Differences before that part are included only if its newest entry lists their versions.
    """
    oldest_first = [entry for entry in reversed(entries) if entry.commit.kind not in _KINDS_WITHOUT_RECORDS]
    in_part = [
        *_unread_records(oldest_first),
        *_extra_rows(oldest_first),
        *_broken_ranges(oldest_first),
        *_wrong_totals(oldest_first),
    ]
    versions = {difference.version for difference in in_part}
    older_versions = (
        [v for v in entries[0].commit.unaccounted if v <= entries[-1].version and v not in versions] if entries else []
    )
    text = "does not account for its records; its commit has expired, or is older than the part that was read."
    older = [Difference("records_accounted", version, f"Version {version}: {text}") for version in older_versions]
    return [*older, *in_part]


def find_acceptances(entries: Iterable[Entry]) -> dict[int, Entry]:
    """Return the versions whose differences a person accepted, each with the commit that records it."""
    return {version: entry for entry in entries for version in entry.commit.accepted}


def unaccounted_versions(entries: Sequence[Entry]) -> tuple[int, ...]:
    """Return the versions with open differences, as the next commit lists them: the oldest hundred."""
    versions = {difference.version for difference in differences(entries)} - find_acceptances(entries).keys()
    return tuple(sorted(versions)[:_MAX_UNACCOUNTED])


def _unread_records(entries: Iterable[Entry]) -> Iterator[Difference]:
    for entry in entries:
        commit, rows = entry.commit, entry.metrics.source_rows
        accounted = commit.filtered + commit.rejected + commit.duplicate + rows
        if commit.judged != accounted or not commit.has_every_record:
            text = f"Version {entry.version}: {describe_counts(entry)}; replay its ranges to merge the missing records."
            yield Difference("records_accounted", entry.version, text)


def _extra_rows(entries: Iterable[Entry]) -> Iterator[Difference]:
    for entry in entries:
        if entry.stale < 0:
            text = f"Version {entry.version}: {describe_counts(entry)}; it wrote more rows than it received."
            yield Difference("rows_accounted", entry.version, text)


def _broken_ranges(entries: Iterable[Entry]) -> Iterator[Difference]:
    """Yield where a batch does not begin at the previous progress, or a gap does not name what it skips."""
    with_progress = [entry for entry in entries if entry.commit.kind in _PROGRESS_KINDS]
    for before, entry in pairwise(with_progress):
        for text in _break_texts(before, entry):
            yield Difference("ranges_contiguous", entry.version, f"Version {entry.version}: {text}")


def _break_texts(before: Entry, entry: Entry) -> Iterator[str]:
    before = _of_same_stream(before, entry)
    is_same_source = before.commit.source in (None, entry.commit.source)
    kind = entry.commit.kind
    if kind != "recovery" and _progress_of_others(before) != _progress_of_others(entry):
        yield f"carries on a different progress of other topics than version {before.version}."
    if kind in _CARRYING_KINDS and entry.commit.progress != before.commit.progress:
        yield f"{kind} carries on a different progress than version {before.version}."
    if kind == "recovery":  # a person recorded the progress; the one before it is unknown
        return
    yield from _start_breaks(before, entry)
    if kind == "gap":
        yield from _unnamed_skips(before, entry) if is_same_source else ()
    elif not is_same_source:
        word = source_words(entry.commit.source).source
        yield f"reads a different {word} than version {before.version}, and no gap records the change."
    else:
        yield from _jumps(before, entry)


def _of_same_stream(before: Entry, entry: Entry) -> Entry:
    """Return the entry before with the progress of the source that the entry reads, if the table reads several."""
    other_streams = {part.stream for part in entry.commit.other_sources.values() if part.progress is not None}
    if entry.commit.stream is None or before.commit.stream not in other_streams:
        return before
    return replace(before, commit=of_stream(before.commit, entry.commit.stream))


def _progress_of_others(entry: Entry) -> ReachedEnds:
    other_sources = entry.commit.other_sources.items()
    return {source: dict(part.progress) for source, part in other_sources if part.progress is not None}


def _start_breaks(before: Entry, entry: Entry) -> Iterator[str]:
    """Yield how what was left out on purpose was not recorded once: before the first batch, and never changed."""
    words, left_out = source_words(entry.commit.source), entry.commit.left_out
    if entry.commit.kind == "start":
        if before.commit.progress:
            yield f"records a start, but version {before.version} had progress already."
    elif left_out != before.commit.left_out and entry.commit.source == before.commit.source:
        yield f"lists other left-out {words.position}s than version {before.version}."


def _jumps(before: Entry, entry: Entry) -> Iterator[str]:
    progress, words = before.commit.progress or {}, source_words(entry.commit.source)
    for part in entry.commit.ranges if progress else ():
        expected = progress.get(part.partition, 0)
        if part.partition not in progress and part.start:
            yield (
                f"partition {part.partition} was new, and its {words.position}s 0 to {part.start - 1} had expired: they"
                f" were never merged, and no gap names them. The {words.source} no longer holds those records. If"
                " another system still has them, publish them again."
            )
        elif part.start != expected:
            kind = "gap" if part.start > expected else "overlap"
            first, last = min(expected, part.start), max(expected, part.start) - 1
            yield f"{kind} in partition {part.partition}, {words.position}s {first} to {last}; replay them."


def _unnamed_skips(before: Entry, gap: Entry) -> Iterator[str]:
    """Yield the positions that a gap in the same source skips without naming them."""
    progress, word = before.commit.progress or {}, source_words(gap.commit.source).position
    for partition, start in sorted((gap.commit.progress or {}).items()):
        skipped_range = Range(partition, progress.get(partition, 0 if progress else start), start)
        if skipped_range.span > 0 and skipped_range not in gap.commit.gap:
            yield (
                f"skips {word}s {skipped_range.start} to {start - 1} of partition {partition} without naming them;"
                " replay them."
            )


def _wrong_totals(entries: Iterable[Entry]) -> Iterator[Difference]:
    for before, entry in pairwise(entries):
        if entry.commit.totals_before != before.totals:
            text = f"begins with {entry.commit.totals_before}, expected {before.totals}."
            yield Difference("totals_match", entry.version, f"Version {entry.version}: {text}")
