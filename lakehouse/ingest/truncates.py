"""Truncates: every row, and every value of a kept column, that is older than a truncate goes, in a commit of its own.

The commit comes before the batch that read the truncate. It names the order of the truncate, and so does every later
commit: an older record that arrives later does not become a row. If the batch dies, the commit remains: the truncate is
the same in every batch that reads it.
"""

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from lakehouse.decoding import staged
from lakehouse.errors import ConflictError
from lakehouse.ingest.compared_rows import fields_of
from lakehouse.ingest.counts import Counts
from lakehouse.ingest.horizon import greatest_order
from lakehouse.ingest.rejected_records import DecodedBatch
from lakehouse.ledger.commit_values import RecordOrder
from lakehouse.storage.merge_spec import NO_BOUNDS, MergeSpec, bounds_after, equal_keys
from lakehouse.storage.row_order import KEPT, compare_with, not_truncated, record_fields
from lakehouse.storage.table_context import TableContext


def delete_truncated(context: TableContext, batch: DecodedBatch, counts: Counts) -> DecodedBatch:
    """Delete what is older than the newest truncate of a batch, unless that was done before; return the batch to merge.

    Makes no commit if nothing is older. Raises ``ConflictError`` if another writer was first.
    """
    truncate = _find_truncate(context, batch) if counts.truncates else None
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
        message = f"Another writer changed {table.name} at the same moment"
        raise ConflictError(message, where=table.name, action="Nothing was merged. Run it again.")
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
