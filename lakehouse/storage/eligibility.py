"""Whether a table is so plain, and its disk such, that deltalake writes few rows into it as Spark would.

Where anything is otherwise, or nobody knows, the answer is no, and Spark writes: to the same rows.
"""

import os
import re
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Field
from deltalake.schema import StructType

from lakehouse.decoding.nested_types import nested
from lakehouse.ledger.active_files import active_files
from lakehouse.ledger.log import open_table
from lakehouse.ledger.log_files import LOG
from lakehouse.settings.store import Store
from lakehouse.storage.layout import STATISTICS, Layout, paths
from lakehouse.storage.table_files import MOST_FILES, path_of

MOST_ROWS = 500_000  # of a commit, held by this process
_FEW_ROWS = 1_000  # which it holds however wide they are
_UNCOUNTED = 50_000  # which it holds where they are as wide as those there seem to be, whose texts may be compressed
MOST_HELD = 128 * 1024 * 1024  # bytes of such rows
_VALUE = 16  # bytes of a value at most, but for texts
_NUMBERS = {"INT": 4, "DATE": 4, "BIGINT": 8, "DOUBLE": 8, "TIMESTAMP": 8}  # types whose values have fewer
_MOST_BYTES = 64 * 1024 * 1024  # of such rows in files as those of the table, or of rows that are copied
_MOST_MET = 1_000_000  # rows of a table that is merged into
_BY_SPARK = 100  # commits from one that Spark makes to the next: it deletes what of the log has expired, deltalake not
_FEATURES = {"appendOnly", "invariants", "changeDataFeed"}  # of a table that deltalake writes as Spark does
# versions of the protocol: up to 4 what it allows shows in the properties and the columns, 7 names it
_PLAIN_WRITER, _NAMES_FEATURES = 4, 7
_DESCRIBES = {"comment"}  # what a column may say of itself; a constraint, or how it is computed, stands there too
_TAKE_LINKS: set[Path] = set()  # folders that were seen to; a refusal may pass
# types of which deltalake writes the bounds that Spark would, or none, as of fields of a struct: not of a DOUBLE, where
# NaN is none, and of decimals only those that a double holds exactly
_BOUNDED = re.compile(r"DATE|TIMESTAMP|STRING|BOOLEAN|INT|BIGINT|DECIMAL\((\d|1[0-5]),.*")


def is_quick(layout: Layout, rows: int | None, text: int | None = None) -> bool:
    """Whether so many rows (``None``: nobody knows) may be written into the table, which is there, without Spark.

    ``text`` is how many bytes of text are in them, where that is known.
    """
    table = _opened(layout, rows)
    return table is not None and _can_be_held(table, layout, rows or 0, text)


def is_quick_to_merge(
    layout: Layout, rows: int | None, partitions: Collection[str] | None = None, text: int | None = None
) -> bool:
    """Whether so many rows may be merged into the table, or into these partitions of it, without Spark.

    ``text`` is how many bytes of text are in them, where that is known. All that is there is looked through at
    worst, and what is copied has to stay as it is.
    """
    table = _opened(layout, rows) if partitions is None or len(partitions) <= MOST_FILES else None
    if table is None or not _can_be_held(table, layout, rows or 0, text):
        return False
    files = active_files(table, layout.uri, layout.partition_by, partitions)
    if files.num_rows > MOST_FILES or files["rows"].null_count or (pc.sum(files["rows"]).as_py() or 0) > _MOST_MET:
        return False
    sizes = [_size_to_copy(path_of(layout, path)) for path in files["path"].to_pylist()]
    return None not in sizes and sum(filter(None, sizes)) <= _MOST_BYTES


def _opened(layout: Layout, rows: int | None) -> DeltaTable | None:
    if rows is None or rows > MOST_ROWS or not Store(layout.uri).is_path or not _tells_bounds(layout):
        return None
    if any(nested(column.type) and not column.fields for column in layout.columns):
        return None
    table = open_table(layout.uri)
    if table is None or (table.version() + 1) % _BY_SPARK == 0 or not _is_plain(table, layout):
        return None
    return table if _takes_links(Path(layout.uri, LOG)) else None


def _tells_bounds(layout: Layout) -> bool:
    named = (column for column in layout.columns if column.name in layout.statistics)
    values = (column for _, column in paths(named) if not column.fields)
    return all(_BOUNDED.fullmatch(column.type.upper().replace(" ", "")) for column in values)


def _is_plain(table: DeltaTable, layout: Layout) -> bool:
    """Whether nobody gave the table what deltalake does otherwise, or not at all."""
    needs, said = table.protocol(), table.metadata()
    features = {*(needs.reader_features or ()), *(needs.writer_features or ())}
    told = needs.min_writer_version == _NAMES_FEATURES and features <= _FEATURES
    known = needs.min_reader_version == 1 and (needs.min_writer_version <= _PLAIN_WRITER or told)
    wanted, stands = (of.get(STATISTICS, "").split(",") for of in (layout.statistics_properties, said.configuration))
    bounded = wanted != [""] and {*wanted} == {*stands}
    ours = bounded and set(said.configuration) <= set(layout.properties)
    fields = table.schema().fields
    same = {field.name for field in fields} == set(layout.names) and all(map(_is_free, fields))
    parted = said.partition_columns == ([layout.partition_by] if layout.partition_by else [])
    return known and ours and same and parted


def _is_free(field: Field) -> bool:
    """Whether a column takes NULL and says no more of itself than what it means, and so do the fields in it."""
    inner = field.type.fields if isinstance(field.type, StructType) else []
    return field.nullable and set(field.metadata) <= _DESCRIBES and all(map(_is_free, inner))


def _can_be_held(table: DeltaTable, layout: Layout, rows: int, text: int | None) -> bool:
    """Whether so many rows can be held: with so much text, or fewer, as wide as the files of the table tell."""
    if text is None and not any(column.type == "STRING" for column in layout.columns):
        text = 0
    if text is not None:
        types = [column.type.upper() for _, column in paths(layout.columns) if not column.fields]
        return rows * sum(_NUMBERS.get(type_, _VALUE) for type_ in types) + text <= MOST_HELD
    if rows <= _FEW_ROWS:
        return True
    if rows > _UNCOUNTED:
        return False
    files = active_files(table, layout.uri)
    size, there = (pc.sum(files[name]).as_py() or 0 for name in ("size", "rows"))
    return bool(rows * size < _MOST_BYTES * there)


def _takes_links(folder: Path) -> bool:
    """Whether a file gets a second name there: so deltalake commits, and some disks refuse (exFAT, some shares)."""
    if folder in _TAKE_LINKS:
        return True
    first, second = folder / ".first", folder / ".second"
    try:
        second.unlink(missing_ok=True)
        first.touch()
        os.link(first, second)
        _TAKE_LINKS.add(folder)
    except OSError:  # also where another process asks in the same moment
        return False
    finally:
        with suppress(OSError):
            first.unlink(missing_ok=True)
            second.unlink(missing_ok=True)
    return True


@lru_cache(maxsize=1_000)  # no file of a table ever changes
def _size_to_copy(file: Path) -> int | None:
    """How large a file is without compression, in bytes; ``None`` where it would be copied as others than it holds.

    deltalake takes an INT96, as which Spark wrote times by itself, for nanoseconds (seen: the year 9999 became 1816),
    and days before 1582 as an old Spark counted them for those of today's calendar.
    """
    try:
        said = pq.read_metadata(file)
    except (OSError, ValueError):  # missing or damaged: Spark says so
        return None
    legacy = any(key.startswith(b"org.apache.spark.legacy") for key in said.metadata or ())
    if legacy or any(said.schema.column(number).physical_type == "INT96" for number in range(len(said.schema))):
        return None
    return sum(int(said.row_group(number).total_byte_size) for number in range(said.num_row_groups))
