"""Records → a log table: each valid record becomes one row, exactly once.

The position of its record and its time on the broker identify a row: a broker that was rolled back gives the same
positions to other records.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.decoding import staged
from lakehouse.ingest.counts import Counts
from lakehouse.ingest.rejected_records import DecodedBatch, covered_sql, position_fields
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan
from lakehouse.storage.merge_spec import MergeSpec, from_source
from lakehouse.storage.row_order import identity_fields, same_record
from lakehouse.storage.stored_table import ExpectedRows, StoredTable


def append_records(table: StreamTable, merged_table: StoredTable, batch: DecodedBatch, counts: Counts) -> Entry:
    """Append the valid records of a batch in one commit; reads nothing of the table.

    Records that the table may already have are inserted by their positions instead, and present ones count as stale.
    These are the records of a replay or a redrive, and of ranges that an undone commit has read before. Raises the
    same errors as ``commit_merge``.
    """
    commit = batch.commit
    if not counts.rows:
        return merged_table.commit_nothing(commit)
    if batch.files:
        return merged_table.add_files(batch.files, commit)
    rows = _to_rows(table, batch, merged_table.layout.names)
    if commit.kind != "batch" or not is_new(batch.ledger, batch.plan):
        return _insert_missing(table, merged_table, rows, batch, counts)
    return merged_table.append(rows, commit, ExpectedRows(counts.rows, counts.text_from(commit.source)))


def is_new(ledger: Ledger, plan: Plan) -> bool:
    """Whether no commit, not even an undone one, has read records of these ranges."""
    reached_ends = ledger.reached.get(plan.source.text, {})
    return all(part.start >= reached_ends.get(part.partition, 0) for part in plan.ranges if part.span)


def _to_rows(table: StreamTable, batch: DecodedBatch, column_names: Sequence[str]) -> DataFrame:
    """Return the valid records as rows of the table."""
    index = f", {staged.INDEX} AS index" if table.has_elements else ""
    record = f"struct({position_fields(batch.plan)}, {staged.TIME} AS time, {staged.ORDER_TIME} AS order_time{index})"
    rows = batch.records.where(f"{staged.REASON} IS NULL").withColumn(RECORD, F.expr(record))
    return rows.select(*(f"`{name}`" for name in column_names))


def _insert_missing(
    table: StreamTable, merged_table: StoredTable, rows: DataFrame, batch: DecodedBatch, counts: Counts
) -> Entry:
    """Insert the rows whose record is missing; the others count as stale and write no file.

    Stale rows are marked before the MERGE, and it has a clause for matching rows although none matches: with one,
    Delta counts its source twice and commits nothing if the counts differ.
    """
    identity = ", ".join(f"{RECORD}.{name}" for name in identity_fields(table))
    stored_rows = merged_table.rows().where(covered_sql(RECORD, batch.plan))
    stored_records = stored_rows.select(F.expr(f"struct({identity}) AS _stored_record")).distinct()
    marked_rows = rows.join(stored_records, F.expr(same_record(table, RECORD, "_stored_record")), "left")
    marked_rows = marked_rows.withColumn(staged.STALE, F.expr("_stored_record IS NOT NULL"))
    marked_rows = marked_rows.drop("_stored_record").localCheckpoint()
    is_new = f"NOT s.{staged.STALE}"
    spec = MergeSpec(
        f"{same_record(table, f's.{RECORD}', f't.{RECORD}')} AND {covered_sql(f't.{RECORD}', batch.plan)} AND {is_new}",
        from_source([RECORD]),
        from_source(merged_table.layout.names),
        insert_if=is_new,
    )
    return merged_table.merge(marked_rows.hint(counts.join), spec, batch.commit)
