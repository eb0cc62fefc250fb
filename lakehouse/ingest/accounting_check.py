"""Requires that a batch accounts for every record that it read."""

from lakehouse.declaration import StreamTable
from lakehouse.errors import AccountingError
from lakehouse.ledger.commits import Entry


def require_accounted(entry: Entry, table: StreamTable) -> Entry:
    """Return the entry, or raise ``AccountingError`` if it does not account for every record it read."""
    commit, metrics = entry.commit, entry.metrics
    accounted = commit.filtered + commit.rejected + commit.duplicate + metrics.source_rows
    if commit.judged == accounted and commit.has_every_record and entry.stale >= 0:
        return entry
    unit = "records" if commit.rows_read is None else "rows"
    problem = (
        f"read {commit.judged:,} {unit} but accounts for {accounted:,}: {commit.filtered:,} filtered,"
        f" {commit.rejected:,} rejected,"
        f" {commit.duplicate:,} duplicate and {metrics.source_rows:,} merged"
    )
    if not commit.has_every_record:
        problem = (
            f"read {commit.read:,} records, {commit.empty:,} of them without a row, but only {commit.judged:,} rows"
        )
    elif commit.judged == accounted:
        problem = f"merged {metrics.source_rows:,} rows but wrote {metrics.source_rows - entry.stale:,}"
    raise AccountingError(
        f"Batch {commit.number} {problem}",
        where=f"table {table.name}, version {entry.version}",
        action=f"The batch is committed. For the next steps, run: lakehouse audit {table.name}",
    )
