"""Rows → the merged table: the newest row for each key, kept columns compared separately, stale rows left out.

If deletes are declared, the newest delete of each key (``d``) is compared too: what is older does not exist.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.types import DataType, StructField, StructType

from lakehouse.declaration.names import RECORD
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding import staged
from lakehouse.decoding.staged import DELETE
from lakehouse.errors.troubles import ANOTHER_ROW
from lakehouse.ingest.counts import Counts
from lakehouse.ingest.equal_versions import has_version_of_stored
from lakehouse.ingest.merge_target import Target
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.storage.comparison import comparable_row, struct_of
from lakehouse.storage.merge_spec import MergeSpec, equal_keys, from_source
from lakehouse.storage.row_order import KEPT, kept_order, newer_than_stored, same_record, stored_order_fields
from lakehouse.storage.stored_table import COUNTED_FLAGS, BeforeCommit, ComparedRows, ExpectedRows, keep_commit


def merge_rows(
    target: Target, newest_rows: DataFrame, counts: Counts, commit: Commit, before_commit: BeforeCommit = keep_commit
) -> Entry:
    """Merge rows, one for each key, into the merged table; rows that are older than the table's are stale.

    Each row is compared once with the stored row of its key, which gives the row to store; the commit only writes it.
    If the stored row has changed since, or has been added since, the commit fails (``ConflictError``). Stale rows take
    part in no match and no insert, so that a replay writes no data file. They still count: Delta reports every row of
    the batch as a source row. ``before_commit`` is that of ``StoredTable.store_compared``; it receives each delete of
    the batch that has to be stored (``_delete``).
    """

    def compare_few(stored_rows: DataFrame) -> DataFrame:
        compared_rows = _compare(target, stored_rows, newest_rows, counts).drop(staged.MATCHED_ROW)
        # a stale row has the stored texts, and is not written, and neither is a removed row
        is_unwritten = f"{staged.STALE} OR {staged.REMOVES}" if target.table.delete_rule else staged.STALE
        texts = {name: F.expr(f"IF({is_unwritten}, NULL, `{name}`)") for name in sorted(target.text_columns)}
        return compared_rows.withColumns(texts) if texts else compared_rows

    def compare_many(stored_rows: DataFrame) -> ComparedRows:
        compared_rows = _compare(target, stored_rows, newest_rows, counts).localCheckpoint()
        spec = _store_spec(target, stored_rows, counts)
        return ComparedRows(compared_rows.hint(counts.join), spec, _count_flags(compared_rows))

    keep = target.table.keep
    # stored values of kept columns were not counted
    text = None if target.text_columns & {*keep} else counts.text_from(commit.source, 1 + len(keep))
    expected = ExpectedRows(counts.rows, text, counts.partitions)
    return target.merged.store_compared(compare_few, compare_many, commit, expected, before_commit)


def _count_flags(compared_rows: DataFrame) -> dict[str, int]:
    """Count what the commit counts of compared rows, in one statement; in none if it counts nothing."""
    counts = [F.count_if(name).alias(name) for name in COUNTED_FLAGS if name in compared_rows.columns]
    row = compared_rows.agg(*counts).first() if counts else None
    return row.asDict() if row else {}


def _store_spec(target: Target, stored_rows: DataFrame, counts: Counts) -> MergeSpec:
    """Return how Spark stores compared rows."""
    is_new = f"NOT s.{staged.STALE}"
    return MergeSpec(
        f"{target.same_key} AND {counts.prune} AND {is_new}",
        _assignments(target, stored_rows),
        {name: _insert_value(name) for name in target.merged.layout.names},
        insert_if=is_new,
        delete_if=_removal(target, stored_rows) if target.table.delete_rule else "",
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


def _compare(target: Target, stored_rows: DataFrame, newest_rows: DataFrame, counts: Counts) -> DataFrame:
    """Return the rows to store, each with its stored row (``_met``, NULL if there is none) and whether it is stale.

    If deletes are declared, also whether the stored row is removed, and whether a delete found no row. If a version is
    declared, also whether the stored row has the same one, and other values.
    """
    value_columns = target.value_columns(stored_rows)
    has_stored = f"t.`{target.table.key[0]}` IS NOT NULL"
    flags = _flags(target, has_stored)
    source = _with_stored_orders(stored_rows, newest_rows, target.table).alias("s")
    is_same_key = f"{target.same_key} AND {counts.prune}"
    rows = source.join(with_keys_of(newest_rows, stored_rows, is_same_key, counts), F.expr(is_same_key), "left")
    if target.deletes is not None:
        is_same_key = f"{equal_keys(target.table.key, 'd')} AND {counts.prune_by_key('d')}"
        deletes = with_keys_of(newest_rows, target.deletes, is_same_key, counts, "d")
        rows = rows.join(deletes, F.expr(is_same_key), "left")
    new_delete = {DELETE: target.new_delete} if target.has_new_deletes else {}
    pairs = rows.selectExpr(
        "struct(s.*) AS s",
        f"IF({has_stored}, struct({_qualified_names('t', value_columns)}), NULL) AS t",
        *(f"{condition} AS `{flag}`" for flag, condition in (flags | new_delete).items()),
    )
    return pairs.selectExpr(
        *(f"s.`{name}`" for name in target.table.key),
        *(f"{value} AS `{name}`" for name, value in _stored_values(target, stored_rows).items()),
        f"{comparable_row('t', target.column_types(value_columns))} AS {staged.MATCHED_ROW}",
        *(f"{condition} AS {name}" for name, condition in _outcomes(target).items()),
        *new_delete,
    )


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


def _flags(target: Target, has_stored: str) -> dict[str, str]:
    """Return conditions on a row (``s``), its stored row (``t``) and the newest delete of its key (``d``), by name.

    A row or its kept column is newer than the stored one; and if deletes are declared, the stored one is not deleted.
    """
    newer_conditions = newer_than_stored(target.table, target.bounds)
    is_not_deleted = target.not_deleted
    row_condition = f"(NOT {has_stored} OR {newer_conditions.row})"
    if target.table.delete_rule:
        row_condition = f"NOT s.{staged.DELETED} AND {is_not_deleted('s')} AND {row_condition}"
    flags = {staged.IS_NEWER: row_condition}
    for name, condition in newer_conditions.keep.items():
        is_newer = f"(NOT {has_stored} OR {condition})"
        flags[f"{staged.IS_NEWER}_{name}"] = f"{is_newer} AND {is_not_deleted('s', name)}"
    if target.table.delete_rule:
        flags[staged.LIVES] = f"{has_stored} AND {is_not_deleted('t')}"
        flags |= {
            f"{staged.LIVES}_{name}": f"{has_stored} AND {is_not_deleted('t', name)}" for name in target.table.keep
        }
    return flags


def _outcomes(target: Target) -> dict[str, str]:
    """Return what becomes of a row, by the names of its flags: each is a condition on the flags of ``_flags``."""
    keep, version = target.table.keep, target.table.version_column
    ties = {staged.EQUAL_VERSION: has_version_of_stored(target.table)} if version else {}
    kept_changes = [f"`{staged.IS_NEWER}_{name}`" for name in keep]
    if not target.table.delete_rule:
        return {staged.STALE: f"NOT ({' OR '.join([staged.IS_NEWER, *kept_changes])})", **ties}
    changes = [staged.IS_NEWER, *(f"({staged.LIVES} AND {change})" for change in kept_changes)]
    changes += [f"({staged.LIVES} AND NOT `{staged.LIVES}_{name}` AND t.`{name}` IS NOT NULL)" for name in keep]
    removes = f"(t IS NOT NULL AND NOT {staged.LIVES} AND NOT {staged.IS_NEWER})"
    return {
        staged.STALE: f"NOT ({' OR '.join([*changes, removes])})",
        staged.REMOVES: removes,
        staged.NO_ROW: f"(s.{staged.DELETED} AND t IS NULL)",
        **ties,
    }


def _stored_values(target: Target, stored_rows: DataFrame) -> dict[str, str]:
    """Return the values of the row to store as SQL: each is from ``s`` or from ``t``."""
    value_columns, keep = target.value_columns(stored_rows), target.table.keep
    stored_values = {c: f"IF(`{staged.LIVES}_{c}`, t.`{c}`, NULL)" for c in keep if target.table.delete_rule}
    flags = {name: f"{staged.IS_NEWER}_{name}" for name in keep}
    values = {
        c: f"IF(`{flags.get(c, staged.IS_NEWER)}`, s.`{c}`, {stored_values.get(c, f't.`{c}`')})"
        for c in value_columns
        if c != KEPT
    }
    if KEPT in value_columns:
        kept_fields = fields_of(stored_rows.schema[KEPT].dataType)
        orders = (f"'{field.name}', {_kept_order_value(target.table, field)}" for field in kept_fields)
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


def _qualified_names(side: str, names: Sequence[str]) -> str:
    return ", ".join(f"{side}.`{name}`" for name in names)


def _kept_order_value(table: TableParts, kept_field: StructField) -> str:
    """Return the order to store for a kept column; for a formerly kept one, NULL once a newer row brings its value."""
    stored_order = f"t.{KEPT}.`{kept_field.name}`"
    if kept_field.name not in table.keep:
        return f"IF({staged.IS_NEWER}, NULL, {stored_order})"
    row_values = stored_order_fields(table, kept_field.name)
    lives = f"`{staged.LIVES}_{kept_field.name}`" if table.delete_rule else "true"
    fields = ", ".join(
        f"'{field.name}', IF({lives}, {row_values.get(field.name, f'{stored_order}.{field.name}')}, NULL)"
        for field in fields_of(kept_field.dataType)
    )
    return f"IF(`{staged.IS_NEWER}_{kept_field.name}`, s.{KEPT}.`{kept_field.name}`, named_struct({fields}))"
