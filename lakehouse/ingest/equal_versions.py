"""Records of one key that nothing in them orders: they have an equal version, and different values.

The source decides between them. Of a table of another program, the rows of one version have no order either, unless the
declaration names a version.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding import staged
from lakehouse.sources.source import Source
from lakehouse.storage.comparison import comparable
from lakehouse.storage.row_order import same_record

_HASH = "_hash"


def equal_order(table: StreamTable, source: Source) -> str:
    """Return what records of a key have in common if nothing in them says which is newer, in SQL; else empty."""
    if not table.key:
        return ""
    return f"`{table.version_column}`" if table.version_column else source.unordered_group


def with_equal_versions(records: DataFrame, table: StreamTable, order: str) -> DataFrame:
    """Add to staged records whether others of the batch have their key and ``order``, and not all the same values.

    The first of them is not counted: it may meet a stored row with that version. Rows of a key come into one partition
    first, as its counts need it anyway.
    """
    columns = [column for column in table.record_columns if column.name not in (*table.key, table.version_column)]
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
    record, version = "_record", f"`{table.version_column}`"
    are_records = f"s.{record}.position IS NOT NULL AND t.{record}.position IS NOT NULL"
    is_same_record = same_record(table, f"s.{record}", f"t.{record}")
    is_tie = f"{are_records} AND s.{version} <=> t.{version} AND NOT ({is_same_record})"
    differences: list[str] = []
    for column in table.record_columns:
        if column.name not in (*table.key, table.version_column):
            new_value, stored_value = (comparable(f"{side}.`{column.name}`", column.type) for side in ("s", "t"))
            has_value = f"s.`{column.name}` IS NOT NULL AND " if column.name in table.keep else ""
            differences.append(f"{has_value}NOT ({new_value} <=> {stored_value})")
    return f"({is_tie} AND ({' OR '.join(f'({part})' for part in differences) or 'false'}))"
