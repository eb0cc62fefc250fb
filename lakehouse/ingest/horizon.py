"""The horizon of a table whose oldest deletes are forgotten: what is not newer than them may have been deleted.

A record up to the greatest purged order is only merged into a row that exists. Any other one is rejected: whether a
delete was after it is no longer known.
"""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.decoding.fields import BEYOND_HORIZON
from lakehouse.ingest.counts import Counts, count_batch
from lakehouse.ingest.deletes import settle_deletes
from lakehouse.ingest.merge import with_keys_of
from lakehouse.ledger.commits import Kind
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import SourceId
from lakehouse.storage.bounds import NO_BOUNDS, ChangeBounds, bounds_after
from lakehouse.storage.merge_spec import equal_keys
from lakehouse.storage.named_orders import compare_with, record_fields
from lakehouse.storage.row_order import KEPT
from lakehouse.storage.table_context import TableContext

_DETAIL = "deletes that may be newer were purged, and the key has no row or no value of a kept column"
_HAS_ROW, _HAS_DELETE = "_has_row", "_has_delete"


def is_beyond_horizon(table: StreamTable, ledger: Ledger, source: SourceId | None, kind: Kind) -> str:
    """Return the condition that a staged record is a row that a purged delete may have deleted; empty if none is."""
    bounds = bounds_after(ledger)
    if bounds.purged is None or not table.delete_rule or (kind == "batch" and _is_before_snapshot(bounds, source)):
        return ""
    is_old = compare_with(table, record_fields(table, source), "<=", bounds.purged, NO_BOUNDS)
    is_rowless = [f"NOT {name}" for name in table.rules().flags]
    return " AND ".join([f"{staged.REASON} IS NULL", *is_rowless, is_old])


def _is_before_snapshot(bounds: ChangeBounds, source: SourceId | None) -> bool:
    """Whether all purged deletes of a change stream are before its newest snapshot.

    Offsets then decide whether they are newer than a record, and all records of a batch are after them.
    """
    purged = bounds.purged
    if purged is None or purged.sequence is None or bounds.snapshot is None:
        return False
    is_same_source = purged.source is None or (source is not None and purged.source == source.text)
    return is_same_source and bounds.snapshot >= purged.sequence - 1


def reject_beyond_horizon(
    context: TableContext, records: DataFrame, counts: Counts, ledger: Ledger, is_beyond: str
) -> tuple[DataFrame, Counts]:
    """Reject the records that meet a condition and whose key has no row; return the records, and their counts.

    A key whose delete is stored is not rejected: no purged one is newer, and the merge compares with the stored one.
    """
    if not counts.beyond_horizon:
        return records, counts
    table = context.table
    is_same_key = f"{equal_keys(table.key)} AND {counts.prune}"
    valid_records = records.where(f"{staged.REASON} IS NULL").select(*table.key)
    rows = with_keys_of(valid_records, context.merged.rows(ledger.version), is_same_key, counts)
    names_of_kept = {name: f"_has_{name}" for name in table.keep}
    # a value without its own order was stored before the column was kept
    has_values = (
        f"(t.{KEPT}.`{name}`.position IS NOT NULL OR t.`{name}` IS NOT NULL) AS `{flag}`"
        for name, flag in names_of_kept.items()
    )
    known_keys = rows.selectExpr(*(f"`{name}`" for name in table.key), f"true AS {_HAS_ROW}", *has_values)
    has_values_too = (f"(`{name}` IS NULL OR coalesce(`{flag}`, false))" for name, flag in names_of_kept.items())
    has_row = " AND ".join([f"coalesce({_HAS_ROW}, false)", *has_values_too])
    is_rejected = f"({is_beyond} AND NOT ({has_row}) AND {_HAS_DELETE} IS NULL)"
    known_records = records.join(known_keys, list(table.key), "left")
    known_records = known_records.join(_deleted_keys(context, counts, ledger), list(table.key), "left")
    judged_records = known_records.withColumns(
        {
            staged.DETAIL: F.expr(f"IF({is_rejected}, {quoted(_DETAIL)}, {staged.DETAIL})"),
            staged.REASON: F.expr(f"IF({is_rejected}, {quoted(BEYOND_HORIZON)}, {staged.REASON})"),
        }
    )
    staged_records = judged_records.drop(_HAS_ROW, _HAS_DELETE, *names_of_kept.values()).localCheckpoint()
    return staged_records, replace(count_batch(staged_records, table), equal_versions=counts.equal_versions)


def _deleted_keys(context: TableContext, counts: Counts, ledger: Ledger) -> DataFrame:
    """The keys whose newest delete is stored."""
    deletes = settle_deletes(context, ledger)
    rows = None if deletes is None else deletes.rows
    key = [f"`{name}`" for name in context.table.key]
    if rows is None:
        return context.merged.rows(ledger.version).where("false").selectExpr(*key, f"true AS {_HAS_DELETE}")
    deletes_of_batch = rows.alias("d").where(counts.prune_by_key("d"))
    return deletes_of_batch.selectExpr(*key, f"true AS {_HAS_DELETE}")
