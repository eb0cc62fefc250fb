"""The horizon of a table: the oldest deletes are purged, and rows that are older than a truncate go.

The commit of a truncate comes before the batch that read it. It names the order of the truncate, and so does every
later commit: an older record that arrives later does not become a row. If the batch dies, the commit remains: the
truncate is the same in every batch that reads it.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sql import quoted
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding import staged
from lakehouse.decoding.fields import BEYOND_HORIZON
from lakehouse.ingest.compared_rows import fields_of, with_keys_of
from lakehouse.ingest.counts import Counts, count_batch
from lakehouse.ingest.deletes import Deletes, conflict_error, settle_deletes
from lakehouse.ingest.rejected_records import DecodedBatch
from lakehouse.ledger.commit_values import RecordOrder
from lakehouse.ledger.commits import Kind
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import SourceId
from lakehouse.storage.merge_spec import NO_BOUNDS, ChangeBounds, MergeSpec, bounds_after, equal_keys
from lakehouse.storage.row_order import (
    KEPT,
    compare_with,
    literal_fields,
    not_truncated,
    order_fields,
    order_of,
    order_time,
    record_fields,
    version_fields,
)
from lakehouse.storage.table_context import TableContext

_DETAIL = "deletes that may be newer were purged, and the key has no row or no value of a kept column"
_HAS_ROW, _HAS_DELETE = "_has_row", "_has_delete"


def is_beyond_horizon(table: StreamTable, ledger: Ledger, source: SourceId | None, kind: Kind) -> str:
    """Return the condition that a staged record is a row that a purged delete may have deleted; empty if none is."""
    bounds = bounds_after(ledger)
    if bounds.purged is None or (kind == "batch" and _is_before_snapshot(bounds, source)):
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
    table = context.table
    is_same_key = f"{equal_keys(table.key)} AND {counts.touched.prune}"
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
    rows = settle_deletes(context, ledger).rows
    key = [f"`{name}`" for name in context.table.key]
    if rows is None:
        return context.merged.rows(ledger.version).where("false").selectExpr(*key, f"true AS {_HAS_DELETE}")
    deletes_of_batch = rows.alias("d").where(counts.prune_by_key("d"))
    return deletes_of_batch.selectExpr(*key, f"true AS {_HAS_DELETE}")


def greatest_order(rows: DataFrame, table: TableParts, fields: Mapping[str, str]) -> RecordOrder | None:
    """Return the greatest order of rows; ``None`` if there is no row. ``fields`` are those of the order, in SQL.

    Positions of a change stream are compared as they are, also before a snapshot.
    """
    return _first_order(rows.orderBy(F.expr(order_of(table, fields=fields)).desc()), table, fields)


def _first_order(rows: DataFrame, table: TableParts, fields: Mapping[str, str]) -> RecordOrder | None:
    values = {name: fields[name] for name in ("source", "partition", "position", "sequence")}
    versions = [f"CAST({fields[name]} AS STRING)" for name in version_fields(table)]
    values["version"] = (
        f"to_json(array({', '.join(versions)}))" if versions[1:] else versions[0] if versions else "NULL"
    )
    values["time"] = f"unix_micros({order_time(fields)})"
    first_row = rows.selectExpr(*(f"{sql} AS {name}" for name, sql in values.items())).first()
    return RecordOrder(**first_row.asDict(), version_column=table.version_text) if first_row else None


def purge_deletes(context: TableContext, now: datetime | None = None) -> None:
    """Forget the deletes that were received before the declared period, and are older than every row and delete since.

    A delete with a greater order stays: if its version is in the far future, every new record would look old. First
    restores the deletes that count. If a run dies between its two commits, the next one does both again; a second run
    changes nothing. Raises ``ConflictError`` if another writer was first.
    """
    table, ledger = context.table, context.ledger()
    if not table.delete_rule:
        return
    deletes = settle_deletes(context, ledger)
    if table.deletes.purge is None or not deletes.ledger.exists or not ledger.exists:
        return
    begin = (now or datetime.now(UTC)) - table.deletes.purge
    is_recent = f"t.{RECORD}.time >= timestamp_micros({round(begin.timestamp() * 1_000_000)}L)"
    rows, fields = context.merged.rows(ledger.version), order_fields(table, "t")
    stored_deletes = deletes.stored_table.rows(deletes.ledger.version).alias("t")
    if stored_deletes.where(f"NOT {is_recent}").isEmpty():
        return
    columns = [*table.version_columns, RECORD]
    recent_orders = rows.select(*columns).unionByName(stored_deletes.select(*columns)).alias("t").where(is_recent)
    oldest_recent = _first_order(recent_orders.orderBy(F.expr(order_of(table, fields=fields))), table, fields)
    if oldest_recent is None:
        return
    is_purged = f"(NOT {is_recent} AND {compare_with(table, fields, '<', oldest_recent, NO_BOUNDS)})"
    greatest = greatest_order(stored_deletes.where(is_purged), table, fields)
    if greatest is not None:
        _commit_purge(context, ledger, deletes, is_purged, greatest)


def _commit_purge(
    context: TableContext, ledger: Ledger, deletes: Deletes, is_purged: str, greatest: RecordOrder
) -> None:
    """Purge these deletes; record their greatest order and the remaining version in the merged table."""
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


def delete_truncated(context: TableContext, batch: DecodedBatch) -> DecodedBatch:
    """Delete what is older than the newest truncate of a batch, unless that was done before; return the batch to merge.

    Makes no commit if nothing is older. Raises ``ConflictError`` if another writer was first.
    """
    truncate = _find_truncate(context, batch)
    if truncate is None:
        return batch
    table, bounds = context.table, bounds_after(batch.ledger)._replace(truncate=truncate)
    rows = context.merged.rows(batch.ledger.version)
    is_older = f"NOT {not_truncated(table, bounds, 't')}"
    is_value_older = {
        name: f"(t.`{name}` IS NOT NULL AND NOT {not_truncated(table, bounds, 't', name)})" for name in table.keep
    }
    is_changed = " OR ".join([is_older, *is_value_older.values()])
    keys = rows.alias("t").where(is_changed).select(*table.key)
    if keys.isEmpty():
        return replace(batch, commit=batch.commit.with_fields(truncate=truncate))
    values = _without_values(rows, is_value_older)
    spec = MergeSpec(f"{equal_keys(table.key)} AND ({is_changed})", values, delete_if=is_older)
    commit = batch.ledger.next_commit("truncate", batch.commit.run).with_fields(truncate=truncate)
    entry = context.merged.merge(keys, spec, commit)
    ledger = context.ledger()
    if ledger.version != entry.version or entry.version != commit.table_version + 1:
        raise conflict_error(table.name)
    return replace(batch, ledger=ledger, commit=ledger.replan(batch.commit))


def _without_values(rows: DataFrame, is_erased: Mapping[str, str]) -> dict[str, str]:
    """Return the values of kept columns, and of their orders, that are left, in SQL."""
    if not is_erased:
        return {}
    values = {name: f"IF({condition}, NULL, t.`{name}`)" for name, condition in is_erased.items()}
    orders = []
    for kept_field in fields_of(rows.schema[KEPT].dataType):
        place, condition = f"t.{KEPT}.`{kept_field.name}`", is_erased.get(kept_field.name, "false")
        order = (
            f"'{field.name}', IF({condition}, NULL, {place}.{field.name})" for field in fields_of(kept_field.dataType)
        )
        orders.append(f"'{kept_field.name}', named_struct({', '.join(order)})")
    return values | {KEPT: f"named_struct({', '.join(orders)})"}


def _find_truncate(context: TableContext, batch: DecodedBatch) -> RecordOrder | None:
    """Return the order of the newest truncate of a batch; ``None`` if a commit before names it, or a newer one."""
    table, former_truncate = context.table, bounds_after(batch.ledger).truncate
    fields = record_fields(table, batch.plan.source)
    is_truncate = f"{staged.ROWLESS} AND ({staged.SEQUENCE} IS NOT NULL OR {str(not table.has_changes).lower()})"
    is_new = compare_with(table, fields, ">", former_truncate, NO_BOUNDS) if former_truncate else "true"
    truncates = batch.records.where(f"{is_truncate} AND {is_new}")
    return greatest_order(truncates, table, fields)
