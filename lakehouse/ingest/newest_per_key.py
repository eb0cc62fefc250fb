"""Rows → one row for each key: the newest row, with the newest value of each kept column."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sql import quoted
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding import staged
from lakehouse.ledger.positions import SourceId
from lakehouse.sources.source import Source
from lakehouse.storage.layout import TableColumn
from lakehouse.storage.merge_spec import NO_BOUNDS, ChangeBounds, comparable
from lakehouse.storage.row_order import KEPT, kept_order, order_columns, order_of, same_record, version_fields

_SOURCE = "source"  # the same for all rows of a batch: added after the reduction to few rows
_HASH = "_hash"


def newest_per_key(
    rows: DataFrame,
    table: TableParts,
    source: SourceId | None,
    *,
    has_unique_keys: bool = False,
    bounds: ChangeBounds = NO_BOUNDS,
) -> DataFrame:
    """Reduce rows to one for each key: the newest row, with the newest value of each kept column.

    In: declared columns, partition column and order (``_time``, ``_partition``, ``_position``, ``_sequence``,
    ``_base``, and ``_index`` if a record has many rows). Out: the columns of the merged table, with the common
    ``source`` of the rows (``None`` for base rows). The order of a kept column is NULL if no row of the key has a value
    or an erasing null for it; an erasing null has an order and no value. If deletes are declared, ``_deleted`` says
    that the newest row is a delete, and ``_delete`` is the order of the newest delete. ``bounds`` are those of
    ``order_of``. ``has_unique_keys`` means that each key has one row, as was counted: nothing is compared.
    """
    separate = {*table.key, *table.keep}
    row_columns = [column.name for column in table.stored_columns if column.name not in separate]
    row_columns += [staged.DELETED] if table.delete_rule else []
    columns = ", ".join(f"`{c}`" for c in [*row_columns, *_order_columns(order_columns(table), table).values()])
    kept_order_columns = ", ".join(_order_columns(kept_order(table), table).values())
    parts = {"_newest": (f"struct({columns})", "true")}
    parts |= {
        f"_newest_{name}": (f"struct(`{name}`, {kept_order_columns})", _has_kept_value(table, name))
        for name in table.keep
    }
    if table.delete_rule:
        parts["_newest_delete"] = (f"struct({kept_order_columns})", staged.DELETED)
    if has_unique_keys:
        newest_parts = (F.expr(f"IF({condition}, {sql}, NULL)").alias(name) for name, (sql, condition) in parts.items())
        reduced_rows = rows.select(*table.key, *newest_parts)
    else:
        template = f"max_by({{}}, {order_of(table, bounds)}) FILTER (WHERE {{}})"
        newest_parts = (F.expr(template.format(*part)).alias(name) for name, part in parts.items())
        reduced_rows = rows.groupBy(*table.key).agg(*newest_parts)
    kept_values = [F.col(f"_newest_{name}.{name}") for name in table.keep]
    orders = [F.expr(_stored_order("_newest", order_columns(table), table, source)).alias(RECORD)]
    if table.keep:
        kept_orders = ", ".join(
            f"'{name}', {_stored_order(f'_newest_{name}', kept_order(table), table, source)}" for name in table.keep
        )
        orders.append(F.expr(f"named_struct({kept_orders})").alias(KEPT))
    if table.delete_rule:
        orders.append(F.expr(_stored_order("_newest_delete", kept_order(table), table, source)).alias(staged.DELETE))
    return reduced_rows.select(*table.key, *(F.col(f"_newest.{c}") for c in row_columns), *kept_values, *orders)


def _has_kept_value(table: TableParts, name: str) -> str:
    """Return the SQL condition that a row has a value, or an erasing null, for a kept column."""
    has_value = f"`{name}` IS NOT NULL"
    return f"({has_value} OR {staged.EXPLICIT_NULL}{name})" if name in table.null_erases else has_value


def _stored_order(newest: str, fields: Sequence[TableColumn], table: TableParts, source: SourceId | None) -> str:
    """Return an order as it is stored; its fields are NULL if there is no newest row."""
    source_sql = "CAST(NULL AS STRING)"
    if source:
        source_sql = f"IF({newest}.{staged.POSITION} IS NULL, NULL, {quoted(source.text)})"
    values = {_SOURCE: source_sql}
    values |= {name: f"{newest}.{column}" for name, column in _order_columns(fields, table).items()}
    pairs = (f"'{field.name}', {values[field.name]}" for field in fields)
    return f"named_struct({', '.join(pairs)})"


def _order_columns(fields: Sequence[TableColumn], table: TableParts) -> dict[str, str]:
    """Return the staged columns for the fields of a stored order, by field name."""
    names = [field.name for field in fields if field.name != _SOURCE]
    versions = version_fields(table)
    return {name: f"`{versions[name]}`" if name in versions else f"_{name}" for name in names}


def equal_order(table: StreamTable, source: Source) -> str:
    """Return what records of a key have in common if nothing in them says which is newer, in SQL; else empty."""
    if not table.key:
        return ""
    versions = ", ".join(f"`{name}`" for name in table.version_columns)
    return f"struct({versions})" if versions else source.unordered_group


def with_equal_versions(records: DataFrame, table: StreamTable, order: str) -> DataFrame:
    """Add to staged records whether others of the batch have their key and ``order``, and not all the same values.

    The first of them is not counted: it may meet a stored row with that version. Rows of a key come into one partition
    first, as its counts need it anyway.
    """
    columns = [column for column in table.record_columns if column.name not in (*table.key, *table.version_columns)]
    values = [f"CAST(`{c.name}` AS STRING)" if c.is_nested else f"`{c.name}`" for c in columns]
    values += [f"IF({flag}, 1, 0)" for flag in table.rules().flags]
    is_row = " AND ".join([f"{staged.REASON} IS NULL", *(["NOT " + staged.ROWLESS] if table.has_truncates else [])])
    hashed = records.withColumn(_HASH, F.expr(f"IF({is_row}, xxhash64({', '.join(['0', *values])}), NULL)"))
    same_order = Window.partitionBy(*table.key, F.expr(order))
    differs = F.max(_HASH).over(same_order) > F.min(_HASH).over(same_order)
    place = F.struct(*([staged.INDEX] if table.has_elements else []), staged.PARTITION, staged.POSITION)
    first_place = F.min(F.when(F.col(_HASH).isNotNull(), place)).over(same_order)
    is_later = F.col(_HASH).isNotNull() & (place > first_place)
    return hashed.repartition(*table.key).withColumn(staged.EQUAL_VERSION, differs & is_later)


def has_version_of_stored(table: TableParts) -> str:
    """Return the condition that a row (``s``) has the version of the stored one (``t``), and other values, in SQL.

    Both are structs; without a stored row, ``t`` is NULL. A kept column without a value does not differ. Base rows are
    older than any record.
    """
    record = "_record"
    versions = " AND ".join(f"s.`{name}` <=> t.`{name}`" for name in table.version_columns)
    are_records = f"s.{record}.position IS NOT NULL AND t.{record}.position IS NOT NULL"
    is_same_record = same_record(table, f"s.{record}", f"t.{record}")
    is_tie = f"{are_records} AND {versions} AND NOT ({is_same_record})"
    differences: list[str] = []
    for column in table.record_columns:
        if column.name not in (*table.key, *table.version_columns):
            new_value, stored_value = (comparable(f"{side}.`{column.name}`", column.type) for side in ("s", "t"))
            has_value = f"s.`{column.name}` IS NOT NULL AND " if column.name in table.keep else ""
            differences.append(f"{has_value}NOT ({new_value} <=> {stored_value})")
    return f"({is_tie} AND ({' OR '.join(f'({part})' for part in differences) or 'false'}))"
