"""Makes deltalake write data files like Spark: codec, size of row groups, and length of bounds in the log."""

from collections import Counter
from functools import reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import WriterProperties

from lakehouse.ledger.log import open_table
from lakehouse.ledger.versions import active_files
from lakehouse.settings.store import Store
from lakehouse.storage.layout import TEXT_BOUND, Layout
from lakehouse.storage.table_files import path_of

CODEC: Final = "SNAPPY"  # Spark's default
ROW_GROUP = 128 * 1024 * 1024  # bytes of the largest row group that Spark writes
_GROUP_ROWS = ROW_GROUP // 2  # bytes of rows in a row group; the other half is for copies
_MOST_REWRITTEN = 8 * ROW_GROUP  # bytes of a partition that is rewritten because of one file
_VALUE_SIZE = 16  # most bytes of a value, except texts


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
    text_columns = [column for column in rows.columns if _has_any_size(column.type)]
    text_sizes = [pc.fill_null(pc.binary_length(column), 0).cast(pa.int64()) for column in text_columns]
    value_sizes = pa.chunked_array([pa.repeat(_VALUE_SIZE * rows.num_columns, rows.num_rows)])
    total_sizes = pc.cumulative_sum(reduce(pc.add, text_sizes, value_sizes.cast(pa.int64())).sort("descending"))
    return max(1, int(pc.sum(pc.less_equal(total_sizes, _GROUP_ROWS)).as_py()))


def _has_any_size(type_: pa.DataType) -> bool:
    return type_ in (pa.string(), pa.binary())


def partitions_without_codec(layout: Layout) -> set[str | None]:
    """Return the partitions with uncompressed files, which deltalake once wrote into tables on local disks.

    ``None`` is the partition of NULL, or a table without partitions. A file whose name contains a codec, as in Spark's
    files and ours, is not opened. A partition that is larger than a gibibyte is left to the next compaction.
    """
    table = open_table(layout.uri) if Store(layout.uri).is_path else None
    if table is None:
        return set()
    files = active_files(table, layout.uri, layout.partition_by).to_pylist()
    partition_sizes: Counter[str | None] = Counter()
    for file in files:
        partition_sizes[file["partition"]] += file["size"]
    files_to_check = [file for file in files if partition_sizes[file["partition"]] <= _MOST_REWRITTEN]
    return {file["partition"] for file in files_to_check if _is_uncompressed(path_of(layout, file["path"]))}


def _is_uncompressed(file: Path) -> bool:
    if "." in file.stem:
        return False
    try:
        metadata = pq.read_metadata(file)
    except (OSError, ValueError):  # missing or damaged: Spark reports it
        return False
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    return any(group.column(0).compression == "UNCOMPRESSED" for group in groups)
