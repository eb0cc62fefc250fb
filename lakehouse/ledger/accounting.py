"""The counts of a commit: their names, sums and descriptions, the same in the audit, the UI and the commands."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from lakehouse.ledger.commits import Entry
from lakehouse.ledger.positions import Range, SourceId, source_words

_MAX_RANGES = 12  # in a description


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
    Figure("rejected", "records_rejected", lambda entry: entry.commit.rejected),
    Figure("duplicate", "records_duplicate", lambda entry: entry.commit.duplicate),
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
