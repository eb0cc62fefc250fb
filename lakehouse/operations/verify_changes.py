"""Checks of a table that follows a database: what its change stream did not send."""

from collections.abc import Iterator

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sql import quoted
from lakehouse.ledger.audit import Finding, finding
from lakehouse.ledger.commit_values import RecordOrder
from lakehouse.operations.verify import find_rows
from lakehouse.storage.row_order import KEPT
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.table_context import TableContext

ROWS_IN_SNAPSHOT, VALUES_SENT = "rows_in_snapshot", "values_sent"


@spark_failures()
def verify_snapshot(context: TableContext) -> Finding:
    """Check that the newest snapshot of the whole table has every row that is older than it.

    A row that it does not have was deleted in the database, and its delete never arrived. Until a snapshot is read to
    its end, the check passes.
    """
    statement = "the newest snapshot has every row that is older than it"
    newest = context.ledger().newest
    end = newest.commit.snapshot_end if newest else None
    if end is None or end.sequence is None:
        return finding(ROWS_IN_SNAPSHOT, [], f"{statement} (none was read to its end yet)")
    advice = (
        f"The database has deleted these rows, or their record in the snapshot was rejected: lakehouse rejected"
        f" {context.table.name}. To see them: lakehouse compare {context.table.name}."
    )
    return finding(ROWS_IN_SNAPSHOT, find_rows(context, _is_missing(end)), statement, advice)


def _is_missing(end: RecordOrder) -> str:
    """Return the condition that a row is older than a snapshot, and that none of its records is newer by its place."""
    time = f"{RECORD}.time > timestamp_micros({end.time}L)"
    is_after = f"IF({RECORD}.partition = {end.partition}, {RECORD}.position > {end.position}L, {time})"
    return f"{RECORD}.sequence < {end.sequence}L AND NOT ({RECORD}.source = {quoted(end.source or '')} AND {is_after})"


@spark_failures()
def verify_values(context: TableContext) -> Finding:
    """Check that each NULL of a kept column was sent.

    Debezium does not send a long value that did not change. If no earlier record had it, the column is NULL, too. A
    NULL from before the column was kept counts as not sent.
    """
    problems = [problem for condition in _unsent(context.table) for problem in find_rows(context, *condition)]
    advice = "Let Debezium take an incremental snapshot of these rows: its records have all values."
    return finding(VALUES_SENT, problems, "the value of each kept column was sent", advice)


def _unsent(table: StreamTable) -> Iterator[tuple[str, str]]:
    for name in table.keep:
        yield (
            f"`{name}` IS NULL AND {KEPT}.`{name}`.position IS NULL",
            f" has no value of {name}, because none was sent",
        )
