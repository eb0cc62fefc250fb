"""Rows → one row for each key: the newest, and of each kept column its newest value."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.ledger.positions import SourceId
from lakehouse.storage.layout import TableColumn
from lakehouse.storage.row_order import KEPT, ORDER, kept_order, order_of

_SOURCE = "source"  # the field that is the same for all rows: added once they are few


def newest_per_key(rows: DataFrame, table: StreamTable, source: SourceId | None, *, alone: bool = False) -> DataFrame:
    """Reduce rows to one for each key: the newest row, and of each kept column its newest value.

    In: declared columns, partition column and order (``_time``, ``_partition``, ``_position``, ``_sequence``,
    ``_base``). Out: as the merged table stores them, with the ``source`` that all come from (``None``: they are base
    rows); the order of a kept column is NULL where no row of the key has a value, nor a null that erases: that one has
    its order, and no value. Where each row is ``alone`` for its key, as was counted, it is the newest, and nothing is
    compared.
    """
    apart = {*table.key, *table.keep}
    own = [c.name for c in table.stored if c.name not in apart]
    columns = ", ".join(f"`{c}`" for c in [*own, *_read_as(ORDER, table).values()])
    came_with = ", ".join(_read_as(kept_order(table), table).values())
    parts = {"_newest": (f"struct({columns})", "true")}
    parts |= {f"_newest_{name}": (f"struct(`{name}`, {came_with})", _brings(table, name)) for name in table.keep}
    if alone:
        taken = (F.expr(f"IF({there}, {part}, NULL)").alias(name) for name, (part, there) in parts.items())
        reduced = rows.select(*table.key, *taken)
    else:
        newest = f"max_by({{}}, {order_of(table)}) FILTER (WHERE {{}})"
        taken = (F.expr(newest.format(*part)).alias(name) for name, part in parts.items())
        reduced = rows.groupBy(*table.key).agg(*taken)
    values = [F.col(f"_newest_{name}.{name}") for name in table.keep]
    orders = [F.expr(_named("_newest", ORDER, table, source)).alias(RECORD)]
    if table.keep:
        kept = ", ".join(
            f"'{name}', {_named(f'_newest_{name}', kept_order(table), table, source)}" for name in table.keep
        )
        orders.append(F.expr(f"named_struct({kept})").alias(KEPT))
    return reduced.select(*table.key, *(F.col(f"_newest.{c}") for c in own), *values, *orders)


def _brings(table: StreamTable, name: str) -> str:
    """Whether a row brings something for a kept column, in SQL."""
    value = f"`{name}` IS NOT NULL"
    return f"({value} OR {staged.NULL_SAID}{name})" if name in table.null_erases else value


def _named(newest: str, fields: Sequence[TableColumn], table: StreamTable, source: SourceId | None) -> str:
    """An order as it is stored; its fields are NULL where there is no newest row."""
    there = f"IF({newest}.{staged.POSITION} IS NULL, NULL, {quoted(source.text)})" if source else "CAST(NULL AS STRING)"
    read = {_SOURCE: there} | {name: f"{newest}.{column}" for name, column in _read_as(fields, table).items()}
    values = (f"'{field.name}', {read[field.name]}" for field in fields)
    return f"named_struct({', '.join(values)})"


def _read_as(fields: Sequence[TableColumn], table: StreamTable) -> dict[str, str]:
    """The columns of a record that was read, by the fields of an order as it is stored."""
    names = [field.name for field in fields if field.name != _SOURCE]
    return {name: f"`{table.version}`" if name == "version" else f"_{name}" for name in names}
