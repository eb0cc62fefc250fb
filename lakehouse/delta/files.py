"""Rows of one version of a table, read from the files that hold them where these are few.

Before it reads a version that is new to it, Delta computes the state of the whole table in jobs of Spark. Which few
files hold some partitions, deltalake tells from the log in milliseconds. The rows are the same.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse.delta.failures import log_failures
from lakehouse.delta.layout import Layout
from lakehouse.delta.log import open_table
from lakehouse.delta.write import read_table

MOST_FILES = 32  # of more, Spark lists the paths in a job
_PATTERN = frozenset("*?[]{}\\")  # characters of which Spark makes a pattern where it is given paths


class File(NamedTuple):
    """An active file of a table, as its log tells."""

    path: Path
    rows: int | None
    size: int  # in bytes


def active_files(table: DeltaTable, layout: Layout, partitions: Collection[str] | None = None) -> list[File]:
    """The active files of an opened table on a local disk, or of these partitions of it."""
    with log_failures(layout.uri):
        told = table.get_add_actions(flatten=True)
    paths, rows, sizes = (told.column(name).to_pylist() for name in ("path", "num_records", "size_bytes"))
    files = list(map(File, (Path(layout.uri, unquote(path)) for path in paths), rows, sizes))
    if partitions is None or layout.partition_by is None:
        return files
    of = told.column(f"partition.{layout.partition_by}").to_pylist()
    return [file for file, value in zip(files, of, strict=True) if str(value) in partitions]


def read_rows(
    spark: SparkSession, layout: Layout, version: int, partitions: Collection[str] | None = None
) -> DataFrame:
    """The rows of a version of a table, or more of them than those in these partitions.

    From its files where it is the newest version of a table on a local disk that has no more than the first protocol
    of readers, and they are few.
    """
    table = None if "://" in layout.uri or _PATTERN & {*layout.uri} else open_table(layout.uri)
    if table is None or table.version() != version or table.protocol().min_reader_version > 1:
        return read_table(spark, layout, version)
    files = [file.path for file in active_files(table, layout, partitions)]
    if not 0 < len(files) <= MOST_FILES or not all(file.exists() for file in files):
        return read_table(spark, layout, version)
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    rows = spark.read.schema(schema).option("basePath", layout.uri).parquet(*map(str, files))
    return rows.select(*(f"`{name}`" for name in schema.names))
