"""The hashes of the stored keys, which show that all keys of a batch are new without reading the table.

A key whose hash is not stored is not stored. A hash that is stored decides nothing: the rows are then compared. The
hashes are in packs, in a folder of the table that VACUUM leaves alone. A data file without a pack may hold any key.
"""

import logging
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path
from uuid import uuid4

import numpy as np
from pyspark.sql import SparkSession

from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import file_changes, open_table
from lakehouse.ledger.table_failures import disk_failure
from lakehouse.ledger.versions import active_files
from lakehouse.settings.store import Store
from lakehouse.spark.own_session import collect_rows
from lakehouse.storage.data_files import read_files
from lakehouse.storage.eligibility import can_replace_slots
from lakehouse.storage.key_packs import SUFFIX, Files, Hashes, Key, KeyPack, open_pack, write_pack
from lakehouse.storage.layout import Layout
from lakehouse.storage.lock import table_lock

KEYS_FOLDER, _ERASURE = "_lakehouse_keys", "erasure"  # the folder of packs, and its file that names the last erasure
_READ_ROWS = 4_000_000  # rows whose keys are read at a time, or one file
_MOST_READ_ROWS = 16_000_000  # rows whose keys are read after one batch
_MOST_HASHES = 16_000_000  # in a pack that is made of others, so that it fits into memory
_INSERTING_BATCHES = 3  # batches without an update in a row, after which the next one is expected to be like them
Partitions = Collection[str] | None
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeyHashes:
    """The hashes of the keys of one table; it has none without a key, and none in an object store."""

    spark: SparkSession
    layout: Layout

    @property
    def sql(self) -> str:
        """The SQL of the hash of a key, the same for equal keys."""
        return f"xxhash64({', '.join(f'CAST(`{name}` AS {type_})' for name, type_ in self._key[1:])})"

    def are_useful(self, rows: int) -> bool:
        """Whether the hashes of a batch of at most this number of rows can show that its keys are new."""
        if not self._folder or not can_replace_slots(self.layout, rows, text=0):
            return False
        return any(self._paths()) or not self._active_files()

    def are_new(self, hashes: Hashes | None, version: int, partitions: Partitions) -> bool:
        """Whether it is certain that no row of a version in these partitions has a key with one of the hashes.

        ``None`` are unknown hashes: only a table without rows has none of them.
        """
        table = open_table(self.layout.uri) if self._folder else None
        if table is None or table.version() != version:
            return False
        files = self._active_files(partitions)
        packs, unpacked_files = self._find_packs(files)
        if unpacked_files or hashes is None:
            return not files
        sorted_hashes = np.sort(hashes)
        try:
            return not any(pack.has_any(sorted_hashes) for pack in packs)
        except OSError:  # another process has removed a pack
            return False

    def follow(self, entry: Entry, read: Callable[[], Ledger], hashes: Hashes | None, partitions: Partitions) -> None:
        """Pack the keys of a batch that was committed; after several that only inserted, also those of other files.

        ``read`` reads the ledger. What fails or is interrupted leaves files without a pack.
        """
        if not self._folder:
            return
        try:
            _, files = self._find_packs(self._active_files(partitions))
            changes = next(file_changes(self.layout.uri, entry.version), None)
            if hashes is not None and changes and not changes.removed_files:  # its files have only keys of the batch
                own_paths = {path for path, _ in changes.created_files} & files.keys()
                self._add({path: files.pop(path) for path in own_paths}, hashes, self._erasure)
            if files and only_inserted(entry) and _are_inserting(read()):
                self._read(files, _MOST_READ_ROWS)
        except Exception as error:  # the batch is committed, and needs no pack
            _log.warning("Keys of %s are not packed: %s", self.layout.name, error)

    def renew(self, ledger: Ledger) -> None:
        """Pack the keys of all files if the table has packs, and its newest batches only inserted; else remove them.

        A pack with a file that is not active any more is made again: it may have keys of rows that are gone.
        """
        if not any(self._paths()):
            return
        files = self._active_files() if _are_inserting(ledger) else {}
        self._remove({pack.path for pack in self._packs() if pack.files.items() <= files.items()})
        self._read(self._find_packs(files)[1])

    def erase(self) -> None:
        """Remove all packs, since keys were erased; a process that reads keys meanwhile packs none of them.

        Raises ``TableError`` if the disk refuses.
        """
        if not self._folder:
            return
        try:
            with table_lock(self.layout.uri, self.layout.name):
                self._folder.mkdir(exist_ok=True)
                (self._folder / _ERASURE).write_text(uuid4().hex)
                self._remove(set())
        except OSError as error:
            raise disk_failure(error, str(self._folder)) from error

    def _remove(self, kept_paths: Collection[Path]) -> None:
        """Remove all packs but these, and what a writer that was killed has left."""
        for path in self._folder.iterdir() if self._folder else ():
            if path not in kept_paths and path.name != _ERASURE and path.is_file():
                path.unlink(missing_ok=True)

    @property
    def _erasure(self) -> str:
        """The name of the last erasure; empty if there was none."""
        with suppress(FileNotFoundError):
            return (self._folder / _ERASURE).read_text() if self._folder else ""
        return ""

    @property
    def _folder(self) -> Path | None:
        folder = Store(self.layout.uri).folder
        return folder / KEYS_FOLDER if folder and self.layout.key else None

    @property
    def _key(self) -> Key:
        types = {column.name: column.type for column in self.layout.columns}
        return (("xxhash64", self.spark.version), *((name, types[name]) for name in self.layout.key))

    def _paths(self) -> Iterator[Path]:
        return self._folder.glob(f"*{SUFFIX}") if self._folder else iter(())

    def _active_files(self, partitions: Partitions = None) -> Files:
        """Return the files of the newest version that have rows, in these partitions."""
        table = open_table(self.layout.uri)
        files = active_files(table, self.layout.uri, self.layout.partition_by, partitions).to_pylist() if table else []
        return {file["path"]: (file["size"], file["rows"]) for file in files if file["rows"] != 0}

    def _packs(self) -> list[KeyPack]:
        return [pack for path in self._paths() if (pack := open_pack(path)) and pack.key == self._key]

    def _find_packs(self, files: Files) -> tuple[list[KeyPack], Files]:
        """Return the packs with keys of these files, and the files whose keys are in no pack."""
        packs = [pack for pack in self._packs() if pack.files.items() & files.items()]
        packed_files = {item for pack in packs for item in pack.files.items()}
        return packs, {path: file for path, file in files.items() if (path, file) not in packed_files}

    def _add(self, files: Files, hashes: Hashes, erasure: str) -> None:
        """Write a pack for files, with the hashes of small packs, which it replaces: so there are few packs.

        Writes none if there was an erasure after the given one.
        """
        if not files or not len(hashes) or not self._folder:
            return
        hashes, merged_paths = np.sort(hashes), []
        with table_lock(self.layout.uri, self.layout.name):
            self._folder.mkdir(exist_ok=True)
            if self._erasure != erasure:
                return
            for pack in sorted(self._packs(), key=lambda pack: pack.count):
                if pack.count > min(2 * len(hashes), _MOST_HASHES - len(hashes)):
                    break
                with suppress(OSError):
                    hashes, files = _merge(hashes, pack.read()), {**pack.files, **files}
                merged_paths.append(pack.path)
            write_pack(self._folder, self._key, files, hashes)
            for path in merged_paths:
                path.unlink(missing_ok=True)

    def _read(self, files: Files, most_rows: int = sys.maxsize) -> None:
        """Read the keys of files and pack them, few millions at a time; of more than ``most_rows``, the smallest files.

        Reads nothing if the log does not count the rows of a file.
        """
        counts = {path: rows for path, (_, rows) in files.items() if rows is not None}
        if len(counts) < len(files):
            return
        erasure, paths = self._erasure, sorted(counts, key=counts.__getitem__)
        ends = accumulate(counts[path] for path in paths)
        groups = groupby(zip(paths, ends, strict=True), lambda pair: pair[1] // _READ_ROWS)
        for number, (_, part) in enumerate(groups):
            if number * _READ_ROWS >= most_rows:
                break
            group = {path: files[path] for path, _ in part}
            count = sum(counts[path] for path in group)
            _log.info("Reading the keys of %s rows of %s", f"{count:,}", self.layout.name)
            rows = read_files(self.spark, self.layout, group)
            hashes = collect_rows(rows.selectExpr(f"{self.sql} AS hash")) if rows else None
            if hashes is not None and hashes.num_rows == count:
                self._add(group, hashes["hash"].to_numpy().view(np.uint64), erasure)


def only_inserted(entry: Entry) -> bool:
    """Whether a commit inserted all rows that it merged."""
    return entry.metrics.inserted == entry.metrics.source_rows > 0


def _are_inserting(ledger: Ledger) -> bool:
    """Whether the newest batches only inserted rows."""
    batches = [entry for entry in ledger.entries if entry.commit.kind == "batch"][:_INSERTING_BATCHES]
    return len(batches) == _INSERTING_BATCHES and all(map(only_inserted, batches))


def _merge(first: Hashes, second: Hashes) -> Hashes:
    """Return the hashes of two ascending arrays, each once; this sort needs little time for them (seen)."""
    hashes: Hashes = np.sort(np.concatenate([first, second]), kind="stable")
    return np.delete(hashes, np.flatnonzero(hashes[1:] == hashes[:-1]))
