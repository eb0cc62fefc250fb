"""Whether a table is so plain, and its disk such, that deltalake writes few rows into it as Spark would.

Where anything is otherwise, or nobody knows, the answer is no, and Spark writes: to the same rows.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow.parquet as pq
from deltalake import DeltaTable

from lakehouse.delta.failures import log_failures
from lakehouse.delta.layout import Layout
from lakehouse.delta.log import open_table
from lakehouse.delta.log_files import LOG

MOST_ROWS = 50_000  # of a commit, held by this process
_FEW_ROWS = 1_000  # which it holds however wide they are
_MOST_BYTES = 64 * 1024 * 1024  # of such rows, as the table's own files hold them
_MOST_MET = 1_000_000  # rows of a table that is merged into
_MOST_FILES = 20  # of it, of which each is asked how it holds times
_BY_SPARK = 100  # commits from one that Spark makes to the next: it deletes what of the log has expired, deltalake not
_FEATURES = {"appendOnly", "invariants", "changeDataFeed"}  # of a table that deltalake writes as Spark does
_PLAIN_WRITER, _NAMES_FEATURES = 2, 7  # versions of the protocol; those between hold features that it does not name
_STATISTICS = "delta.dataSkippingStatsColumns"
# types of which deltalake writes the bounds that Spark would: not of a DOUBLE, where NaN is none, and of decimals only
# those that a double holds exactly
_BOUNDED = re.compile(r"DATE|TIMESTAMP|STRING|BOOLEAN|INT|BIGINT|DECIMAL\((\d|1[0-5]),.*")


class _Stored(NamedTuple):
    """What the active files of a table hold."""

    files: int
    rows: int | None  # None: a file does not tell
    size: int  # in bytes


def is_quick(layout: Layout, rows: int | None) -> bool:
    """Whether so many rows (``None``: nobody knows) may be written into the table, which is there, without Spark."""
    return _opened(layout, rows) is not None


def is_quick_to_merge(layout: Layout, rows: int | None) -> bool:
    """Whether so many rows may be merged into the table without Spark.

    It is looked through as a whole at worst, and what is copied has to stay as it is: deltalake takes an INT96, as
    which Spark wrote times by itself, for nanoseconds (seen: the year 9999 became 1816).
    """
    table = _opened(layout, rows)
    if table is None:
        return False
    with log_failures(layout.uri):
        stored, files = _stored(table), table.file_uris()
    little = stored.rows is not None and stored.rows <= _MOST_MET and stored.size <= _MOST_BYTES
    return little and stored.files <= _MOST_FILES and not any(_has_int96(unquote(file)) for file in files)


def _opened(layout: Layout, rows: int | None) -> DeltaTable | None:
    if rows is None or rows > MOST_ROWS or "://" in layout.uri or not _tells_bounds(layout):
        return None
    table = open_table(layout.uri)
    if table is None or (table.version() + 1) % _BY_SPARK == 0 or not _is_plain(table, layout):
        return None
    return table if _can_be_held(table, rows) and _takes_links(Path(layout.uri, LOG)) else None


def _tells_bounds(layout: Layout) -> bool:
    types = {column.name: column.type for column in layout.columns}
    return all(_BOUNDED.fullmatch(types[name].upper().replace(" ", "")) for name in layout.statistics)


def _is_plain(table: DeltaTable, layout: Layout) -> bool:
    """Whether nobody gave the table what deltalake does otherwise, or not at all."""
    needs, said = table.protocol(), table.metadata()
    features = {*(needs.reader_features or ()), *(needs.writer_features or ())}
    told = needs.min_writer_version == _NAMES_FEATURES and features <= _FEATURES
    known = needs.min_reader_version == 1 and (needs.min_writer_version <= _PLAIN_WRITER or told)
    wanted = layout.statistics_properties
    bounded = bool(wanted) and said.configuration.get(_STATISTICS) == wanted[_STATISTICS]
    ours = bounded and set(said.configuration) <= set(layout.properties)
    fields = table.schema().fields
    same = {field.name for field in fields} == set(layout.names) and all(field.nullable for field in fields)
    return known and ours and same and not said.partition_columns


def _can_be_held(table: DeltaTable, rows: int) -> bool:
    """Whether rows as wide as those of the table can be held, as far as its files tell, which are compressed."""
    if rows <= _FEW_ROWS:
        return True
    stored = _stored(table)
    return rows * stored.size < _MOST_BYTES * (stored.rows or 0)


def _stored(table: DeltaTable) -> _Stored:
    files = table.get_add_actions(flatten=True)
    rows, sizes = files["num_records"].to_pylist(), files["size_bytes"].to_pylist()
    return _Stored(len(sizes), None if None in rows else sum(rows), sum(sizes))


def _takes_links(folder: Path) -> bool:
    """Whether a file gets a second name there: so deltalake commits, and some disks refuse (exFAT, some shares)."""
    first, second = folder / ".first", folder / ".second"
    try:
        second.unlink(missing_ok=True)
        first.touch()
        os.link(first, second)
    except OSError:
        return False
    finally:
        with suppress(OSError):
            first.unlink(missing_ok=True)
            second.unlink(missing_ok=True)
    return True


def _has_int96(file: str) -> bool:
    try:
        schema = pq.read_metadata(file).schema
    except (OSError, ValueError):  # missing or damaged: Spark says so
        return True
    return any(schema.column(number).physical_type == "INT96" for number in range(len(schema)))
