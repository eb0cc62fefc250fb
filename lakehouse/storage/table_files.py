"""Reads the rows of one version of a table directly from its files if they are few.

Before Delta reads a new version, it computes the state of the whole table in Spark jobs. deltalake finds the few files
of some partitions in the log within milliseconds. The rows are the same.
"""

import json
from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse.ledger.log import open_table
from lakehouse.ledger.versions import active_files
from lakehouse.settings.store import Store
from lakehouse.storage.layout import Layout
from lakehouse.storage.spark_writer import read_table

MOST_FILES = 32  # Spark lists more paths in a job
_PATTERN_CHARACTERS = frozenset("*?[]{}\\")  # Spark reads a path with one of these as a pattern
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # the name of the partition of NULL


def path_of(layout: Layout, path: str) -> Path:
    """Return the path of a file of a table on a local disk from its path in the log."""
    return Path(layout.uri, unquote(path))


def read_rows(
    spark: SparkSession, layout: Layout, version: int, partitions: Collection[str] | None = None
) -> DataFrame:
    """Return at least the rows of a version of a table that are in these partitions (``None``: all rows).

    The rows are read directly from files if this is the newest version of a table on a local disk with reader
    protocol 1, its files are few, and the folder of each names its partition.
    """
    table = open_table(layout.uri) if Store(layout.uri).is_path else None
    if table is None or table.version() != version or table.protocol().min_reader_version > 1:
        return read_table(spark, layout, version)
    files = active_files(table, layout.uri, layout.partition_by, partitions)
    if not 0 < files.num_rows <= MOST_FILES:
        return read_table(spark, layout, version)
    located_files = [(path_of(layout, file["path"]), file["partition"]) for file in files.to_pylist()]
    if not all(_is_in_partition_folder(layout, path, partition) for path, partition in located_files):
        return read_table(spark, layout, version)
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    try:
        reader = spark.read.schema(schema).option("basePath", layout.uri)
        rows = reader.parquet(*(str(path) for path, _ in located_files))
    except PySparkException:  # a file is missing: the error of Delta names the table
        return read_table(spark, layout, version)
    return rows.select(*(f"`{name}`" for name in schema.names))


def _is_in_partition_folder(layout: Layout, path: Path, partition: str | None) -> bool:
    """Whether Spark reads the path as a data file, and its folder as the partition that the log records."""
    folder = Path(layout.uri)
    if layout.partition_by:
        folder /= f"{layout.partition_by}={_NULL_PARTITION if partition is None else partition}"
    is_data_file = not path.name.startswith((".", "_")) and not _PATTERN_CHARACTERS & {*str(path)}
    return path.parent == folder and is_data_file and path.exists()
