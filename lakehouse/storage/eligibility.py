"""Decides if deltalake may write few rows: only if the table and its place make the result the same as Spark's.

If a condition is not met or not known, the answer is no, and Spark writes the same rows.
"""

import os
import re
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import pyarrow.compute as pc
from deltalake import DeltaTable, Field
from deltalake.schema import StructType

from lakehouse.decoding.nested_types import nested
from lakehouse.ledger.added_files import VECTOR_FEATURE
from lakehouse.ledger.log import open_table
from lakehouse.ledger.log_copies import LOG
from lakehouse.ledger.versions import active_files
from lakehouse.settings.store import Store
from lakehouse.storage.data_files import MOST_FILES, name_of, read_footer
from lakehouse.storage.layout import STATISTICS, TEXT_TYPES, VECTORS, Layout, paths

MOST_ROWS = 500_000  # of a commit, in the memory of this process
_ALWAYS_ELIGIBLE_ROWS = 1_000  # in memory, however wide the rows are
_MOST_ROWS_OF_UNKNOWN_SIZE = 50_000  # in memory if their width is estimated from files, whose texts may be compressed
MOST_MEMORY = 144 * 1024 * 1024  # bytes of rows in memory
_VALUE_SIZE = 16  # most bytes of a value, except texts
_TYPE_SIZES = {"INT": 4, "DATE": 4, "BIGINT": 8, "DOUBLE": 8, "TIMESTAMP": 8}  # types with smaller values
_MOST_FILE_BYTES = 64 * 1024 * 1024  # of such rows in files like those of the table, or of rows that are copied
_MOST_COPIED_BYTES = 4 * 1024**3  # of files with replaced rows; of more, a cluster writes faster than one process
_MOST_TARGET_ROWS = 1_000_000  # in a table that is merged into
_SPARK_INTERVAL = 100  # every 100th commit is made by Spark: it deletes expired log files, deltalake does not
_SUPPORTED_FEATURES = {"appendOnly", "invariants", "changeDataFeed"}  # table features that deltalake writes as Spark
# writer protocol versions: up to 4, features show in the properties and the columns; 7 lists them by name
_MOST_LEGACY_WRITER, _FEATURE_WRITER = 4, 7
_ALLOWED_COLUMN_METADATA = {"comment"}  # constraints and generation expressions are column metadata too
_FOLDERS_WITH_LINKS: set[Path] = set()  # folders that support hard links; a failure may be temporary
# types for which deltalake writes the same bounds as Spark, or none, as for fields of a struct: not DOUBLE, because of
# NaN, and only decimals that a double represents exactly
_BOUNDED = re.compile(r"DATE|TIMESTAMP|STRING|BOOLEAN|INT|BIGINT|DECIMAL\((\d|1[0-5]),.*")


def can_append_quickly(layout: Layout, rows: int | None, text: int | None = None) -> bool:
    """Whether this number of rows (``None``: unknown) may be written into the existing table without Spark.

    ``text`` is the number of bytes of text and of BINARY in them, if it is known.
    """
    table = _open_eligible(layout, rows)
    return table is not None and _fits_memory(table, layout, rows or 0, text)


def can_add_files(layout: Layout) -> bool:
    """Whether a commit may name data files that were written into the folder of the table, without Spark."""
    is_here = Store(layout.uri).folder is not None
    return layout.partition_by is None and is_here and _open_eligible(layout, 0) is not None


def can_merge_quickly(
    layout: Layout, rows: int | None, partitions: Collection[str] | None = None, text: int | None = None
) -> bool:
    """Whether this number of rows may be merged into the table, or into these partitions of it, without Spark.

    ``text`` is the number of bytes of text in them, if it is known. A merge may read every row and copy every file, so
    the files must be small and copied without a change.
    """
    has_many = partitions is not None and len(partitions) > MOST_FILES
    # deltalake writes no deletion vector, and reads none in a merge
    table = None if has_many or layout.deletion_vectors else _open_eligible(layout, rows)
    if table is None or not _fits_memory(table, layout, rows or 0, text):
        return False
    files = active_files(table, layout.uri, layout.partition_by, partitions)
    if files.num_rows > MOST_FILES or files["rows"].null_count:
        return False
    if (pc.sum(files["rows"]).as_py() or 0) > _MOST_TARGET_ROWS:
        return False
    sizes = [_size_to_copy(layout.uri, path) for path in files["path"].to_pylist()]
    return None not in sizes and sum(filter(None, sizes)) <= _MOST_FILE_BYTES


def can_replace_slots(layout: Layout, rows: int | None, text: int | None = None) -> bool:
    """Whether this number of rows, and as many stored ones, may be replaced in their slots without Spark.

    ``text`` is as above. The table may have any size. A map has no comparable form that can be stored.
    """
    table = _open_eligible(layout, rows)
    has_maps = any("MAP<" in column.type for column in layout.columns)
    return table is not None and not has_maps and _fits_memory(table, layout, rows or 0, text)


def can_copy_files(layout: Layout, file_uris: Collection[str]) -> bool:
    """Whether a copy of these files of the table by deltalake has the same values, and is quick enough.

    deltalake cannot read a file of a store while it writes another one (seen: a panic).
    """
    if layout.deletion_vectors or not file_uris:
        return True
    if Store(layout.uri).folder is None:
        return False
    names = set(map(name_of, file_uris))
    table = open_table(layout.uri)
    paths = active_files(table, layout.uri)["path"].to_pylist() if table else []
    touched_paths = [path for path in paths if name_of(path) in names]
    sizes = [_size_to_copy(layout.uri, path) for path in touched_paths]
    return None not in sizes and len(sizes) == len(names) and sum(filter(None, sizes)) <= _MOST_COPIED_BYTES


def has_texts(layout: Layout) -> bool:
    """Whether a declared column outside the key has values of any size."""
    names = (path[0] for path, column in paths(layout.columns) if column.type in TEXT_TYPES)
    return any(name not in layout.key and not name.startswith("_") for name in names)


def _open_eligible(layout: Layout, rows: int | None) -> DeltaTable | None:
    if rows is None or rows > MOST_ROWS or not _has_equal_bounds(layout):
        return None
    if any(nested(column.type) and not column.fields for column in layout.columns):
        return None
    table = open_table(layout.uri)
    if table is None or (table.version() + 1) % _SPARK_INTERVAL == 0 or not _is_supported(table, layout):
        return None
    folder = Store(layout.uri).folder
    return table if folder is None or supports_links(folder / LOG) else None


def _has_equal_bounds(layout: Layout) -> bool:
    """Whether deltalake and Spark write the same bounds for the columns with statistics."""
    statistics_columns = (column for column in layout.columns if column.name in layout.statistics)
    leaf_columns = (column for _, column in paths(statistics_columns) if not column.fields)
    return all(_BOUNDED.fullmatch(column.type.upper().replace(" ", "")) for column in leaf_columns)


def _is_supported(table: DeltaTable, layout: Layout) -> bool:
    """Whether the table has no feature, property or column that deltalake does not write as Spark does."""
    protocol, metadata = table.protocol(), table.metadata()
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    supported_features = _SUPPORTED_FEATURES | ({VECTOR_FEATURE} if layout.deletion_vectors else set())
    has_features = protocol.min_writer_version == _FEATURE_WRITER and features <= supported_features
    is_writable = protocol.min_writer_version <= _MOST_LEGACY_WRITER or has_features
    is_legacy = protocol.min_reader_version == 1 and not layout.deletion_vectors
    has_protocol = is_writable and (is_legacy or metadata.configuration.get(VECTORS) == "true")
    statistics = layout.statistics_properties.get(STATISTICS, "").split(",")
    stored_statistics = metadata.configuration.get(STATISTICS, "").split(",")
    has_statistics = statistics != [""] and {*statistics} == {*stored_statistics}
    has_properties = has_statistics and set(metadata.configuration) <= set(layout.properties)
    fields = table.schema().fields
    has_columns = {field.name for field in fields} == set(layout.names) and all(map(_is_unconstrained, fields))
    has_partitions = metadata.partition_columns == ([layout.partition_by] if layout.partition_by else [])
    return has_protocol and has_properties and has_columns and has_partitions


def _is_unconstrained(field: Field) -> bool:
    """Whether a column and its inner fields allow NULL and have no metadata except a comment."""
    inner = field.type.fields if isinstance(field.type, StructType) else []
    return field.nullable and set(field.metadata) <= _ALLOWED_COLUMN_METADATA and all(map(_is_unconstrained, inner))


def _fits_memory(table: DeltaTable, layout: Layout, rows: int, text: int | None) -> bool:
    """Whether this number of rows fits into memory; if ``text`` is unknown, its size is estimated from the files."""
    if text is None and not any(column.type in TEXT_TYPES for column in layout.columns):
        text = 0
    if text is not None:
        types = [column.type.upper() for _, column in paths(layout.columns) if not column.fields]
        return rows * sum(_TYPE_SIZES.get(type_, _VALUE_SIZE) for type_ in types) + text <= MOST_MEMORY
    if rows <= _ALWAYS_ELIGIBLE_ROWS:
        return True
    if rows > _MOST_ROWS_OF_UNKNOWN_SIZE:
        return False
    files = active_files(table, layout.uri)
    stored_bytes, stored_rows = (pc.sum(files[name]).as_py() or 0 for name in ("size", "rows"))
    return bool(rows * stored_bytes < _MOST_FILE_BYTES * stored_rows)


def supports_links(folder: Path) -> bool:
    """Whether the folder supports hard links: deltalake commits by one, and some disks refuse (exFAT, some shares)."""
    if folder in _FOLDERS_WITH_LINKS:
        return True
    first, second = folder / ".first", folder / ".second"
    try:
        second.unlink(missing_ok=True)
        first.touch()
        os.link(first, second)
        _FOLDERS_WITH_LINKS.add(folder)
    except OSError:  # also if another process tries at the same moment
        return False
    finally:
        with suppress(OSError):
            first.unlink(missing_ok=True)
            second.unlink(missing_ok=True)
    return True


def _size_to_copy(uri: str, path: str) -> int | None:
    """Return the uncompressed bytes of a file; ``None`` if a copy by deltalake would change its values.

    deltalake reads INT96, Spark's default type for times, as nanoseconds (seen: the year 9999 became 1816). It reads
    days before 1582, which old Spark versions wrote in another calendar, as days of today's calendar.
    """
    try:
        return _read_size_to_copy(uri, path)
    except (OSError, ValueError):  # missing, damaged, or in a store that fails now: Spark reports it
        return None


@lru_cache(maxsize=1_000)  # no file of a table ever changes
def _read_size_to_copy(uri: str, path: str) -> int | None:
    metadata = read_footer(uri, path)
    is_legacy = any(key.startswith(b"org.apache.spark.legacy") for key in metadata.metadata or ())
    if is_legacy or any(metadata.schema.column(i).physical_type == "INT96" for i in range(len(metadata.schema))):
        return None
    return sum(int(metadata.row_group(i).total_byte_size) for i in range(metadata.num_row_groups))
