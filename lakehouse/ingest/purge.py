"""Purge deletes: forget the oldest ones, so that the table of deletes does not grow without limit.

A record that is not newer than a purged delete may have been deleted by it. So the merged table names the greatest
order of a purged delete, and ``horizon`` rejects records up to it whose key has no row.
"""

from datetime import UTC, datetime

from pyspark.sql import DataFrame

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.ingest.deletes import Deletes, settle_deletes
from lakehouse.ingest.found_order import greatest_order, least_order
from lakehouse.ledger.commit_values import RecordOrder
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.ledger.ledger import Ledger
from lakehouse.storage.bounds import NO_BOUNDS, ChangeBounds, bounds_after
from lakehouse.storage.merge_spec import MergeSpec, equal_keys
from lakehouse.storage.named_orders import compare_with, literal_fields
from lakehouse.storage.row_order import order_fields
from lakehouse.storage.table_context import TableContext


def purge_deletes(context: TableContext, now: datetime | None = None) -> None:
    """Forget the deletes that were received before the declared period, and are older than every row and delete since.

    A delete with a greater order stays: if its version is in the far future, every new record would look old. First
    restores the deletes that count. If a run dies between its two commits, the next one does both again; a second run
    changes nothing. Raises ``ConflictError`` if another writer was first.
    """
    table, ledger = context.table, context.ledger()
    deletes = settle_deletes(context, ledger)
    if table.purge_deletes is None or deletes is None or not deletes.ledger.exists or not ledger.exists:
        return
    begin = (now or datetime.now(UTC)) - table.purge_deletes
    is_recent = f"t.{RECORD}.time >= timestamp_micros({round(begin.timestamp() * 1_000_000)}L)"
    rows, fields = context.merged.rows(ledger.version), order_fields(table, "t")
    stored_deletes = deletes.stored_table.rows(deletes.ledger.version).alias("t")
    if stored_deletes.where(f"NOT {is_recent}").isEmpty():
        return
    oldest_recent = least_order(_orders(table, rows, stored_deletes).where(is_recent), table, fields)
    if oldest_recent is None:
        return
    is_purged = f"(NOT {is_recent} AND {compare_with(table, fields, '<', oldest_recent, NO_BOUNDS)})"
    greatest = greatest_order(stored_deletes.where(is_purged), table, fields)
    if greatest is not None:
        _commit_purge(context, ledger, deletes, is_purged, greatest)


def _orders(table: StreamTable, rows: DataFrame, stored_deletes: DataFrame) -> DataFrame:
    columns = [*([table.version_column] if table.version_column else []), RECORD]
    return rows.select(*columns).unionByName(stored_deletes.select(*columns)).alias("t")


def _commit_purge(
    context: TableContext, ledger: Ledger, deletes: Deletes, is_purged: str, greatest: RecordOrder
) -> None:
    """Delete these deletes, then name their greatest order, and the version that is left, in the merged table."""
    table, stored_table = context.table, deletes.stored_table
    keys = stored_table.rows(deletes.ledger.version).alias("t").where(is_purged).select(*table.key)
    spec = MergeSpec(f"{equal_keys(table.key)} AND {is_purged}", delete_if="true")
    stored_table.merge(keys, spec, deletes.ledger.next_commit("deletes", context.run))
    counted_version = version_to_consume(stored_table.ledger())
    commit = ledger.next_commit("purge", context.run)  # fails if a batch has stored deletes since
    horizon = _later(context, _horizon(table, greatest, bounds_after(ledger)), bounds_after(ledger).purged)
    context.merged.commit_nothing(commit.with_fields(deletes_table=counted_version, purged=horizon))


def _horizon(table: StreamTable, greatest: RecordOrder, bounds: ChangeBounds) -> RecordOrder:
    """Return the order up to which a purged delete may be newer than a record.

    In a change stream, a delete before the position of a snapshot may be newer than a record of that snapshot.
    """
    if not table.has_changes:
        return greatest
    return RecordOrder(source=greatest.source, sequence=max(greatest.sequence or 0, bounds.snapshot or 0) + 1)


def _later(context: TableContext, horizon: RecordOrder, former: RecordOrder | None) -> RecordOrder:
    """Return the greater of two orders."""
    if former is None:
        return horizon
    is_later = compare_with(context.table, literal_fields(context.table, horizon), ">", former, NO_BOUNDS)
    ((later,),) = context.spark.sql(f"SELECT {is_later}").collect()
    return horizon if later else former
