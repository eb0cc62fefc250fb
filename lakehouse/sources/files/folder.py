"""What a folder holds compared with the log of its files: each file that was ever seen, with its number.

A file whose size, time or contents changed has another number. The log says which bytes a number means, so that a
position always has the same record.
"""

import errno
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from lakehouse.declaration import StreamTable
from lakehouse.declaration.sources import Files
from lakehouse.decoding.files.contents import chunk_hashes
from lakehouse.decoding.files.lines import FileChangedError
from lakehouse.errors import SourceError
from lakehouse.ledger.ledger import ledger_of
from lakehouse.ledger.log import open_rows
from lakehouse.ledger.log_files import LogCache
from lakehouse.ledger.positions import FILE_PLACES, HeldPart, Positions, Range, SourceId, SourceState, first_of
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings
from lakehouse.sources.files.listing import LOST, FileFacts, Listing, facts_of
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
_PARTITION = 0
_NOT_READABLE = os.strerror(errno.EACCES)


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
    return Layout(
        table.files_name,
        settings.table_uri(table.files_name),
        f"Files from which records of {table.name} were read: one row per file and contents.",
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
        log_table = open_rows(uri)
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
        log_table = open_rows(uri)
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


@dataclass(frozen=True)
class FolderState(SourceState):
    """The state of a folder: ``sizes`` has the bytes of each file that can be read, by number.

    ``removed`` are the files that went away before they were read, by number.
    """

    sizes: Mapping[int, int] = field(default_factory=dict)
    batch_bytes: int = 0
    removed: Mapping[int, str] = field(default_factory=dict)

    def divide(self, starts: Positions, lags: Positions, limit: int | None, turn: int = 0) -> dict[int, int]:  # noqa: ARG002
        """Return the positions of the next files: at most ``limit``, with ``batch_bytes`` together, at least one."""
        start, end = starts[_PARTITION], starts[_PARTITION] + lags[_PARTITION]
        total = count = 0
        for number in range(start // FILE_PLACES, -(-end // FILE_PLACES)):
            total += self.sizes.get(number, 0)
            count += number in self.sizes
            if count > 1 and (total > self.batch_bytes or (limit is not None and count > limit)):
                return {_PARTITION: number * FILE_PLACES - start}
        return {_PARTITION: end - start}

    def describe_lost(self, part: Range) -> str:
        """Return the sentence that files were removed before they were merged, with the first of their paths."""
        numbers = range(part.start // FILE_PLACES, part.end // FILE_PLACES)
        paths = [self.removed[number] for number in numbers if number in self.removed]
        noun = "file was" if len(paths) == 1 else "files were"
        return f"{len(paths):,} {noun} removed before being merged: {', '.join(first_of(paths, 'files'))}"


def _is_numbered(newest: tuple[int, int, int] | None, fact: FileFacts, suspects: Collection[int]) -> bool:
    return newest is not None and newest[1:] == (fact.size, fact.modified) and newest[0] not in suspects


@dataclass(frozen=True)
class Folder:
    """A folder at one time: the declaration, the log of its files, its ``listing``, ``suspects``, and its ``root``.

    ``suspects`` are the numbers of files whose bytes were not those that were numbered when they were read.
    """

    files: Files
    log: FileLog
    listing: Listing
    suspects: Collection[int] = ()
    root: str = ""

    @cached_property
    def unnumbered(self) -> dict[str, FileFacts]:
        """The files without a number that have settled; a file whose contents changed is a new one."""
        return {path: self.listing.facts[path] for path, can_read in self._settled_files.items() if can_read}

    @property
    def left_out(self) -> dict[str, str]:
        """Why files without a number, and folders, cannot be read; by their paths within the folder."""
        reasons = {path: _NOT_READABLE for path, can_read in self._settled_files.items() if not can_read}
        return {**self.listing.left_out, **reasons}

    @cached_property
    def _new_files(self) -> list[tuple[str, FileFacts]]:
        newest, facts = self.log.newest, self.listing.facts
        return [item for item in facts.items() if not _is_numbered(newest.get(item[0]), item[1], self.suspects)]

    @cached_property
    def _settled_files(self) -> dict[str, bool]:
        """Whether each file without a number that has settled can be read."""
        return {path: self._can_read(path) for path, fact in self._new_files if self._has_settled(fact)}

    def _can_read(self, path: str) -> bool:
        """Whether this process may read a file on a disk; a store says so only when it is read."""
        return not Path(self.root).is_absolute() or os.access(f"{self.root}/{path}", os.R_OK, effective_ids=True)

    def _has_settled(self, fact: FileFacts) -> bool:
        settle = self.files.settle.total_seconds() * 1_000_000
        return not settle or time.time_ns() // 1_000 - fact.changed >= settle

    def state(self, first: int | None, *, is_new: bool, looks_ahead: bool = False) -> FolderState:
        """Return the state of the folder for a table whose next file is ``first``; ``None`` if no loss matters.

        The end is before the first file that was removed, or whose contents changed and have no number yet: the files
        after it wait until the loss is accepted, or the contents have settled. A file is passed over only if a later
        number has its contents. With ``looks_ahead``, files without a number count as if they had one. A table that
        ``is_new`` starts at the first file that ever had a number, so that a removed one is a loss.

        Raises ``SourceError`` if it cannot be known whether a file was removed.
        """
        facts = self.listing.facts
        sizes, removed, pending = dict[int, int](), dict[int, str](), dict[int, str]()
        for path, newest in self.log.newest.items():
            if path in facts and _is_numbered(newest, facts[path], self.suspects):
                sizes[newest[0]] = newest[1]
            elif first is not None and newest[0] >= first and not (looks_ahead and path in self.unnumbered):
                (pending if path in facts else removed)[newest[0]] = path
        self._require_visible(removed)
        if looks_ahead:
            sizes |= dict(enumerate((fact.size for fact in self.unnumbered.values()), start=self.log.count))
        count = max(self.log.count, max(sizes, default=-1) + 1)
        earliest, end = _bounds(sizes, removed, pending, first, count)
        return FolderState(
            self.files.folder,
            self.log.source,
            {_PARTITION: 0 if is_new else earliest * FILE_PLACES},
            {_PARTITION: (0 if is_new and earliest else end) * FILE_PLACES},
            starts={_PARTITION: 0} if is_new else {},
            held_parts=tuple(self._held_parts(end, removed | pending)),
            sizes=sizes,
            batch_bytes=self.files.batch_bytes,
            removed=removed,
        )

    def _held_parts(self, end: int, blocking: Mapping[int, str]) -> Iterator[HeldPart]:
        """Yield the files and folders that cannot be read, those that have not settled, and those that wait for them.

        ``blocking`` are the files, by number, that hold back the files after them; the first of them ends at ``end``.
        """
        yield from (HeldPart(path, reason, passes=False) for path, reason in sorted(self.left_out.items()))
        seconds = self.files.settle.total_seconds()
        for path, fact in self._new_files:
            if not self._has_settled(fact):
                yield HeldPart(path, f"not unchanged for {seconds:g} seconds yet")
        if end in blocking:
            new_paths = {path for path, _ in self._new_files}
            later_paths = [path for path, (number, *_) in self.log.newest.items() if number > end]
            readable_paths = [path for path in later_paths if path in self.listing.facts and path not in new_paths]
            for path in (*readable_paths, *self.unnumbered):
                yield HeldPart(path, f"waits for {blocking[end]}")

    def _require_visible(self, removed: Mapping[int, str]) -> None:
        """Raise ``SourceError`` if a file that seems to be removed is in a folder, or has a link, that is left out."""
        for path in removed.values() if self.listing.left_out else ():
            parts = path.split("/")
            for hiding_path in ("/".join(parts[:count]) for count in range(1, len(parts) + 1)):
                reason = self.listing.left_out.get(hiding_path)
                if reason and reason not in LOST:
                    raise SourceError(
                        f"{hiding_path} cannot be read, and {path} has a number and was not merged: {reason}",
                        where=self.root,
                        action="Nothing is lost. Make it readable for the user who runs Spark, then run it again.",
                    )


def _bounds(
    readable: Collection[int], removed: Collection[int], pending: Collection[int], first: int | None, count: int
) -> tuple[int, int]:
    """Return the first number that can be read, and the number before which the next batches end.

    If the file to read next was removed, the first number is after it: what is before is lost.
    """
    oldest = min(readable, default=count)
    if first is None:
        return oldest, count
    following = sorted(number for number in {*readable, *removed, *pending} if number >= first)
    while following and following[0] in removed:
        following.pop(0)
        oldest = first = following[0] if following else count
    end = next((number for number in following if number not in readable), count)
    return min(oldest, first), first if following and following[0] == end else end
