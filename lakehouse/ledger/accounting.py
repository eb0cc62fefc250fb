"""The counts of a commit, the same in the audit, the UI and the command line, and what does not add up in a history.

A difference remains until a person accepts it, or a RESTORE undoes its commit. Each commit lists the versions with open
differences, so the newest part of a history is enough to find all of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from lakehouse.errors import AccountingError
from lakehouse.ledger.commit_infos import of_stream
from lakehouse.ledger.commit_values import ReachedEnds
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.positions import Range, SourceId, source_words

_MAX_RANGES = 12  # in a description
_CARRYING_KINDS = ("maintenance", "purge", "rewrite", "acceptance", "wait", "erasure")
"""Kinds that record the progress without advancing it."""
_PROGRESS_KINDS = ("batch", "gap", "start", "recovery", *_CARRYING_KINDS)
_KINDS_WITHOUT_RECORDS = ("load", "rejected", "derived", "deletes", "truncate", "missing", "erasure")
"""Kinds that merge no records."""
_MAX_UNACCOUNTED = 100  # versions that a commit lists, the oldest ones


class Figure(NamedTuple):
    """A count of a commit: its name in the ledger, in JSON and in tables, its name in Dagster with its unit, its value.

    ``is_optional``: it belongs to tables that declare ``rows_from=``, ``where=``, decimals, versions or deletes, or to
    clocks that went back. It is only shown if it is not zero.
    """

    name: str
    name_with_unit: str
    value: Callable[[Entry], int]
    is_optional: bool = False


# of rows that an array has, the counts are those of rows, except of the records read and those without a row
_RECORDS = (
    Figure("empty", "records_without_rows", lambda entry: entry.commit.empty, True),
    Figure("rows_read", "rows_read", lambda entry: entry.commit.rows_read or 0, True),
    Figure("filtered", "records_filtered", lambda entry: entry.commit.filtered, True),
    Figure("erased", "records_erased", lambda entry: entry.commit.erased, True),
    Figure("rejected", "records_rejected", lambda entry: entry.commit.rejected),
    Figure("superseded", "records_superseded", lambda entry: entry.commit.superseded),
    Figure("late", "records_late", lambda entry: entry.commit.late),
    Figure("times_back", "records_times_back", lambda entry: entry.commit.times_back, True),
    Figure("rounded", "records_rounded", lambda entry: entry.commit.rounded, True),
    Figure("equal_versions", "records_with_equal_versions", lambda entry: entry.commit.equal_versions, True),
)
_OUTCOMES = (
    Figure("inserted", "rows_inserted", lambda entry: entry.metrics.inserted),
    Figure("updated", "rows_updated", lambda entry: entry.metrics.updated),
    Figure("deleted", "rows_deleted", lambda entry: entry.metrics.deleted, True),
    Figure("deletes_without_row", "deletes_without_row", lambda entry: entry.commit.deletes_without_row, True),
    Figure("stale", "rows_stale", lambda entry: entry.stale),
    Figure("corrected", "rows_corrected", lambda entry: entry.commit.corrected, True),
    Figure("withdrawn", "rows_withdrawn", lambda entry: entry.commit.withdrawn, True),
)
FIGURES = (
    Figure("read", "records_read", lambda entry: entry.commit.read),
    *_RECORDS,
    Figure("source_rows", "rows_merged", lambda entry: entry.metrics.source_rows),
    *_OUTCOMES,
)
"""Every count of a commit: records read, what became of them, rows merged, and what became of these."""
OPTIONAL_FIGURES = tuple(figure.name for figure in FIGURES if figure.is_optional)
NAMES_WITH_UNITS = {figure.name: figure.name_with_unit for figure in FIGURES}


def figures(entry: Entry) -> dict[str, int]:
    """Return the record counts that a commit states, and the row counts of Delta."""
    return {figure.name: figure.value(entry) for figure in FIGURES}


def sums(entries: Iterable[Entry]) -> dict[str, int]:
    """Return the sums of the counts of several commits; 0 if there are no commits."""
    counts = [figures(entry) for entry in entries]
    return {figure.name: sum(count[figure.name] for count in counts) for figure in FIGURES}


def shown_totals(totals: Mapping[str, int]) -> dict[str, int]:
    """Return the totals to show by name; some only if they are not zero."""
    return {name: count for name, count in totals.items() if count or name not in OPTIONAL_FIGURES}


def describe_counts(entry: Entry) -> str:
    """Describe the counts in one line; some only if they are not zero."""
    counts = figures(entry)

    def describe(group: Iterable[Figure]) -> str:
        shown_names = (figure.name for figure in group if counts[figure.name] or not figure.is_optional)
        return ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in shown_names)

    records = f"{counts['read']:,} records read, {describe(_RECORDS)}"
    return f"{records}; {counts['source_rows']:,} rows merged, {describe(_OUTCOMES)}"


def describe_left_out(ranges: Sequence[Range], source: SourceId | None) -> str:
    """Describe what a table left out on purpose, in one line; of many ranges the first ones."""
    if not ranges:
        return f"begins with the first {source_words(source).position}"
    texts = [f"partition {part.partition} {part.start} to {part.end}" for part in ranges[:_MAX_RANGES]]
    omitted_count = len(ranges) - _MAX_RANGES
    texts += [f"{omitted_count:,} more partitions"] if omitted_count > 0 else []
    count = f"{sum(part.span for part in ranges):,} {source_words(source).position}s"
    return f"left out {count} on purpose" + "".join(f", {text}" for text in texts)


def describe_entry(entry: Entry) -> str:
    """Describe what a commit did."""
    commit = entry.commit
    subject = f"{commit.kind} {commit.number} is version {entry.version}"
    count = source_words(commit.source).count
    gaps = ", ".join(f"partition {gap.partition} {count(gap.start)} to {count(gap.end)}" for gap in commit.gap)
    skipped_text = f"skipped {source_words(commit.source).position}s that are gone, {gaps}"
    if commit.kind == "gap":
        return f"{subject}: {skipped_text}"
    if commit.kind == "start":
        left_out_text = describe_left_out(commit.left_out, commit.source)
        if not commit.left_out:
            left_out_text = f"begins {source_words(commit.source).source} {commit.stream}"
        return f"{subject}: {left_out_text}" + (f"; {skipped_text}" if commit.gap else "")
    if commit.kind == "acceptance":
        versions = ", ".join(map(str, commit.accepted))
        return f"{subject}: accepted the differences at version {versions}: {commit.reason}"
    return f"{subject}: {describe_counts(entry)}"


def _accounted(entry: Entry) -> int:
    """Return how many records, or rows of records, a commit accounts for; a withdrawn row has no record."""
    commit = entry.commit
    rows = entry.metrics.source_rows - commit.withdrawn
    return commit.filtered + commit.erased + commit.rejected + commit.superseded + rows


def require_accounted(entry: Entry, name: str) -> Entry:
    """Return the entry, or raise ``AccountingError`` if it does not account for every record it read.

    ``name`` is that of the table.
    """
    commit, metrics = entry.commit, entry.metrics
    accounted = _accounted(entry)
    if commit.judged == accounted and commit.has_every_record and entry.stale >= 0:
        return entry
    unit = "records" if commit.rows_read is None else "rows"
    problem = (
        f"read {commit.judged:,} {unit} but accounts for {accounted:,}: {commit.filtered:,} filtered,"
        f" {commit.rejected:,} rejected,"
        f" {commit.superseded:,} superseded and {metrics.source_rows:,} merged"
    )
    if not commit.has_every_record:
        problem = (
            f"read {commit.read:,} records, {commit.empty:,} of them without a row, but only {commit.judged:,} rows"
        )
    elif commit.judged == accounted:
        problem = f"merged {metrics.source_rows:,} rows but wrote {metrics.source_rows - entry.stale:,}"
    raise AccountingError(
        f"Batch {commit.number} {problem}",
        where=f"table {name}, version {entry.version}",
        action=f"The batch is committed. For the next steps, run: lakehouse audit {name}",
    )


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
        if entry.commit.judged != _accounted(entry) or not entry.commit.has_every_record:
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
