"""New rows, one for each key, compared with the stored rows and deletes of their keys: what to store, as SQL."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.types import DataType, StructField, StructType

from lakehouse.declaration.names import RECORD
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding import staged
from lakehouse.decoding.staged import DELETE
from lakehouse.errors.troubles import ANOTHER_ROW
from lakehouse.ingest.correction import Reading
from lakehouse.ingest.counts import Counts
from lakehouse.ingest.newest_per_key import has_version_of_stored
from lakehouse.ledger.log import open_table
from lakehouse.storage.layout import COLUMNS_PROPERTY, TEXT_TYPES
from lakehouse.storage.merge_spec import (
    NO_BOUNDS,
    ChangeBounds,
    MergeSpec,
    comparable_row,
    equal_keys,
    from_source,
    struct_of,
)
from lakehouse.storage.row_order import (
    KEPT,
    is_new_delete,
    kept_order,
    newer_than_stored,
    not_deleted,
    not_deleted_now,
    not_truncated,
    same_record,
    stored_order_fields,
)
from lakehouse.storage.stored_table import StoredTable


@dataclass(frozen=True)
class Target:
    """The table that rows are merged into, its declaration, and the stored delete of each key, if there are any.

    ``bounds`` are those of the commit. ``has_new_deletes``: some rows to merge have a delete of their key. ``reading``
    are the records of a batch that corrects stored rows.
    """

    table: TableParts
    merged: StoredTable
    deletes: DataFrame | None = None
    bounds: ChangeBounds = NO_BOUNDS
    has_new_deletes: bool = False
    reading: Reading | None = None

    @property
    def removes_rows(self) -> bool:
        """Whether stored rows may be removed."""
        return self.table.delete_rule is not None or self.reading is not None

    @property
    def not_deleted(self) -> Callable[..., str]:
        """Return the SQL condition that a row, or its kept column, is not older than a delete or a truncate."""
        conditions = [not_deleted] if self.deletes is not None else []
        conditions += [not_deleted_now] if self.has_new_deletes else []
        conditions += [not_truncated] if self.bounds.truncate is not None and self.table.has_truncates else []
        return lambda *place: (
            " AND ".join(condition(self.table, self.bounds, *place) for condition in conditions) or "true"
        )

    @property
    def new_delete(self) -> str:
        """The SQL of the delete of the batch if it has to be stored, else NULL."""
        is_new = is_new_delete(self.table, self.bounds, has_stored=self.deletes is not None)
        return f"IF({is_new}, s.{DELETE}, NULL)"

    @property
    def same_key(self) -> str:
        """The SQL condition that the key of ``s`` equals the key of ``t``."""
        return equal_keys(self.table.key)

    @property
    def text_columns(self) -> set[str]:
        """The columns of texts and bytes that are not part of the key."""
        return {name for name in self.table.values if self.table.by_name[name].type in TEXT_TYPES}

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


def store_spec(target: Target, stored_rows: DataFrame, counts: Counts) -> MergeSpec:
    """Return how Spark stores compared rows."""
    is_new = f"NOT s.{staged.STALE}"
    return MergeSpec(
        f"{target.same_key} AND {counts.touched.prune} AND {is_new}",
        _assignments(target, stored_rows),
        {name: _insert_value(name) for name in target.merged.layout.names},
        insert_if=is_new,
        delete_if=_removal(target, stored_rows) if target.removes_rows else "",
    )


def _with_stored_orders(stored_rows: DataFrame, newest_rows: DataFrame, table: TableParts) -> DataFrame:
    """Give ``_kept`` the fields of the stored column, in their order: an earlier declaration may have had others."""
    if not table.keep:
        return newest_rows
    order_fields = {field.name for field in kept_order(table)}
    type_ = stored_rows.schema[KEPT].dataType

    def order_sql(kept_field: StructField) -> str:
        values = {
            field.name: f"{KEPT}.`{kept_field.name}`.{field.name}" if field.name in order_fields else "NULL"
            for field in fields_of(kept_field.dataType)
        }
        fields = (f"'{name}', {value}" for name, value in values.items())
        return f"named_struct({', '.join(fields)})" if kept_field.name in table.keep else "NULL"

    orders = ", ".join(f"'{kept_field.name}', {order_sql(kept_field)}" for kept_field in fields_of(type_))
    return newest_rows.withColumn(KEPT, F.expr(f"CAST(named_struct({orders}) AS {type_.simpleString()})"))


def fields_of(type_: DataType) -> list[StructField]:
    """Return the fields of a struct; none if it is another type."""
    return type_.fields if isinstance(type_, StructType) else []


def compare(target: Target, stored_rows: DataFrame, newest_rows: DataFrame, counts: Counts) -> DataFrame:
    """Return the rows to store, each with its stored row (``_met``, NULL if there is none) and whether it is stale.

    If deletes are declared, also whether the stored row is removed, and whether a delete found no row. If a version is
    declared, also whether the stored row has the same one, and other values.
    """
    value_columns = target.value_columns(stored_rows)
    if target.reading:
        stored_rows = target.reading.mark(stored_rows.alias("t").where(counts.touched.prune))
        newest_rows = target.reading.with_withdrawn(newest_rows, stored_rows)
    has_stored = f"t.`{target.table.key[0]}` IS NOT NULL"
    flags = _flags(target, has_stored)
    source = _with_stored_orders(stored_rows, newest_rows, target.table).alias("s")
    is_same_key = f"{target.same_key} AND {counts.touched.prune}"
    rows = source.join(with_keys_of(newest_rows, stored_rows, is_same_key, counts), F.expr(is_same_key), "left")
    if target.deletes is not None:
        is_same_key = f"{equal_keys(target.table.key, 'd')} AND {counts.prune_by_key('d')}"
        deletes = with_keys_of(newest_rows, target.deletes, is_same_key, counts, "d")
        rows = rows.join(deletes, F.expr(is_same_key), "left")
    new_delete = {DELETE: target.new_delete} if target.has_new_deletes else {}
    stored_values = ", ".join(f"t.`{name}`" for name in [*value_columns, *slot_columns(stored_rows)])
    pairs = rows.selectExpr(
        "struct(s.*) AS s",
        f"IF({has_stored}, struct({stored_values}), NULL) AS t",
        *(f"{condition} AS `{flag}`" for flag, condition in (flags | new_delete).items()),
    )
    compared_rows = pairs.selectExpr(
        *(f"s.`{name}`" for name in target.table.key),
        *(f"{value} AS `{name}`" for name, value in _stored_values(target, stored_rows).items()),
        f"{comparable_row('t', target.column_types(value_columns))} AS {staged.MATCHED_ROW}",
        *(f"{condition} AS {name}" for name, condition in _outcomes(target).items()),
        *new_delete,
    )
    if target.reading is None:
        return compared_rows
    # a stored row may be replaced by an equal one
    is_equal = f"{staged.MATCHED_ROW} <=> {struct_of('c', target.column_types(value_columns))}"
    is_stale = F.expr(f"{staged.STALE} OR (NOT {staged.REMOVES} AND {is_equal})")
    corrected_rows = compared_rows.alias("c").withColumn(staged.STALE, is_stale)
    return corrected_rows.withColumn(staged.CORRECTED, F.expr(f"{staged.CORRECTED} AND NOT {staged.STALE}"))


def with_keys_of(
    rows: DataFrame, stored_rows: DataFrame, is_same_key: str, counts: Counts, side: str = "t"
) -> DataFrame:
    """Return at least the stored rows (``side``) with a key of rows (``s``): few, if the rows are few.

    Spark cannot broadcast the rows of the left side of a left join, and would shuffle all stored rows instead.
    """
    stored_rows = stored_rows.alias(side)
    if counts.join != "broadcast":
        return stored_rows
    return stored_rows.join(rows.alias("s").hint("broadcast"), F.expr(is_same_key), "left_semi").alias(side)


def slot_columns(stored_rows: DataFrame) -> list[str]:
    """Return the column with the slot of each stored row, if it was read."""
    return [name for name in stored_rows.columns if name == staged.SLOT]


def _flags(target: Target, has_stored: str) -> dict[str, str]:
    """Return conditions on a row (``s``), its stored row (``t``) and the newest delete of its key (``d``), by name.

    A row or its kept column is newer than the stored one; and if deletes are declared, the stored one is not deleted.
    """
    newer_conditions = newer_than_stored(target.table, target.bounds)
    is_not_deleted = target.not_deleted
    flags_of_reading = [staged.READ_AGAIN] if target.reading else []
    row_condition = (
        f"({' OR '.join([f'NOT {has_stored}', newer_conditions.row, *(f't.{flag}' for flag in flags_of_reading)])})"
    )
    if target.reading:
        row_condition = f"NOT s.{staged.WITHDRAWN} AND {row_condition}"
    if target.table.delete_rule:
        row_condition = f"NOT s.{staged.DELETED} AND {is_not_deleted('s')} AND {row_condition}"
    flags = {staged.IS_NEWER: row_condition}
    for name, condition in newer_conditions.keep.items():
        has_order = f"s.{KEPT}.`{name}`.position IS NOT NULL"
        read_again = [f"(t.`{flag}_{name}` AND {has_order})" for flag in flags_of_reading]
        is_newer = f"({' OR '.join([f'NOT {has_stored}', condition, *read_again])})"
        flags[f"{staged.IS_NEWER}_{name}"] = f"{is_newer} AND {is_not_deleted('s', name)}"
    if target.removes_rows:
        for name in ("", *(f"_{name}" for name in target.table.keep)):
            place = ("t", name[1:]) if name else ("t",)
            read_again = [f"NOT t.`{flag}{name}`" for flag in flags_of_reading]
            flags[f"{staged.LIVES}{name}"] = " AND ".join([has_stored, is_not_deleted(*place), *read_again])
    if target.reading:
        flags[staged.CORRECTED] = f"({has_stored} AND ({' OR '.join(f't.`{flag}`' for flag in target.reading.flags)}))"
    return flags


def _outcomes(target: Target) -> dict[str, str]:
    """Return what becomes of a row, by the names of its flags: each is a condition on the flags of ``_flags``."""
    keep = target.table.keep
    ties = {staged.EQUAL_VERSION: has_version_of_stored(target.table)} if target.table.version_columns else {}
    kept_changes = [f"`{staged.IS_NEWER}_{name}`" for name in keep]
    no_row = {staged.NO_ROW: f"(s.{staged.DELETED} AND t IS NULL)"} if target.table.delete_rule else {}
    corrects = {staged.CORRECTED: staged.CORRECTED, staged.WITHDRAWN: f"s.{staged.WITHDRAWN}"} if target.reading else {}
    if not target.removes_rows:
        return {staged.STALE: f"NOT ({' OR '.join([staged.IS_NEWER, *kept_changes])})", **ties}
    changes = [staged.IS_NEWER, *(f"({staged.LIVES} AND {change})" for change in kept_changes)]
    changes += [f"({staged.LIVES} AND NOT `{staged.LIVES}_{name}` AND t.`{name}` IS NOT NULL)" for name in keep]
    removes = f"(t IS NOT NULL AND NOT {staged.LIVES} AND NOT {staged.IS_NEWER})"
    return {
        staged.STALE: f"NOT ({' OR '.join([*changes, removes])})",
        staged.REMOVES: removes,
        **no_row,
        **corrects,
        **ties,
    }


def _stored_values(target: Target, stored_rows: DataFrame) -> dict[str, str]:
    """Return the values of the row to store as SQL: each is from ``s`` or from ``t``."""
    value_columns, keep = target.value_columns(stored_rows), target.table.keep
    stored_values = {c: f"IF(`{staged.LIVES}_{c}`, t.`{c}`, NULL)" for c in keep if target.removes_rows}
    flags = {name: f"{staged.IS_NEWER}_{name}" for name in keep}
    values = {
        c: f"IF(`{flags.get(c, staged.IS_NEWER)}`, s.`{c}`, {stored_values.get(c, f't.`{c}`')})"
        for c in value_columns
        if c != KEPT
    }
    if KEPT in value_columns:
        kept_fields = fields_of(stored_rows.schema[KEPT].dataType)
        orders = (f"'{field.name}', {_kept_order_value(target, field)}" for field in kept_fields)
        values[KEPT] = f"named_struct({', '.join(orders)})"
    return values


def _removal(target: Target, stored_rows: DataFrame) -> str:
    """Return the condition that a stored row is removed; if it is another row than the one that was compared, fail."""
    is_compared_row = _is_compared_row(target, stored_rows)
    return f"IF(s.{staged.REMOVES}, IF({is_compared_row}, true, raise_error('{ANOTHER_ROW}')), false)"


def _is_compared_row(target: Target, stored_rows: DataFrame) -> str:
    return f"s.{staged.MATCHED_ROW} <=> {struct_of('t', target.column_types(target.value_columns(stored_rows)))}"


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
    guarded_record = f"IF({_is_compared_row(target, stored_rows)}, s.{RECORD}, raise_error('{ANOTHER_ROW}'))"
    is_same_record = same_record(target.table, f"s.{RECORD}", f"t.{RECORD}", "base")
    undeclared_columns = {c: f"IF({is_same_record}, t.`{c}`, NULL)" for c in target.undeclared_columns(stored_rows)}
    return from_source(value_columns) | {RECORD: guarded_record} | undeclared_columns


def _kept_order_value(target: Target, kept_field: StructField) -> str:
    """Return the order to store for a kept column; for a formerly kept one, NULL once a newer row brings its value."""
    table, stored_order = target.table, f"t.{KEPT}.`{kept_field.name}`"
    if kept_field.name not in table.keep:
        return f"IF({staged.IS_NEWER}, NULL, {stored_order})"
    row_values = stored_order_fields(table, kept_field.name)
    lives = f"`{staged.LIVES}_{kept_field.name}`" if target.removes_rows else "true"
    fields = ", ".join(
        f"'{field.name}', IF({lives}, {row_values.get(field.name, f'{stored_order}.{field.name}')}, NULL)"
        for field in fields_of(kept_field.dataType)
    )
    return f"IF(`{staged.IS_NEWER}_{kept_field.name}`, s.{KEPT}.`{kept_field.name}`, named_struct({fields}))"
