"""The horizon of a table whose oldest deletes are forgotten: what is not newer than them may have been deleted.

A record up to the greatest purged order is only merged into a row that exists. Any other one is rejected: whether a
delete was after it is no longer known.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.decoding.fields import BEYOND_HORIZON
from lakehouse.ingest.counts import Counts, count_batch
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import SourceId
from lakehouse.storage.bounds import NO_BOUNDS, bounds_after
from lakehouse.storage.named_orders import compare_with, record_fields
from lakehouse.storage.row_order import KEPT
from lakehouse.storage.table_context import TableContext

_DETAIL = "deletes that may be newer were purged, and the key has no row or no value of a kept column"
_HAS_ROW = "_has_row"


def is_beyond_horizon(table: StreamTable, ledger: Ledger, source: SourceId | None) -> str:
    """Return the condition that a staged record is a row that a purged delete may have deleted; empty if none is."""
    bounds = bounds_after(ledger)
    if bounds.purged is None or not table.delete_rule:
        return ""
    is_old = compare_with(table, record_fields(table, source), "<=", bounds.purged, NO_BOUNDS)
    is_rowless = [f"NOT {name}" for name in table.rules().flags]
    return " AND ".join([f"{staged.REASON} IS NULL", *is_rowless, is_old])


def reject_beyond_horizon(
    context: TableContext, records: DataFrame, counts: Counts, ledger: Ledger, is_beyond: str
) -> tuple[DataFrame, Counts]:
    """Reject the records that meet a condition and whose key has no row; return the records, and their counts."""
    if not counts.beyond_horizon:
        return records, counts
    table = context.table
    rows = context.merged.rows(ledger.version).alias("t").where(counts.prune)
    names_of_kept = {name: f"_has_{name}" for name in table.keep}
    has_values = (f"t.{KEPT}.`{name}`.position IS NOT NULL AS `{flag}`" for name, flag in names_of_kept.items())
    known_keys = rows.selectExpr(*(f"`{name}`" for name in table.key), f"true AS {_HAS_ROW}", *has_values)
    has_values_too = (f"(`{name}` IS NULL OR coalesce(`{flag}`, false))" for name, flag in names_of_kept.items())
    has_row = " AND ".join([f"coalesce({_HAS_ROW}, false)", *has_values_too])
    is_rejected = f"({is_beyond} AND NOT ({has_row}))"
    judged_records = records.join(known_keys, list(table.key), "left").withColumns(
        {
            staged.DETAIL: F.expr(f"IF({is_rejected}, {quoted(_DETAIL)}, {staged.DETAIL})"),
            staged.REASON: F.expr(f"IF({is_rejected}, {quoted(BEYOND_HORIZON)}, {staged.REASON})"),
        }
    )
    staged_records = judged_records.drop(_HAS_ROW, *names_of_kept.values()).localCheckpoint()
    return staged_records, count_batch(staged_records, table)
