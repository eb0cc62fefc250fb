"""Snapshots of a change stream: each has a greater position than all changes before it, or the database went back.

A database that is restored from a backup, or replaced by another server, gives positions again. Its changes would look
older than the stored rows, and would be lost without an error.
"""

from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration.names import RECORD
from lakehouse.decoding import staged
from lakehouse.errors import LedgerError
from lakehouse.ingest.counts import Counts
from lakehouse.ingest.rejected_records import DecodedBatch
from lakehouse.storage.table_context import TableContext

_IS_LATER = "s.sequence > n.sequence AND (s.source IS NULL OR s.partition = n.partition AND s.position < n.position)"


def require_greater_positions(context: TableContext, batch: DecodedBatch, counts: Counts) -> None:
    """Raise ``LedgerError`` if a snapshot of the whole table has a smaller position than a change before it.

    Compares with the stored rows only if the batch has a snapshot that no batch had before.
    """
    if counts.snapshot_position in (None, batch.ledger.snapshot_position):
        return
    source = batch.plan.source.text if batch.plan.source else ""
    place = (f"{staged.PARTITION} AS partition", f"{staged.POSITION} AS position", f"{staged.SEQUENCE} AS sequence")
    changes = batch.records.where(f"{staged.SNAPSHOT} IS NULL").selectExpr(f"'{source}' AS source", *place)
    stored_records = context.merged.rows(batch.ledger.version).selectExpr(
        *(f"{RECORD}.{name}" for name in ("source", "partition", "position", "sequence"))
    )
    earlier_records = changes.unionByName(stored_records).where("sequence IS NOT NULL").alias("s")
    # of another source, whose positions in the topic cannot be compared, every record was before
    earlier_records = earlier_records.withColumn("source", F.expr(f"IF(source = '{source}', source, NULL)")).alias("s")
    snapshots = batch.records.where(staged.SNAPSHOT).selectExpr(*place).groupBy("partition", "sequence")
    first_records = snapshots.agg(F.min("position").alias("position")).alias("n")
    found_pair = first_records.join(earlier_records, F.expr(_IS_LATER)).selectExpr("n.*", "s.sequence AS later").first()
    if found_pair is not None:
        raise LedgerError(
            f"The log of the database went back: partition {found_pair['partition']} has a snapshot at position"
            f" {found_pair['sequence']:,} after a change at position {found_pair['later']:,}",
            where=f"topic {context.table.topic}, offset {found_pair['position']}",
            action="The database was restored, or replaced by another server. Nothing was merged. Send its changes to a"
            " new topic, and declare a table with another name for it.",
        )
