"""Snapshots of a change stream: each has a greater position than all changes before it, or the database went back.

A database that is restored from a backup, or replaced by another server, gives positions again. Its changes would look
older than the stored rows, and would be lost without an error.
"""

from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.errors import LedgerError
from lakehouse.ingest.counts import Counts
from lakehouse.ingest.deletes import deletes_layout
from lakehouse.ingest.found_order import greatest_order
from lakehouse.ingest.rejected_records import DecodedBatch
from lakehouse.storage.bounds import bounds_after
from lakehouse.storage.named_orders import record_fields
from lakehouse.storage.table_context import TableContext

_IS_LATER = "s.sequence > n.sequence AND (s.source IS NULL OR s.partition = n.partition AND s.position < n.position)"
_PLACE = (f"{staged.PARTITION} AS partition", f"{staged.POSITION} AS position", f"{staged.SEQUENCE} AS sequence")


def require_greater_positions(context: TableContext, batch: DecodedBatch, counts: Counts) -> None:
    """Raise ``LedgerError`` if a snapshot of the whole table has a smaller position than a change before it.

    Compares with stored rows and deletes, only for a batch with a snapshot that no batch had before, and not with the
    position that the declaration accepts.
    """
    if batch.commit.kind != "batch" or counts.snapshot_position is None:
        return
    known_position = bounds_after(batch.ledger).snapshot
    known_positions = [p for p in (known_position, context.table.format.accepted_snapshot) if p is not None]
    snapshots = batch.records.where(f"{staged.SNAPSHOT} <> '{staged.PART}'").selectExpr(*_PLACE)
    new_snapshots = snapshots.where(~F.col("sequence").isin(known_positions)) if known_positions else snapshots
    first_records = new_snapshots.groupBy("partition", "sequence").agg(F.min("position").alias("position"))
    if first_records.isEmpty():
        return
    found_pair = first_after_later(context, batch, first_records)
    if found_pair is not None:
        raise _went_back_error(context, found_pair)


def first_after_later(context: TableContext, batch: DecodedBatch, records: DataFrame) -> Row | None:
    """The record with the smallest position of which the source had already sent a later change; ``None`` if none is.

    ``records`` have partition, position and sequence. Compares with the other changes of the batch, with stored rows
    and with deletes.
    """
    source = quoted(batch.plan.source.text if batch.plan.source else "")
    changes = batch.records.where(f"{staged.SNAPSHOT} IS NULL").selectExpr(f"{source} AS source", *_PLACE)
    stored_tables = (context.merged, context.stored_table(deletes_layout))
    stored_records = (
        table.rows().selectExpr(*(f"{RECORD}.{name}" for name in changes.columns)) for table in stored_tables
    )
    earlier_records = reduce(DataFrame.unionByName, stored_records, changes).where("sequence IS NOT NULL")
    # of another source, whose positions in the topic cannot be compared, every record was before
    earlier_records = earlier_records.withColumn("source", F.expr(f"IF(source = {source}, source, NULL)")).alias("s")
    pairs = records.alias("n").join(earlier_records, F.expr(_IS_LATER))
    return pairs.selectExpr("n.*", "s.sequence AS later").orderBy("sequence", F.desc("later")).first()


def note_snapshot_end(table: StreamTable, batch: DecodedBatch, counts: Counts) -> DecodedBatch:
    """Return the batch with the order of the record that ends its newest snapshot of the whole table, if one does."""
    if not counts.snapshot_ends:
        return batch
    fields = record_fields(table, batch.plan.source)
    ends = batch.records.where(f"{staged.SNAPSHOT} = '{staged.LAST}'")
    end = greatest_order(ends, table, fields)
    former_end = batch.commit.snapshot_end
    is_newer = end and (former_end is None or (end.sequence or 0) >= (former_end.sequence or 0))
    return replace(batch, commit=batch.commit.with_fields(snapshot_end=end)) if is_newer else batch


def _went_back_error(context: TableContext, pair: Row) -> LedgerError:
    position = pair["sequence"]
    return LedgerError(
        f"The log of the database went back: partition {pair['partition']} has a snapshot at position {position} after"
        f" a change at position {pair['later']}",
        where=f"topic {context.table.topic}, offset {pair['position']}",
        action="Nothing was merged. If the database was restored, or replaced by another server, send its changes to a"
        " new topic, and declare a table with another name. If it did not go back, as with a snapshot that was"
        f" requested while changes were sent, declare Debezium(accepted_snapshot={position}).",
    )
