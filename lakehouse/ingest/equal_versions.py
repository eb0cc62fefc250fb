"""Records of one key with an equal version and different values: the source decides between them, not the version."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.decoding import staged

HAS_EQUAL_VERSION = "_has_equal_version"
"""Whether another record of the batch has the key and the version of a record, and other values, BOOLEAN."""
_HASH = "_hash"


def has_versions(table: StreamTable) -> bool:
    """Whether the records of a table have a key and a version, by which they can be equal."""
    return bool(table.key and table.version_column)


def with_equal_versions(records: DataFrame, table: StreamTable) -> DataFrame:
    """Add to staged records whether another one has their key and version, and other values.

    Rows of a key come into one partition first, as its counts need it anyway.
    """
    identity = [*table.key, table.version_column or ""]
    columns = [column for column in table.record_columns if column.name not in identity]
    values = [f"CAST(`{c.name}` AS STRING)" if c.is_nested else f"`{c.name}`" for c in columns]
    values += [f"IF({flag}, 1, 0)" for flag in table.rules().flags]
    is_row = " AND ".join([f"{staged.REASON} IS NULL", *(["NOT " + staged.ROWLESS] if table.has_truncates else [])])
    hashed = records.withColumn(_HASH, F.expr(f"IF({is_row}, xxhash64({', '.join(['0', *values])}), NULL)"))
    same_version = Window.partitionBy(*identity)
    differs = F.max(_HASH).over(same_version) > F.min(_HASH).over(same_version)
    return hashed.repartition(*table.key).withColumn(HAS_EQUAL_VERSION, differs & F.col(_HASH).isNotNull())
