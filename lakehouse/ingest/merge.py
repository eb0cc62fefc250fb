"""Records and rows → the merged table: the newest row for each key, kept columns compared separately.

``merge_by_key`` merges the valid records of a batch, ``merge_newest`` rows of which each has its own key. If deletes
are declared, the newest delete of each key is compared too: what is older does not exist.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.decoding import staged
from lakehouse.ingest.compared_rows import Target, compare, store_spec
from lakehouse.ingest.counts import Counts
from lakehouse.ingest.deletes import Deletes, settle_deletes, store_deletes
from lakehouse.ingest.newest_per_key import newest_per_key
from lakehouse.ingest.rejected_records import DecodedBatch
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.storage.merge_spec import NO_BOUNDS, bounds_of
from lakehouse.storage.stored_table import COUNTED_FLAGS, ComparedRows, ExpectedRows
from lakehouse.storage.table_context import TableContext


def merge_by_key(context: TableContext, batch: DecodedBatch, counts: Counts) -> Entry:
    """Store the deletes of a batch, then merge its rows in one commit; raises what ``merge_newest`` raises."""
    table = context.table
    is_row = f"{staged.REASON} IS NULL" + (f" AND NOT {staged.ROWLESS}" if table.has_truncates else "")
    rows = batch.records.where(is_row).selectExpr("*", f"CAST(NULL AS BIGINT) AS {staged.BASE}")
    newest_rows = newest_per_key(
        rows,
        table,
        batch.plan.source,
        has_unique_keys=not counts.duplicate,
        # offsets of several partitions do not order the records of a key
        bounds=NO_BOUNDS if counts.changes.moved_keys else bounds_of(batch.commit),
    )
    return merge_newest(context, newest_rows, counts, batch.commit, settle_deletes(context, batch.ledger))


def merge_newest(
    context: TableContext, newest_rows: DataFrame, counts: Counts, commit: Commit, deletes: Deletes | None
) -> Entry:
    """Merge rows, one for each key, in one commit; rows that are older than the table's are stale.

    Each row is compared once with the stored row of its key, which gives the row to store; the commit only writes it.
    If the stored row has changed since, or has been added since, the commit fails (``ConflictError``). Stale rows take
    part in no match and no insert, so that a replay writes no data file. They still count: Delta reports every row of
    the batch as a source row. The commit names the deletes that count. New deletes among the rows are stored before
    it, in a version that only this commit names.
    """
    target = Target(context.table, context.merged)
    if deletes is not None:
        commit = commit.with_fields(deletes_table=deletes.counted_version)
        target = Target(context.table, context.merged, deletes.rows, bounds_of(commit), counts.deleted_keys > 0)
    keep = target.table.keep
    # stored values of kept columns were not counted
    text = None if target.text_columns & {*keep} else counts.text_from(commit.source, 1 + len(keep))
    expected = ExpectedRows(counts.rows, text, counts.touched.partitions)
    return target.merged.write_compared(NewestRows(target, newest_rows, counts, deletes), commit, expected)


@dataclass(frozen=True)
class NewestRows:
    """Rows to merge, one for each key: a ``Comparison`` with the stored rows, and with the deletes that count."""

    target: Target
    rows: DataFrame
    counts: Counts
    deletes: Deletes | None

    def compare_few(self, stored_rows: DataFrame) -> DataFrame:
        """Return the rows to store."""
        compared_rows = compare(self.target, stored_rows, self.rows, self.counts).drop(staged.MATCHED_ROW)
        # a stale row has the stored texts, and is not written, and neither is a removed row
        is_unwritten = f"{staged.STALE} OR {staged.REMOVES}" if self.target.table.delete_rule else staged.STALE
        texts = {name: F.expr(f"IF({is_unwritten}, NULL, `{name}`)") for name in sorted(self.target.text_columns)}
        return compared_rows.withColumns(texts) if texts else compared_rows

    def compare_many(self, stored_rows: DataFrame) -> ComparedRows:
        """Return the rows to store and the MERGE that stores them, each with the row that it was compared with."""
        compared_rows = compare(self.target, stored_rows, self.rows, self.counts).localCheckpoint()
        spec = store_spec(self.target, stored_rows, self.counts)
        return ComparedRows(compared_rows.hint(self.counts.join), spec, _count_flags(compared_rows))

    def before_commit(self, compared_rows: DataFrame, commit: Commit) -> Commit:
        """Store the new deletes; return the commit that names them."""
        if self.deletes is None or not self.counts.deleted_keys:
            return commit
        new_deletes = compared_rows.where(f"{staged.DELETE} IS NOT NULL")
        if new_deletes.isEmpty():
            return commit
        expected = ExpectedRows(self.counts.deleted_keys, self.counts.text_from(commit.source))
        stored_deletes = store_deletes(self.target.table, self.deletes, new_deletes, expected, commit)
        return commit.with_fields(deletes_table=stored_deletes)


def _count_flags(compared_rows: DataFrame) -> dict[str, int]:
    """Count what the commit counts of compared rows, in one statement; in none if it counts nothing."""
    counts = [F.count_if(name).alias(name) for name in COUNTED_FLAGS if name in compared_rows.columns]
    row = compared_rows.agg(*counts).first() if counts else None
    return row.asDict() if row else {}
