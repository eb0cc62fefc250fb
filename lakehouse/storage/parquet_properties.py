"""Data files as Spark writes them: the codec, the size of row groups, and what the log tells of each."""

from collections import Counter
from functools import reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import WriterProperties

from lakehouse.ledger.active_files import active_files
from lakehouse.ledger.log import open_table
from lakehouse.settings.store import Store
from lakehouse.storage.layout import TEXT_BOUND, Layout
from lakehouse.storage.table_files import path_of

CODEC: Final = "SNAPPY"  # Spark's default
ROW_GROUP = 128 * 1024 * 1024  # bytes of the largest one that Spark writes
_OF_ROWS = ROW_GROUP // 2  # bytes of rows in one; as much may be copied beside them
_MOST_REWRITTEN = 8 * ROW_GROUP  # bytes of a partition that is written anew for one file of it
_VALUE = 16  # bytes of a value at most, but for texts


def writer_properties(rows: pa.Table) -> WriterProperties:
    """How deltalake writes these rows, so that files and log are as Spark's."""
    most = _rows_of_a_group(rows)
    return WriterProperties(compression=CODEC, statistics_truncate_length=TEXT_BOUND, max_row_group_size=most)


def _rows_of_a_group(rows: pa.Table) -> int | None:
    """How many of the widest rows fit into a row group: so many of any do. ``None``: all of them."""
    if rows.nbytes <= _OF_ROWS:
        return None
    while any(pa.types.is_struct(field.type) for field in rows.schema):
        rows = rows.flatten()
    texts = [column for column in rows.columns if pa.types.is_string(column.type)]
    widths = [pc.fill_null(pc.binary_length(column), 0).cast(pa.int64()) for column in texts]
    values = pa.chunked_array([pa.repeat(_VALUE * rows.num_columns, rows.num_rows)])
    sums = pc.cumulative_sum(reduce(pc.add, widths, values.cast(pa.int64())).sort("descending"))
    return max(1, int(pc.sum(pc.less_equal(sums, _OF_ROWS)).as_py()))


def partitions_without_codec(layout: Layout) -> set[str | None]:
    """The partitions with a file that is not compressed, of a table on a local disk: deltalake has written such there.

    ``None`` is the partition of NULL, or a table that has none. A file whose name tells a codec, as Spark's and ours
    do, is not opened, and a partition that is larger than a gibibyte is left to the next compaction.
    """
    table = open_table(layout.uri) if Store(layout.uri).is_path else None
    if table is None:
        return set()
    files = active_files(table, layout.uri, layout.partition_by).to_pylist()
    sizes: Counter[str | None] = Counter()
    for file in files:
        sizes[file["partition"]] += file["size"]
    few = [file for file in files if sizes[file["partition"]] <= _MOST_REWRITTEN]
    return {file["partition"] for file in few if _lacks_codec(path_of(layout, file["path"]))}


def _lacks_codec(file: Path) -> bool:
    if "." in file.stem:
        return False
    try:
        said = pq.read_metadata(file)
    except (OSError, ValueError):  # missing or damaged: Spark says so
        return False
    groups = (said.row_group(number) for number in range(said.num_row_groups))
    return any(group.column(0).compression == "UNCOMPRESSED" for group in groups)
