"""SQL conditions for rejected records that are unresolved: for Spark, and for readers without Spark."""

from collections.abc import Callable

from lakehouse.declaration.sql import quoted
from lakehouse.ledger.commit_infos import names_of_sources, progress_by_source
from lakehouse.ledger.commits import OF_RECORDS
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Positions


def unresolved_sql(merged: Ledger, quote: Callable[[str], str] = quoted) -> str:
    """Return SQL for unresolved rejections: not pending, and not passed in a valid commit of the merged table.

    Pending are the positions at or after the progress of their source: their batch has not committed yet. Without a
    progress, all are pending, and so are those of a topic whose only progress was undone. ``quote`` writes text in the
    SQL of the caller.
    """
    commit = merged.newest.commit if merged.newest else None
    progress = progress_by_source(commit)
    if not progress:
        return "false"
    pending = [_pending_sql(quote(source.text), positions) for source, positions in sorted(progress.items())]
    names = {*names_of_sources(commit).values()} if commit else set()
    undone_topics = sorted(text for text, name in merged.undone_sources.items() if name not in names)
    pending += [_pending_sql(quote(text), {}) for text in undone_topics]
    return " AND NOT ".join([open_sql("", merged, quote), *pending])


def _pending_sql(source: str, positions: Positions) -> str:
    """Return the condition that a position is in a source, given in SQL, and not before these."""
    committed_ranges = [
        f"(position.partition = {p} AND position.position < {end})" for p, end in sorted(positions.items())
    ]
    return f"(position.source = {source} AND NOT ({' OR '.join(committed_ranges) or 'false'}))"


def open_sql(row: str, merged: Ledger, quote: Callable[[str], str] = quoted) -> str:
    """Return the condition that no valid commit of the merged table has a stored record."""
    is_unresolved = f"{row}resolved_table_id IS DISTINCT FROM {quote(merged.table_id)}"
    return f"({is_unresolved} OR {undone_sql(row, merged)})"


def undone_sql(row: str, merged: Ledger) -> str:
    """Return the condition that a stored record passed in a commit that the merged table no longer has.

    A RESTORE undid the commit, or the table was restored from a backup: then it reuses the numbers of later commits.
    """
    newest_number = next((e.commit.number for e in merged.entries if e.commit.kind in OF_RECORDS), merged.transaction)
    undone_numbers = ", ".join(map(str, sorted(merged.undone_numbers)))
    is_later = f"{row}resolved_number > {newest_number}"
    return f"({row}resolved_number IN ({undone_numbers}) OR {is_later})" if undone_numbers else f"({is_later})"
