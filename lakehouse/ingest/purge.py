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
from lakehouse.ledger.ledger import Ledger, version_to_consume
from lakehouse.storage.bounds import bounds_after
from lakehouse.storage.merge_spec import MergeSpec, equal_keys
from lakehouse.storage.named_orders import compare_with
from lakehouse.storage.row_order import order_fields
from lakehouse.storage.table_context import TableContext


def purge_deletes(context: TableContext, now: datetime | None = None) -> None:
    """Forget the deletes that were received before the declared period, and are older than every record since.

    A delete with a greater order stays: if its version is in the far future, every new record would look old. First
    restores the deletes that count. If a run dies between its two commits, the next one does both again; a second run
    changes nothing. Raises ``ConflictError`` if another writer was first.
    """
    table, ledger = context.table, context.ledger()
    deletes = settle_deletes(context, ledger)
    stored_deletes = deletes.rows if deletes else None
    if deletes is None or stored_deletes is None or table.purge_deletes is None:
        return
    begin = (now or datetime.now(UTC)) - table.purge_deletes
    is_recent = f"t.{RECORD}.time >= timestamp_micros({round(begin.timestamp() * 1_000_000)}L)"
    oldest_recent = _oldest(table, ledger, [context.merged.rows(ledger.version), stored_deletes], is_recent)
    if oldest_recent is None:
        return
    bounds, fields = bounds_after(ledger), order_fields(table, "t")
    is_purged = f"(NOT {is_recent} AND {compare_with(table, fields, '<', oldest_recent, bounds)})"
    purged_deletes = stored_deletes.alias("t").where(is_purged)
    greatest = greatest_order(purged_deletes, table, fields, bounds)
    if greatest is None:
        return
    is_later = compare_with(table, fields, ">", bounds.purged, bounds) if bounds.purged else "true"
    _commit_purge(context, deletes, is_purged, greatest if purged_deletes.where(is_later).count() else bounds.purged)


def _oldest(table: StreamTable, ledger: Ledger, tables: list[DataFrame], condition: str) -> RecordOrder | None:
    """Return the least order in these tables among the rows (``t``) that meet a condition."""
    columns = [*([table.version] if table.version else []), RECORD]
    first_rows, *other_rows = (rows.alias("t").where(condition).select(*columns) for rows in tables)
    all_rows = first_rows
    for rows in other_rows:
        all_rows = all_rows.unionByName(rows)
    return least_order(all_rows.alias("t"), table, order_fields(table, "t"), bounds_after(ledger))


def _commit_purge(context: TableContext, deletes: Deletes, is_purged: str, purged: RecordOrder | None) -> None:
    """Delete these deletes, then name their greatest order, and the version that is left, in the merged table."""
    table, stored_table = context.table, deletes.stored_table
    keys = stored_table.rows(deletes.ledger.version).alias("t").where(is_purged).select(*table.key)
    spec = MergeSpec(f"{equal_keys(table.key)} AND {is_purged}", delete_if="true")
    stored_table.merge(keys, spec, deletes.ledger.next_commit("deletes", context.run))
    counted_version = version_to_consume(stored_table.ledger())
    commit = context.ledger().next_commit("maintenance", context.run)
    context.merged.commit_nothing(commit.with_fields(deletes_table=counted_version, purged=purged))
