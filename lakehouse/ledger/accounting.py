"""The counts of a commit: their names, sums and descriptions, the same in the audit, the UI and the commands."""

from collections.abc import Iterable, Mapping, Sequence

from lakehouse.ledger.commits import Entry
from lakehouse.ledger.positions import Range, SourceId, source_words

_MAX_RANGES = 12  # in a description
OPTIONAL_FIGURES = (
    "empty",
    "rows_read",
    "filtered",
    "rounded",
    "equal_versions",
    "deleted",
    "deletes_without_row",
    "times_back",
)
"""Figures of tables that declare ``rows_from=``, ``where=``, decimals, versions or deletes, and of clocks that went
back, which are only shown if they are not zero."""
_RECORDS = (
    "empty",
    "rows_read",
    "filtered",
    "rejected",
    "duplicate",
    "late",
    "times_back",
    "rounded",
    "equal_versions",
)
_OUTCOMES = ("inserted", "updated", "deleted", "deletes_without_row", "stale")
FIGURES = ("read", *_RECORDS, "source_rows", *_OUTCOMES)
"""Records read, and of these filtered, rejected, duplicate, late, rounded, and those whose time went back or whose
version is not unique; rows merged, and of these each by its outcome.

If the elements of an array are rows: records read and those without a row, and the rows that the others have. Of these
rows the others count."""


def figures(entry: Entry) -> dict[str, int]:
    """Return the record counts that a commit states, and the row counts of Delta."""
    commit, metrics = entry.commit, entry.metrics
    records = (
        commit.read,
        commit.empty,
        commit.rows_read or 0,
        commit.filtered,
        commit.rejected,
        commit.duplicate,
        commit.late,
        commit.times_back,
        commit.rounded,
        commit.equal_versions,
    )
    rows = (metrics.source_rows, metrics.inserted, metrics.updated)
    deletes = (metrics.deleted, commit.deletes_without_row)
    return dict(zip(FIGURES, (*records, *rows, *deletes, entry.stale), strict=True))


def sums(entries: Iterable[Entry]) -> dict[str, int]:
    """Return the sums of the counts of several commits; 0 if there are no commits."""
    counts = [figures(entry) for entry in entries]
    return {name: sum(count[name] for count in counts) for name in FIGURES}


def shown_totals(totals: Mapping[str, int]) -> dict[str, int]:
    """Return the totals to show by name; some only if they are not zero."""
    return {name: count for name, count in totals.items() if count or name not in OPTIONAL_FIGURES}


def describe_counts(entry: Entry) -> str:
    """Describe the counts in one line; some only if they are not zero."""
    counts = figures(entry)

    def describe(names: Iterable[str]) -> str:
        shown_names = (name for name in names if counts[name] or name not in OPTIONAL_FIGURES)
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
