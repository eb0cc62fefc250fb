"""The data files of a table: how they are written, and rows that are read directly from few of them.

Before Delta reads a new version, it computes the state of the whole table in Spark jobs. deltalake finds the few files
of some partitions in the log within milliseconds. The rows are the same.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, WriterProperties
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.types import StructType

from lakehouse.decoding.staged import SLOT
from lakehouse.ledger.log import open_table
from lakehouse.ledger.versions import active_files, files_within
from lakehouse.settings.store import Store
from lakehouse.storage.layout import TEXT_BOUND, Layout
from lakehouse.storage.spark_writer import read_table

MOST_FILES = 32  # Spark lists more paths in a job
_MOST_SLOT_FILES = 1_000  # Spark opens each of them
_PATTERN_CHARACTERS = frozenset("*?[]{}\\")  # Spark reads a path with one of these as a pattern
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # the name of the partition of NULL
CODEC: Final = "SNAPPY"  # Spark's default
ROW_GROUP = 128 * 1024 * 1024  # bytes of the largest row group that Spark writes
_GROUP_ROWS = ROW_GROUP // 2  # bytes of rows in a row group; the other half is for copies
_MOST_REWRITTEN = 8 * ROW_GROUP  # bytes of a partition that is rewritten because of one file
_VALUE_SIZE = 16  # most bytes of a value, except texts
# pyspark converts no struct of Arrow whose fields cannot be NULL
_SLOT_SQL = "struct(nullif(_metadata.file_path, '') AS file, nullif(_metadata.row_index, -1) AS index)"
_FOOTER = 256 * 1024  # bytes from the end of a file that hold its footer, unless the file is very large


def name_of(path: str) -> str:
    """Return the name of a data file, in which writers of Delta put an id that no other file has."""
    return unquote(path).rpartition("/")[2]


def read_footer(uri: str, path: str) -> pq.FileMetaData:
    """Read the footer of a data file from its path in the log.

    Raises ``OSError`` or ``ValueError`` if it cannot be read, or is larger than what one request gets from a store.
    """
    store = Store(uri)
    if store.folder:
        return pq.read_metadata(store.folder / unquote(path))
    return pq.read_metadata(pa.BufferReader(store.read_end(unquote(path), _FOOTER)))


def read_rows(
    spark: SparkSession, layout: Layout, version: int, partitions: Collection[str] | None = None
) -> DataFrame:
    """Return at least the rows of a version of a table that are in these partitions (``None``: all rows).

    The rows are read directly from files if this is the newest version of a table with reader protocol 1, its files are
    few, and the folder of each names its partition.
    """
    rows = _read_files(spark, layout, version, partitions)
    return read_table(spark, layout, version) if rows is None else rows


def read_slots(
    spark: SparkSession,
    layout: Layout,
    version: int,
    partitions: Collection[str] | None,
    bounds: Mapping[str, tuple[str, str]],
) -> DataFrame | None:
    """Return at least the rows in these partitions and ``bounds``, each with its slot in ``_slot``.

    If no file can have a row in ``bounds``, it has no row and no slots. ``None`` if slots cannot be read: Delta shows
    them only if the table may have deletion vectors, and of other tables, Spark opens each file that may have a row.
    """
    slot = F.expr(_SLOT_SQL).alias(SLOT)
    if layout.deletion_vectors:
        return read_table(spark, layout, version).select("*", slot)
    return _read_files(spark, layout, version, partitions, (slot, bounds))


def read_nothing(spark: SparkSession, layout: Layout) -> DataFrame | None:
    """Return no row, with the columns of the table."""
    table = open_table(layout.uri)
    return spark.createDataFrame([], StructType.fromJson(json.loads(table.schema().to_json()))) if table else None


def _read_files(
    spark: SparkSession,
    layout: Layout,
    version: int,
    partitions: Collection[str] | None,
    slots: tuple[Column, Mapping[str, tuple[str, str]]] | None = None,
) -> DataFrame | None:
    """Return the rows of few files, read directly; ``None`` if Delta has to read them. Slots are worth more files."""
    table = open_table(layout.uri)
    if table is None or table.version() != version or table.protocol().min_reader_version > 1:
        return None
    files = active_files(table, layout.uri, layout.partition_by, partitions)
    if slots and files.num_rows > MOST_FILES:
        files = files.filter(pc.is_in(files["path"], files_within(table, slots[1])))
        if not files.num_rows:
            return read_nothing(spark, layout)
    if not 0 < files.num_rows <= (_MOST_SLOT_FILES if slots else MOST_FILES):
        return None
    return _read_paths(spark, layout, table, files, slots[:1] if slots else ())


def read_files(spark: SparkSession, layout: Layout, paths: Collection[str]) -> DataFrame | None:
    """Return the rows of some active files, by their paths in the log, also hidden ones.

    ``None`` if Delta has to read them.
    """
    table = open_table(layout.uri)
    if table is None or (table.protocol().min_reader_version > 1 and not layout.deletion_vectors):
        return None
    files = active_files(table, layout.uri, layout.partition_by)
    return _read_paths(spark, layout, table, files.filter(pc.is_in(files["path"], pa.array(paths, pa.string()))))


def _read_paths(
    spark: SparkSession, layout: Layout, table: DeltaTable, files: pa.Table, slot: tuple[Column, ...] = ()
) -> DataFrame | None:
    paths = [unquote(path) for path in files["path"].to_pylist()]
    if not all(map(partial(_is_in_partition_folder, layout), paths, files["partition"].to_pylist())):
        return None
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    try:
        reader = spark.read.schema(schema).option("basePath", layout.uri)
        rows = reader.parquet(*(f"{layout.uri}/{path}" for path in paths))
    except PySparkException:  # a file is missing: the error of Delta names the table
        return None
    return rows.select(*(f"`{name}`" for name in schema.names), *slot)


def _is_in_partition_folder(layout: Layout, path: str, partition: str | None) -> bool:
    """Whether Spark reads a relative path as a data file, and its folder as the partition that the log records."""
    folder, _, name = path.rpartition("/")
    partition_name = _NULL_PARTITION if partition is None else partition
    is_in_place = folder == (f"{layout.partition_by}={partition_name}" if layout.partition_by else "")
    is_data_file = not name.startswith((".", "_")) and not _PATTERN_CHARACTERS & {*layout.uri, *path}
    table_folder = Store(layout.uri).folder
    return is_in_place and is_data_file and (table_folder is None or (table_folder / path).exists())


def writer_properties(rows: pa.Table) -> WriterProperties:
    """Return the settings with which deltalake writes files and log entries like Spark's."""
    group_size = _count_group_rows(rows)
    return WriterProperties(compression=CODEC, statistics_truncate_length=TEXT_BOUND, max_row_group_size=group_size)


def _count_group_rows(rows: pa.Table) -> int | None:
    """Return how many of the widest rows fit into a row group, so that any rows fit; ``None`` if all rows fit."""
    if rows.nbytes <= _GROUP_ROWS:
        return None
    while any(pa.types.is_struct(field.type) for field in rows.schema):
        rows = rows.flatten()
    text_columns = [column for column in rows.columns if column.type in (pa.string(), pa.binary())]
    text_sizes = [pc.fill_null(pc.binary_length(column), 0).cast(pa.int64()) for column in text_columns]
    value_sizes = pa.chunked_array([pa.repeat(_VALUE_SIZE * rows.num_columns, rows.num_rows)])
    total_sizes = pc.cumulative_sum(reduce(pc.add, text_sizes, value_sizes.cast(pa.int64())).sort("descending"))
    return max(1, int(pc.sum(pc.less_equal(total_sizes, _GROUP_ROWS)).as_py()))


def partitions_without_codec(layout: Layout) -> set[str | None]:
    """Return the partitions with uncompressed files, which deltalake once wrote into tables on local disks.

    ``None`` is the partition of NULL, or a table without partitions. A file whose name contains a codec, as in Spark's
    files and ours, is not opened. A partition that is larger than a gibibyte is left to the next compaction.
    """
    table = open_table(layout.uri) if Store(layout.uri).folder else None
    if table is None:
        return set()
    files = active_files(table, layout.uri, layout.partition_by).to_pylist()
    partition_sizes: Counter[str | None] = Counter()
    for file in files:
        partition_sizes[file["partition"]] += file["size"]
    files_to_check = [file for file in files if partition_sizes[file["partition"]] <= _MOST_REWRITTEN]
    return {file["partition"] for file in files_to_check if _is_uncompressed(layout.uri, file["path"])}


def _is_uncompressed(uri: str, path: str) -> bool:
    if "." in Path(unquote(path)).stem:
        return False
    try:
        metadata = read_footer(uri, path)
    except (OSError, ValueError):  # missing or damaged: Spark reports it
        return False
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    return any(group.column(0).compression == "UNCOMPRESSED" for group in groups)


@dataclass(frozen=True)
class DataFile:
    """A file of rows: its path within the table, its size in bytes, and its statistics for the log of the table.

    ``rows`` is the number of rows to write, ``stored_rows`` what the footer of the file says.
    ``late`` is the number of rows that are late, ``rounded`` that of rows with a decimal that lost digits, and
    ``unmapped_fields`` the number of rows with each unmapped field.
    """

    path: str
    size: int
    rows: int
    stored_rows: int
    stats: Mapping[str, Any]
    late: int
    unmapped_fields: Mapping[str, int]
    rounded: int = 0

    def is_intact(self, folder: str) -> bool:
        """Whether the file is in the folder of its table, with its size."""
        path = Path(folder, self.path)
        return path.exists() and path.stat().st_size == self.size
