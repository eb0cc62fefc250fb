"""The SQL of orders that a commit names: that of a truncate, and of a purged delete."""

from collections.abc import Mapping

from lakehouse.declaration.sql import quoted
from lakehouse.declaration.table_parts import TableParts
from lakehouse.ledger.commit_values import RecordOrder
from lakehouse.ledger.positions import SourceId
from lakehouse.storage.bounds import ChangeBounds
from lakehouse.storage.layout import text_literal
from lakehouse.storage.row_order import compare_orders, order_columns, order_fields


def compare_with(
    table: TableParts, fields: Mapping[str, str], operator: str, order: RecordOrder, bounds: ChangeBounds
) -> str:
    """Return the condition that compares a record, given by the fields of its order in SQL, with an order."""
    return f"({compare_orders(table, fields, operator, literal_fields(table, order), bounds)})"


def not_truncated(table: TableParts, bounds: ChangeBounds, side: str, name: str | None = None) -> str:
    """Return the condition that a row, or its kept column ``name``, is not older than the newest truncate.

    A column without a value has no position, and is older.
    """
    if bounds.truncate is None:
        return "true"
    return compare_with(table, order_fields(table, side, name), ">=", bounds.truncate, bounds)


def record_fields(table: TableParts, source: SourceId | None) -> dict[str, str]:
    """Return the fields of the order of a staged record of a source, in SQL, by name."""
    fields = {"source": quoted(source.text) if source else "CAST(NULL AS STRING)", "base": "CAST(NULL AS BIGINT)"}
    return order_fields(table, "") | fields


def literal_fields(table: TableParts, order: RecordOrder) -> dict[str, str]:
    """Return the fields of an order as SQL literals, by name."""
    version_type = table.by_name[table.version_column].type if table.version_column else "STRING"
    types = {field.name: field.type for field in order_columns(table)} | {"version": version_type}
    values = {name: None if value is None else str(value) for name, value in order}
    literals = {
        name: f"CAST({'NULL' if values.get(name) is None else text_literal(str(values[name]))} AS {type_})"
        for name, type_ in types.items()
    }
    return literals | ({} if order.time is None else {"time": f"timestamp_micros({order.time}L)"})
