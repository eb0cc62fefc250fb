"""The figures of a commit: their names, their sums and their words, the same in the audit, the UI and the commands."""

from collections.abc import Iterable

from lakehouse.ledger.commits import Entry
from lakehouse.ledger.positions import words_of

FIGURES = ("read", "rejected", "duplicate", "late", "source_rows", "inserted", "updated", "stale")
"""Records read, and of these rejected, duplicate and late; rows merged, and of these inserted, updated and stale."""


def figures(entry: Entry) -> dict[str, int]:
    """What a commit says of its records, and what Delta counted of its rows."""
    commit, counted = entry.commit, entry.metrics
    told = (commit.read, commit.rejected, commit.duplicate, commit.late)
    rows = (counted.source_rows, counted.inserted, counted.updated, counted.stale)
    return dict(zip(FIGURES, (*told, *rows), strict=True))


def sums(entries: Iterable[Entry]) -> dict[str, int]:
    """The figures of several commits, added up; 0 where there is none."""
    each = [figures(entry) for entry in entries]
    return {name: sum(told[name] for told in each) for name in FIGURES}


def in_words(entry: Entry) -> str:
    """The figures in one line."""
    told = figures(entry)
    records = f"{told['read']:,} records read, " + ", ".join(f"{told[n]:,} {n}" for n in FIGURES[1:4])
    return f"{records}; {told['source_rows']:,} rows merged, " + ", ".join(f"{told[n]:,} {n}" for n in FIGURES[5:])


def sentence(entry: Entry) -> str:
    """What a commit did."""
    commit = entry.commit
    which = f"{commit.kind} {commit.number} is version {entry.version}"
    if commit.kind == "gap":
        gone = ", ".join(f"partition {part.partition} {part.start} to {part.end}" for part in commit.gap)
        return f"{which}: {words_of(commit.source).position}s that are gone are stepped over, {gone}"
    if commit.kind == "acceptance":
        return f"{which}: accepted is what does not add up at version {_listed(commit.accepted)}: {commit.reason}"
    return f"{which}: {in_words(entry)}"


def _listed(versions: Iterable[int]) -> str:
    return ", ".join(map(str, versions))
