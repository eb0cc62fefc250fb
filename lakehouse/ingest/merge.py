"""Rows → the merged table: the newest row for each key, kept columns compared separately, stale rows left out."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.types import DataType, StructField, StructType

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.decoding import staged
from lakehouse.errors.troubles import ANOTHER_ROW
from lakehouse.ingest.counts import Counts
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.log import open_table
from lakehouse.storage.comparison import comparable_row, struct_of
from lakehouse.storage.layout import COLUMNS_PROPERTY
from lakehouse.storage.merge_spec import MergeSpec, equal_keys, from_source
from lakehouse.storage.row_order import (
    KEPT,
    NewerConditions,
    kept_order,
    newer_than_stored,
    same_record,
    stored_order_fields,
)
from lakehouse.storage.stored_table import ExpectedRows, StoredTable


@dataclass(frozen=True)
class Target:
    """The table that rows are merged into, with its declaration."""

    table: StreamTable
    merged: StoredTable

    @property
    def same_key(self) -> str:
        """The SQL condition that the key of ``s`` equals the key of ``t``."""
        return equal_keys(self.table.key)

    @property
    def text_columns(self) -> set[str]:
        """The text columns that are not part of the key."""
        return {name for name in self.table.values if self.table.by_name[name].type == "STRING"}

    def column_types(self, names: Sequence[str]) -> dict[str, str]:
        """Return the types of columns; empty for a column that is not in the layout."""
        types = {column.name: column.type for column in self.merged.layout.columns}
        return {name: types.get(name, "") for name in names}

    def value_columns(self, stored_rows: DataFrame) -> list[str]:
        """Return the columns of the layout without the key, and ``_kept`` even if no column is kept any longer."""
        names = [name for name in self.merged.layout.names if name not in self.table.key]
        return [*names, KEPT] if KEPT in stored_rows.columns and KEPT not in names else names

    def undeclared_columns(self, stored_rows: DataFrame) -> list[str]:
        """Return the columns that are not declared any longer: a newer record has no value for them."""
        delta_table = open_table(self.merged.layout.uri)
        declared_names = (
            delta_table.metadata().configuration.get(COLUMNS_PROPERTY, "").split(",") if delta_table else []
        )
        return [
            name
            for name in stored_rows.columns
            if name in declared_names and name not in (*self.merged.layout.names, KEPT)
        ]


def merge_rows(target: Target, newest_rows: DataFrame, counts: Counts, commit: Commit) -> Entry:
    """Merge rows, one for each key, into the merged table; rows that are older than the table's are stale.

    Each row is compared once with the stored row of its key, which gives the row to store; the commit only writes it.
    If the stored row has changed since, or has been added since, the commit fails (``ConflictError``). Stale rows take
    part in no match and no insert, so that a replay writes no data file. They still count: Delta reports every row of
    the batch as a source row.
    """

    def compare_few(stored_rows: DataFrame) -> DataFrame:
        compared_rows = _compare(target, stored_rows, newest_rows, counts).drop(staged.MATCHED_ROW)
        # a stale row has the stored texts, and is not written
        texts = {name: F.expr(f"IF({staged.STALE}, NULL, `{name}`)") for name in sorted(target.text_columns)}
        return compared_rows.withColumns(texts) if texts else compared_rows

    def compare_many(stored_rows: DataFrame) -> tuple[DataFrame, MergeSpec]:
        compared_rows = _compare(target, stored_rows, newest_rows, counts).localCheckpoint()
        return compared_rows.hint(counts.join), _store_spec(target, stored_rows, counts)

    keep = target.table.keep
    # stored values of kept columns were not counted
    text = None if target.text_columns & {*keep} else counts.text_from(commit.source, 1 + len(keep))
    expected = ExpectedRows(counts.rows, text, counts.partitions)
    return target.merged.store_compared(compare_few, compare_many, commit, expected)


def _store_spec(target: Target, stored_rows: DataFrame, counts: Counts) -> MergeSpec:
    """Return how Spark stores compared rows."""
    is_new = f"NOT s.{staged.STALE}"
    return MergeSpec(
        f"{target.same_key} AND {counts.prune} AND {is_new}",
        _assignments(target, stored_rows),
        {name: _insert_value(name) for name in target.merged.layout.names},
        insert_if=is_new,
    )


def _with_stored_orders(stored_rows: DataFrame, newest_rows: DataFrame, table: StreamTable) -> DataFrame:
    """Give ``_kept`` the fields of the stored column, in their order: an earlier declaration may have had others."""
    if not table.keep:
        return newest_rows
    order_fields = {field.name for field in kept_order(table)}
    type_ = stored_rows.schema[KEPT].dataType

    def order_sql(kept_field: StructField) -> str:
        values = {
            field.name: f"{KEPT}.`{kept_field.name}`.{field.name}" if field.name in order_fields else "NULL"
            for field in _fields(kept_field.dataType)
        }
        fields = (f"'{name}', {value}" for name, value in values.items())
        return f"named_struct({', '.join(fields)})" if kept_field.name in table.keep else "NULL"

    orders = ", ".join(f"'{kept_field.name}', {order_sql(kept_field)}" for kept_field in _fields(type_))
    return newest_rows.withColumn(KEPT, F.expr(f"CAST(named_struct({orders}) AS {type_.simpleString()})"))


def _fields(type_: DataType) -> list[StructField]:
    return type_.fields if isinstance(type_, StructType) else []


def _compare(target: Target, stored_rows: DataFrame, newest_rows: DataFrame, counts: Counts) -> DataFrame:
    """Return the rows to store, each with its stored row (``_met``, NULL if there is none) and whether it is stale."""
    newer_conditions, value_columns = newer_than_stored(target.table), target.value_columns(stored_rows)
    has_stored = f"t.`{target.table.key[0]}` IS NOT NULL"
    flags = {staged.IS_NEWER: newer_conditions.row}
    flags |= {f"{staged.IS_NEWER}_{name}": condition for name, condition in newer_conditions.keep.items()}
    source = _with_stored_orders(stored_rows, newest_rows, target.table).alias("s")
    joined_rows = source.join(stored_rows.alias("t"), F.expr(f"{target.same_key} AND {counts.prune}"), "left")
    pairs = joined_rows.selectExpr(
        "struct(s.*) AS s",
        f"IF({has_stored}, struct({_qualified_names('t', value_columns)}), NULL) AS t",
        *(f"NOT {has_stored} OR {condition} AS `{flag}`" for flag, condition in flags.items()),
    )
    return pairs.selectExpr(
        *(f"s.`{name}`" for name in target.table.key),
        *(f"{value} AS `{name}`" for name, value in _stored_values(target, stored_rows, newer_conditions).items()),
        f"{comparable_row('t', target.column_types(value_columns))} AS {staged.MATCHED_ROW}",
        f"NOT ({' OR '.join(f'`{flag}`' for flag in flags)}) AS {staged.STALE}",
    )


def _stored_values(target: Target, stored_rows: DataFrame, newer_conditions: NewerConditions) -> dict[str, str]:
    """Return the values of the row to store as SQL: each is from ``s`` or from ``t``."""
    value_columns = target.value_columns(stored_rows)
    flags = {name: f"{staged.IS_NEWER}_{name}" for name in newer_conditions.keep}
    values = {c: f"IF(`{flags.get(c, staged.IS_NEWER)}`, s.`{c}`, t.`{c}`)" for c in value_columns if c != KEPT}
    if KEPT in value_columns:
        kept_fields = _fields(stored_rows.schema[KEPT].dataType)
        orders = (f"'{field.name}', {_kept_order_value(target.table, field)}" for field in kept_fields)
        values[KEPT] = f"named_struct({', '.join(orders)})"
    return values


def _insert_value(name: str) -> str:
    """Return the value to insert for a row that had no stored row; if its stored row was deleted since, fail."""
    return (
        f"IF(s.{staged.MATCHED_ROW} IS NULL, s.{RECORD}, raise_error('{ANOTHER_ROW}'))"
        if name == RECORD
        else f"s.`{name}`"
    )


def _assignments(target: Target, stored_rows: DataFrame) -> dict[str, str]:
    """Return the values to store if the stored row is the one that was compared; if it is another one, fail.

    Columns that are not declared any longer become NULL with a new record.
    """
    value_columns = target.value_columns(stored_rows)
    is_compared_row = f"s.{staged.MATCHED_ROW} <=> {struct_of('t', target.column_types(value_columns))}"
    guarded_record = f"IF({is_compared_row}, s.{RECORD}, raise_error('{ANOTHER_ROW}'))"
    is_same_record = same_record(f"s.{RECORD}", f"t.{RECORD}", "base")
    undeclared_columns = {c: f"IF({is_same_record}, t.`{c}`, NULL)" for c in target.undeclared_columns(stored_rows)}
    return from_source(value_columns) | {RECORD: guarded_record} | undeclared_columns


def _qualified_names(side: str, names: Sequence[str]) -> str:
    return ", ".join(f"{side}.`{name}`" for name in names)


def _kept_order_value(table: StreamTable, kept_field: StructField) -> str:
    """Return the order to store for a kept column; for a formerly kept one, NULL once a newer row brings its value."""
    stored_order = f"t.{KEPT}.`{kept_field.name}`"
    if kept_field.name not in table.keep:
        return f"IF({staged.IS_NEWER}, NULL, {stored_order})"
    row_values = stored_order_fields(table, kept_field.name)
    fields = ", ".join(
        f"'{field.name}', {row_values.get(field.name, f'{stored_order}.{field.name}')}"
        for field in _fields(kept_field.dataType)
    )
    return f"IF(`{staged.IS_NEWER}_{kept_field.name}`, s.{KEPT}.`{kept_field.name}`, named_struct({fields}))"
