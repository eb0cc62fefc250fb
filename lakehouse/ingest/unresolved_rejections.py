"""SQL conditions for rejected records that are unresolved: for Spark, and for readers without Spark."""

from collections.abc import Callable

from lakehouse.declaration.sql import quoted
from lakehouse.ledger.commits import OF_RECORDS
from lakehouse.ledger.ledger import Ledger


def unresolved_sql(merged: Ledger, quote: Callable[[str], str] = quoted) -> str:
    """Return SQL for unresolved rejections: not pending, and not passed in a valid commit of the merged table.

    Pending are the positions at or after the progress, in its source: their batch has not committed yet. Without a
    progress, all are pending. ``quote`` writes text in the SQL of the caller.
    """
    progress = merged.progress
    if progress is None:
        return "false"
    committed_ranges = [
        f"(position.partition = {p} AND position.position < {end})" for p, end in sorted(progress.positions.items())
    ]
    is_same_source = f"position.source = {quote(progress.source.text)}"
    return (
        f"{open_sql('', merged, quote)} AND NOT ({is_same_source} AND NOT ({' OR '.join(committed_ranges) or 'false'}))"
    )


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
