"""Truncates of a change stream: every row that is older than the truncate is deleted, in a commit of its own.

The commit comes before the batch that read the truncate. It names the position of the truncate, and so does every later
commit: an older change that arrives later does not become a row. If the batch dies, the commit remains: the
truncate is the same in every batch that reads it.
"""

from dataclasses import replace

from lakehouse.errors import ConflictError
from lakehouse.ingest.counts import Counts
from lakehouse.ingest.rejected_records import DecodedBatch
from lakehouse.storage.merge_spec import MergeSpec, equal_keys
from lakehouse.storage.row_order import bounds_after, order_fields
from lakehouse.storage.table_context import TableContext


def delete_truncated(context: TableContext, batch: DecodedBatch, counts: Counts) -> DecodedBatch:
    """Delete the rows before the newest truncate of a batch, unless that was done before; return the batch to merge.

    Writes nothing if no row is older. Raises ``ConflictError`` if another writer was first.
    """
    position, former_position = counts.truncate_position, bounds_after(batch.ledger).truncate
    if position is None or (former_position is not None and position <= former_position):
        return batch
    is_older = f"coalesce({order_fields(context.table, 't')['sequence']} < {position}, true)"
    keys = context.merged.rows(batch.ledger.version).alias("t").where(is_older).select(*context.table.key)
    if keys.isEmpty():
        return batch
    spec = MergeSpec(f"{equal_keys(context.table.key)} AND {is_older}", delete_if="true")
    commit = batch.ledger.next_commit("truncate", batch.commit.run).with_fields(truncate_position=position)
    entry = context.merged.merge(keys, spec, commit)
    ledger = context.ledger()
    if ledger.version != entry.version or entry.version != commit.table_version + 1:
        message = f"Another writer changed {context.table.name} at the same moment"
        raise ConflictError(message, where=context.table.name, action="Nothing was merged. Run it again.")
    next_commit = ledger.next_commit(batch.commit.kind, batch.commit.run)
    carried = {
        name: getattr(next_commit, name) for name in ("number", "table_version", "rows_version", "totals_before")
    }
    return replace(batch, ledger=ledger, commit=batch.commit.with_fields(**carried))
