"""Rows of one version of a table, read from the files that hold them where these are few.

Before it reads a version that is new to it, Delta computes the state of the whole table in jobs of Spark. Which few
files hold some partitions, deltalake tells from the log in milliseconds. The rows are the same.
"""

import json
from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse.ledger.active_files import active_files
from lakehouse.ledger.log import open_table
from lakehouse.settings.store import Store
from lakehouse.storage.layout import Layout
from lakehouse.storage.spark_writer import read_table

MOST_FILES = 32  # of more, Spark lists the paths in a job
_PATTERN = frozenset("*?[]{}\\")  # characters of which Spark makes a pattern where it is given paths
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # the name of the partition of NULL


def path_of(layout: Layout, path: str) -> Path:
    """A file of a table on a local disk, by its path as the log tells it."""
    return Path(layout.uri, unquote(path))


def read_rows(
    spark: SparkSession, layout: Layout, version: int, partitions: Collection[str] | None = None
) -> DataFrame:
    """The rows of a version of a table, or more of them than those in these partitions.

    From its files where it is the newest version of a table on a local disk that has no more than the first protocol
    of readers, they are few, and each lies where its partition is told by its folder.
    """
    table = open_table(layout.uri) if Store(layout.uri).is_path else None
    if table is None or table.version() != version or table.protocol().min_reader_version > 1:
        return read_table(spark, layout, version)
    files = active_files(table, layout.uri, layout.partition_by, partitions)
    if not 0 < files.num_rows <= MOST_FILES:
        return read_table(spark, layout, version)
    found = [(path_of(layout, file["path"]), file["partition"]) for file in files.to_pylist()]
    if not all(_is_told_by_its_folder(layout, *each) for each in found):
        return read_table(spark, layout, version)
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    try:
        reader = spark.read.schema(schema).option("basePath", layout.uri)
        rows = reader.parquet(*(str(path) for path, _ in found))
    except PySparkException:  # one is gone: Delta says of which table
        return read_table(spark, layout, version)
    return rows.select(*(f"`{name}`" for name in schema.names))


def _is_told_by_its_folder(layout: Layout, path: Path, partition: str | None) -> bool:
    """Whether Spark takes a path for a file of rows, and its folder for the partition that the log tells."""
    folder = Path(layout.uri)
    if layout.partition_by:
        folder /= f"{layout.partition_by}={_NO_VALUE if partition is None else partition}"
    plain = not path.name.startswith((".", "_")) and not _PATTERN & {*str(path)}
    return path.parent == folder and plain and path.exists()
