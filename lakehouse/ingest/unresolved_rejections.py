"""Which stored records are still out, as conditions in SQL: for Spark, and for who looks without it."""

from collections.abc import Callable

from lakehouse.declaration.sql import quoted
from lakehouse.ledger.commits import OF_RECORDS
from lakehouse.ledger.ledger import Ledger


def unresolved(merged: Ledger, quote: Callable[[str], str] = quoted) -> str:
    """SQL for the rows whose records are out: not pending, and not passed in a commit that stands in this table.

    Pending are the positions at or beyond the progress, of the source it belongs to: their batch has not
    committed yet. Without a progress all are. ``quote`` writes text in the SQL of whoever asks.
    """
    progress = merged.progress
    if progress is None:
        return "false"
    below = [
        f"(position.partition = {p} AND position.position < {end})" for p, end in sorted(progress.positions.items())
    ]
    here = f"position.source = {quote(progress.source.text)}"
    return f"{is_open('', merged, quote)} AND NOT ({here} AND NOT ({' OR '.join(below) or 'false'}))"


def is_open(row: str, merged: Ledger, quote: Callable[[str], str] = quoted) -> str:
    """Whether a stored record is in no commit of this table that still stands."""
    elsewhere = f"{row}resolved_table_id IS DISTINCT FROM {quote(merged.table_id)}"
    return f"({elsewhere} OR {was_undone(row, merged)})"


def was_undone(row: str, merged: Ledger) -> str:
    """Whether a stored record passed in a commit of this table that a RESTORE undid, or that it does not have.

    A table that was brought back from a backup has none of the commits after it; their numbers are given again.
    """
    newest = next((e.commit.number for e in merged.entries if e.commit.kind in OF_RECORDS), merged.transaction)
    numbers = ", ".join(map(str, sorted(merged.undone)))
    beyond = f"{row}resolved_number > {newest}"
    return f"({row}resolved_number IN ({numbers}) OR {beyond})" if numbers else f"({beyond})"
