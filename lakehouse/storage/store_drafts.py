"""A commit of deltalake into a table in an object store: drafted in a local folder, then published.

deltalake asks a store for each entry since the last checkpoint, and for its files several times. In a folder with a
copy of the log and of the files that the commit reads, it asks for nothing. Then the new files are uploaded, and at
last the log entry, which the store creates only if the version is free.
"""

import fcntl
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote
from uuid import uuid4

import obstore
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from obstore.exceptions import AlreadyExistsError

from lakehouse.errors.causes import in_time
from lakehouse.ledger.log_copies import LOG, link_log, local_log
from lakehouse.ledger.vectors import vector_path
from lakehouse.ledger.versions import active_files
from lakehouse.settings.store import Store, copies_folder, store_failures
from lakehouse.storage.layout import Layout

_DRAFT, _LOCK = "draft-", "draft.lock"
_THREADS = 16
ReadFiles = Callable[[DeltaTable], Collection[str]]
"""Returns the paths, as in the log, of the files that a commit reads."""


def no_files(_: DeltaTable) -> list[str]:
    """A commit that only appends reads none."""
    return []


def files_in(layout: Layout, partitions: Collection[str] | None = None) -> ReadFiles:
    """A merge reads the files in some partitions, or in all."""

    def list_paths(table: DeltaTable) -> list[str]:
        paths: list[str] = active_files(table, layout.uri, layout.partition_by, partitions)["path"].to_pylist()
        return paths

    return list_paths


@contextmanager
def draft_table(uri: str, version: int, read_files: ReadFiles, checkpoints: int) -> Iterator[DeltaTable]:
    """Open a table at a version for one commit of the block, which is published at its end.

    Each ``checkpoints``-th version gets a checkpoint. A killed process leaves files that no version names, as any
    writer does. Raises ``CommitFailedError`` if the table has another version, before or after the block, and
    ``OSError`` if the store fails.
    """
    remove_left_drafts()
    with _new_folder(local_log(uri)) as folder:
        link_log(uri, folder)
        table = DeltaTable(folder)
        if table.version() != version:
            raise CommitFailedError(f"It is no longer at version {version}")
        draft = _Draft(Store(uri), folder)
        draft.transfer(draft.download, read_files(table))
        yield table
        if draft.publish(version + 1) and (version + 1) % checkpoints == 0:
            draft.add_checkpoint(version + 1)


@contextmanager
def _new_folder(copy: Path) -> Iterator[Path]:
    """Provide the folder of a draft, which is removed at the end; a lock shows that its process lives."""
    new_folder, folder = (copy / f"{prefix}{uuid4().hex}" for prefix in ("new-", _DRAFT))
    new_folder.mkdir()
    with (new_folder / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new_folder.rename(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_left_drafts() -> None:
    """Remove the drafts of processes that were killed, of any table: they have rows of people."""
    for folder in copies_folder().glob(f"*/{_DRAFT}*"):
        with suppress(OSError), (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)


class _Draft:
    """The folder of a draft, and the objects of its table."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.folder, self._objects = folder, store.objects()

    def transfer(self, transfer_one: Callable[[str], object], paths: Iterable[str]) -> None:
        """Download or upload files at once; a signal interrupts the wait."""

        def transfer_all() -> None:
            with store_failures(), ThreadPoolExecutor(_THREADS) as threads:
                list(threads.map(transfer_one, paths))

        in_time(transfer_all)

    def download(self, path: str) -> None:
        file = self.folder / unquote(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(obstore.get(self._objects, unquote(path)).bytes())

    def upload(self, path: str) -> None:
        obstore.put(self._objects, unquote(path), self.folder / unquote(path))

    def publish(self, version: int) -> bool:
        """Upload what a commit wrote, its entry last; return whether there is a commit."""
        entry = self.folder / LOG / f"{version:020d}.json"
        if not entry.exists():
            return False
        actions = [json.loads(line) for line in entry.read_bytes().splitlines()]
        named_files = [file for action in actions if (file := action.get("add") or action.get("cdc"))]
        vectors = {file["path"]: vector_path(file.get("deletionVector") or {}) for file in named_files}
        # the store has the file of a vector; a missing file ends the upload
        self.transfer(self.upload, {path or file for file, path in vectors.items()})
        self.transfer(self._create_entry, [entry.name])
        return True

    def _create_entry(self, name: str) -> None:
        """Create an entry; if there is one, it is this one if the answer to an earlier request was lost."""
        content = (self.folder / LOG / name).read_bytes()
        try:
            obstore.put(self._objects, f"{LOG}/{name}", content, mode="create")
        except AlreadyExistsError as error:
            if bytes(obstore.get(self._objects, f"{LOG}/{name}").bytes()) != content:
                raise CommitFailedError(f"Another writer made {name}") from error

    def add_checkpoint(self, version: int) -> None:
        """Upload a checkpoint, or none if that fails: the commit is valid without it."""
        with suppress(Exception):
            DeltaTable(self.folder).create_checkpoint()
            checkpoints = (self.folder / LOG).glob(f"{version:020d}.checkpoint*.parquet")
            for file in (*sorted(checkpoints), self.folder / LOG / "_last_checkpoint"):
                self.transfer(self.upload, [f"{LOG}/{file.name}"])
