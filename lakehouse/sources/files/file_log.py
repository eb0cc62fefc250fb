"""The log of files: each file that was ever seen, with its number, in a table of its own.

A file whose size, time or contents changed has another number. The log says which bytes a number means, so that a
position always has the same record.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa

from lakehouse.declaration import StreamTable
from lakehouse.decoding.files.contents import chunk_hashes
from lakehouse.decoding.files.fault import FileChangedError
from lakehouse.errors import SourceError
from lakehouse.ledger.ledger import ledger_of
from lakehouse.ledger.log import open_table
from lakehouse.ledger.log_files import LogCache
from lakehouse.ledger.positions import SourceId
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings
from lakehouse.sources.files.listing import FileFacts, facts_of
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.stored_table import ExpectedRows
from lakehouse.storage.table_context import TableContext

COLUMNS = (
    TableColumn("number", "BIGINT", "Number of the file, from 0: the order in which files are merged."),
    TableColumn("path", "STRING", "Path of the file within the folder."),
    TableColumn("size", "BIGINT", "Size in bytes."),
    TableColumn("modified", "TIMESTAMP", "When the contents were last changed, UTC."),
    TableColumn("seen", "TIMESTAMP", "When the file was numbered, UTC: the time of its records."),
    TableColumn("hashes", "ARRAY<STRING>", "Hash of each 32 MiB of the file, in order."),
)
_KIND = "files"
_NEW = "new"  # the identity of a folder of which no file has a number
_THREADS = 8  # that read new files
_SCHEMA = pa.schema(
    {
        "number": pa.int64(),
        "path": pa.string(),
        "size": pa.int64(),
        "modified": pa.timestamp("us", "UTC"),
        "seen": pa.timestamp("us", "UTC"),
        "hashes": pa.list_(pa.string()),
    }
)


@dataclass(frozen=True)
class FileLog:
    """What the log says: for each path the number, size and time of the file that was last seen there.

    ``count`` is the number that the next file gets, and ``last_seen`` the time of the last one, in microseconds since
    1970. ``table_id`` is empty if the table does not exist.
    """

    table_id: str = ""
    version: int = -1
    count: int = 0
    newest: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    last_seen: int = 0

    def next_time(self, now: int) -> int:
        """Return the time at which the next file is seen: also by a clock that was set back, not before the last one.

        Times order the records of files, so those of a later file are never older.
        """
        return max(now, self.last_seen)

    @property
    def source(self) -> SourceId:
        """The identity of the folder as a source: the id that Delta gave the log."""
        return SourceId(_KIND, self.table_id or _NEW)


_CACHE = LogCache[FileLog](lambda log: log.version)


def files_layout(table: StreamTable, settings: Settings) -> Layout:
    """Return the layout of the log of files: one row for each numbered file, never changed."""
    name = table.files_name
    doc = f"Files from which records of {table.name} were read: one row per file and contents."
    return Layout(
        name,
        settings.table_uri(name),
        doc,
        COLUMNS,
        retention=table.upkeep.retention,
        anchors=["number"],
        sync=settings.sync,
    )


def read_file_log(settings: Settings, table: StreamTable) -> FileLog:
    """Read the log without a JVM. Raises ``LedgerError`` if another version of lakehouse wrote it."""
    ledger_of(settings, table.files_name)
    uri = settings.table_uri(table.files_name)
    return _CACHE.read(uri, uri, lambda: _read(uri))


def _read(uri: str) -> FileLog:
    with log_failures(uri):
        log_table = open_table(uri)
        if log_table is None:
            return FileLog()
        names = ["number", "path", "size", "modified", "seen"]
        rows = pa.table(log_table.to_pyarrow_table(columns=names)).sort_by("number")
    numbers, times = rows["number"].to_pylist(), rows["modified"].cast(pa.int64()).to_pylist()
    facts = zip(numbers, rows["size"].to_pylist(), times, strict=True)
    newest = dict(zip(rows["path"].to_pylist(), facts, strict=True))  # the last of each path
    count, last_seen = max(numbers, default=-1) + 1, max(rows["seen"].cast(pa.int64()).to_pylist(), default=0)
    return FileLog(str(log_table.metadata().id), log_table.version(), count, newest, last_seen)


def read_numbered(settings: Settings, table: StreamTable, numbers: Sequence[int]) -> pa.Table:
    """Return the rows of files with these numbers, in order."""
    uri = settings.table_uri(table.files_name)
    with log_failures(uri):
        log_table = open_table(uri)
        rows = _SCHEMA.empty_table() if log_table is None else pa.table(log_table.to_pyarrow_table())
    is_wanted = pa.compute.is_in(rows["number"], pa.array(numbers, pa.int64()))
    return rows.filter(is_wanted).select(_SCHEMA.names).sort_by("number")


def number_files(
    context: TableContext, folder: str, first: int, new_files: Callable[[FileLog], Mapping[str, FileFacts]]
) -> dict[str, str]:
    """Give the next numbers to the files that are new to the log, in the order of their times, in one commit.

    Every file is read once for its hashes. One that goes away or changes meanwhile, or cannot be read, is left out.
    Returns why files cannot be read, by their paths.
    ``first`` is the next file of the table: a log that ends before it has lost files. Raises ``SourceError`` then, and
    ``ConflictError`` if another run has numbered files since the log was read.
    """
    log_table = context.stored_table(files_layout)
    ledger = log_table.ensured_ledger()
    log = read_file_log(context.settings, context.table)
    if log.count < first:
        raise SourceError(
            f"{context.table.files_name} has {log.count:,} files, but {context.table.name} has read {first:,}",
            where=context.settings.table_uri(context.table.files_name),
            action="It went back to an older version. Bring the newest one back: numbers keep their meaning.",
        )
    facts = new_files(log)
    paths = sorted(facts, key=lambda path: (facts[path].modified, path))
    with ThreadPoolExecutor(_THREADS) as pool:
        results = list(pool.map(lambda path: _hashes_of(folder, path, facts[path]), paths))
    whole = [(path, parts) for path, parts in zip(paths, results, strict=True) if isinstance(parts, list)]
    reasons = {path: reason for path, reason in zip(paths, results, strict=True) if isinstance(reason, str)}
    if not whole:
        return reasons
    columns = {
        "number": range(log.count, log.count + len(whole)),
        "path": [path for path, _ in whole],
        "size": [facts[path].size for path, _ in whole],
        "modified": [facts[path].modified for path, _ in whole],
        "seen": [log.next_time(time.time_ns() // 1_000)] * len(whole),
        "hashes": [parts for _, parts in whole],
    }
    rows = pa.table([pa.array(columns[item.name], item.type) for item in _SCHEMA], _SCHEMA)
    commit = ledger.next_commit("load", context.run)
    log_table.append(context.spark.createDataFrame(rows), commit, ExpectedRows(len(whole), rows.nbytes))
    return reasons


def _hashes_of(folder: str, path: str, facts: FileFacts) -> list[str] | str | None:
    """Return the hashes of a file, or why it cannot be read; ``None`` if it is gone, or changed since it was listed."""
    try:
        hashes = chunk_hashes(folder, path)
        return hashes if facts_of(folder, path)[:2] == facts[:2] else None
    except (FileChangedError, FileNotFoundError):
        return None
    except OSError as error:
        return error.strerror or str(error)
