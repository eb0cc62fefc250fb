"""The greatest or least order among records or stored rows, in the form that a commit names."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration.table_parts import TableParts
from lakehouse.ledger.commit_values import RecordOrder
from lakehouse.storage.row_order import order_of, order_time


def greatest_order(rows: DataFrame, table: TableParts, fields: Mapping[str, str]) -> RecordOrder | None:
    """Return the greatest order of rows; ``None`` if there is no row. ``fields`` are those of the order, in SQL.

    Positions of a change stream are compared as they are, also before a snapshot.
    """
    return _first_order(rows.orderBy(F.expr(order_of(table, fields=fields)).desc()), table, fields)


def least_order(rows: DataFrame, table: TableParts, fields: Mapping[str, str]) -> RecordOrder | None:
    """Return the least order of rows, like ``greatest_order``."""
    return _first_order(rows.orderBy(F.expr(order_of(table, fields=fields))), table, fields)


def _first_order(rows: DataFrame, table: TableParts, fields: Mapping[str, str]) -> RecordOrder | None:
    values = {name: fields[name] for name in ("source", "partition", "position", "sequence")}
    values["version"] = f"CAST({fields['version'] if table.version_column else 'NULL'} AS STRING)"
    values["time"] = f"unix_micros({order_time(fields)})"
    first_row = rows.selectExpr(*(f"{sql} AS {name}" for name, sql in values.items())).first()
    return RecordOrder(**first_row.asDict(), version_column=table.version_column) if first_row else None
