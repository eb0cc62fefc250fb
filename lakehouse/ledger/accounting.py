"""The counts of a commit: their names, sums and descriptions, the same in the audit, the UI and the commands."""

from collections.abc import Iterable, Mapping

from lakehouse.ledger.commits import Entry
from lakehouse.ledger.positions import source_words

_OF_DELETES = ("deleted", "deletes_without_row")
FIGURES = ("read", "rejected", "duplicate", "late", "source_rows", "inserted", "updated", *_OF_DELETES, "stale")
"""Records read, and of these rejected, duplicate and late; rows merged, and of these each by its outcome."""


def figures(entry: Entry) -> dict[str, int]:
    """Return the record counts that a commit states, and the row counts of Delta."""
    commit, metrics = entry.commit, entry.metrics
    records = (commit.read, commit.rejected, commit.duplicate, commit.late)
    rows = (metrics.source_rows, metrics.inserted, metrics.updated)
    deletes = (metrics.deleted, commit.deletes_without_row)
    return dict(zip(FIGURES, (*records, *rows, *deletes, entry.stale), strict=True))


def sums(entries: Iterable[Entry]) -> dict[str, int]:
    """Return the sums of the counts of several commits; 0 if there are no commits."""
    counts = [figures(entry) for entry in entries]
    return {name: sum(count[name] for count in counts) for name in FIGURES}


def shown_totals(totals: Mapping[str, int]) -> dict[str, int]:
    """Return the totals to show by name; those of deletes only if there are any."""
    return {name: count for name, count in totals.items() if count or name not in _OF_DELETES}


def describe_counts(entry: Entry) -> str:
    """Describe the counts in one line; deletes only if there are any."""
    counts = figures(entry)
    records = f"{counts['read']:,} records read, " + ", ".join(f"{counts[name]:,} {name}" for name in FIGURES[1:4])
    outcomes = [name for name in FIGURES[5:] if counts[name] or name not in _OF_DELETES]
    rows = ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in outcomes)
    return f"{records}; {counts['source_rows']:,} rows merged, {rows}"


def describe_entry(entry: Entry) -> str:
    """Describe what a commit did."""
    commit = entry.commit
    subject = f"{commit.kind} {commit.number} is version {entry.version}"
    if commit.kind == "gap":
        gaps = ", ".join(f"partition {gap.partition} {gap.start} to {gap.end}" for gap in commit.gap)
        return f"{subject}: skipped {source_words(commit.source).position}s that are gone, {gaps}"
    if commit.kind == "acceptance":
        versions = ", ".join(map(str, commit.accepted))
        return f"{subject}: accepted the differences at version {versions}: {commit.reason}"
    return f"{subject}: {describe_counts(entry)}"
