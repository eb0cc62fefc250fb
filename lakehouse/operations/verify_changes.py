"""Checks of a table that follows a database: what its change stream did not send."""

from collections.abc import Iterable, Iterator, Sequence

from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sql import quoted
from lakehouse.ingest.compared_rows import fields_of
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
    its end, the check passes. Rows of other partitions than that of its end count once a later record was read there.
    """
    statement = "the newest snapshot has every row that is older than it"
    newest = context.ledger().newest
    end = newest.commit.snapshot_end if newest else None
    if end is None or end.sequence is None:
        return finding(ROWS_IN_SNAPSHOT, [], f"{statement} (none was read to its end, or its last record was rejected)")
    advice = (
        f"The database has deleted these rows, or their record in the snapshot was rejected: lakehouse rejected"
        f" {context.table.name}. To see them: lakehouse compare {context.table.name}."
    )
    times = context.merged.rows().groupBy(f"{RECORD}.partition").agg(F.max(f"{RECORD}.time").alias("time"))
    is_read = f"time >= timestamp_micros({end.time}L) OR partition = {end.partition}"
    partitions = [int(row[0]) for row in times.where(is_read).collect()]
    problems = find_rows(context, _is_missing(end, partitions)) if partitions else []
    return finding(ROWS_IN_SNAPSHOT, problems, statement, advice)


def _is_missing(end: RecordOrder, partitions: Sequence[int]) -> str:
    """Return the condition that a row is older than a snapshot, and that none of its records is newer by its place."""
    is_read = f"{RECORD}.partition IN ({', '.join(map(str, partitions))})"
    time = f"{RECORD}.time > timestamp_micros({end.time}L)"
    is_after = f"IF({RECORD}.partition = {end.partition}, {RECORD}.position > {end.position}L, {time})"
    is_newer = f"({RECORD}.source = {quoted(end.source or '')} AND {is_after})"
    return f"{is_read} AND {RECORD}.sequence < {end.sequence}L AND NOT {is_newer}"


@spark_failures()
def verify_values(context: TableContext) -> Finding:
    """Check that each NULL of a kept column was sent.

    Debezium does not send a long value that did not change. If no earlier record had it, the column is NULL, too. A
    NULL from before the column was kept counts as not sent.
    """
    kept_columns = {field.name for field in fields_of(context.merged.rows().schema[KEPT].dataType)}
    conditions = _unsent(name for name in context.table.keep if name in kept_columns)
    problems = [problem for condition in conditions for problem in find_rows(context, *condition)]
    advice = "Let Debezium take an incremental snapshot of these rows: its records have all values."
    return finding(VALUES_SENT, problems, "the value of each kept column was sent", advice)


def _unsent(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        yield (
            f"`{name}` IS NULL AND {KEPT}.`{name}`.position IS NULL",
            f" has no value of {name}, because none was sent",
        )
