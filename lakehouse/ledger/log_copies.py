"""Copies of the logs of tables in object stores, on the local disk: each file of a log is fetched once.

No file of a log changes after it was created, except the name of the last checkpoint. So a copy is current if the store
has no other files than it since its last checkpoint: one request shows that.
"""

import json
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, takewhile
from pathlib import Path
from uuid import uuid4

import obstore
from filelock import FileLock

from lakehouse.errors.causes import in_time
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings.store import Store, copies_folder, store_failures

LOG = "_delta_log"
_FILE = re.compile(r"(\d{20}\.(json|checkpoint.*\.(parquet|json))|_last_checkpoint|_sidecars/.+\.parquet)")
_ENTRY = re.compile(r"\d{20}\.json")
_PARTS = re.compile(r"\d{20}\.checkpoint\.\d{10}\.(\d{10})\.parquet")
_NOTES, _REPLACED = "files.json", "replaced.json"  # the files of a copy; versions of which the store had another entry
_CHANGED = "changed"  # a file that is replaced when any copy changes
_PAGE = 1_000  # names in an answer of a store
_FIRST_ENTRIES = 100  # of a log that is copied for the first time; earlier ones follow when they are read
_THREADS = 16
_gone_versions: dict[Path, int] = {}  # by copy, the newest version whose entry is known to be gone
Etags = dict[str, str]  # of the files of a log


@dataclass
class _Looks:
    """The tables whose logs were looked at, while no copy in the home changed.

    What a commit says of another table is never newer than what is known of that table: both are looked at again.
    """

    uris: set[str] = field(default_factory=set)
    state: int = 0

    def are_valid(self) -> bool:
        """Forget all looks if a copy changed since; return whether none did."""
        state = _state_of_copies()
        if state != self.state:
            self.uris.clear()
            self.state = state
            return False
        return True


def _state_of_copies() -> int:
    """A number that is another one after each change of a copy in the home."""
    with suppress(OSError):
        file = (copies_folder() / _CHANGED).stat()
        return hash((file.st_ino, file.st_ctime_ns))
    return 0


_looks: ContextVar[_Looks | None] = ContextVar("looks", default=None)


@contextmanager
def look_once() -> Iterator[None]:
    """Within the outermost block, ask the store for new entries of a log once, and again after ``look_again``.

    What is planned on an older version is refused when it is committed, so a plan may rest on one look.
    """
    if _looks.get() is not None:
        yield
        return
    token = _looks.set(_Looks())
    try:
        yield
    finally:
        _looks.reset(token)


def look_again() -> None:
    """Ask the store again when a log is read next: a table was written, or another writer was first."""
    looks = _looks.get()
    if looks is not None:
        looks.uris.clear()


def local_log(uri: str) -> Path:
    """Return the folder in which a table's log can be read: its own on a disk, or a copy of it that is now current.

    Raises ``TableError`` if the store fails or does not answer.
    """
    store, looks = Store(uri), _looks.get()
    if store.folder:
        return store.folder
    copy = _Copy(store)
    if looks is not None and looks.are_valid() and uri in looks.uris:
        return copy.folder
    with log_failures(uri):
        in_time(copy.update)
    if looks is not None and looks.are_valid():  # else this log is looked at again, too
        looks.uris.add(uri)
    return copy.folder


def copied_log(uri: str) -> Path:
    """Return the folder of ``local_log`` as it is, without a look at the store."""
    store = Store(uri)
    return store.folder or copies_folder() / store.digest


def replaced_versions(uri: str) -> list[int]:
    """Return the versions of which the store had another entry before, as far as this home saw it."""
    return [] if Store(uri).folder else _replaced_in(copied_log(uri))


def forget_replaced(uri: str, version: int) -> None:
    """Forget that an entry was replaced, after a RESTORE has undone it."""
    folder = copied_log(uri)
    with FileLock(folder / "lock"):
        versions = [number for number in _replaced_in(folder) if number != version]
        _replace(folder / _REPLACED, json.dumps(versions).encode())


def link_log(uri: str, folder: Path) -> None:
    """Give a new folder what opens the newest version of a copy; what is written there does not change the copy."""
    copy = _Copy(Store(uri))
    with FileLock(copy.folder / "lock"):
        etags = copy.read_etags()
        first = _last_checkpoint(etags)
        (folder / LOG / "_sidecars").mkdir(parents=True)
        for name in (name for name in etags if name[:20] >= first):
            file = copy.folder / LOG / name
            try:
                os.link(file, folder / LOG / name)
            except OSError:  # a disk without hard links
                shutil.copy2(file, folder / LOG / name)


def compare_copy(uri: str) -> None:
    """Compare the whole copy of a log with the store, and fetch again what is another file there."""
    store = Store(uri)
    if not store.folder:
        with log_failures(uri):
            in_time(_Copy(store).compare)


def fetch_earlier(uri: str, version: int) -> None:
    """Add entries that are earlier than a copy to it, down to a version, if that entry still exists in the store."""
    store = Store(uri)
    if not store.folder:
        with log_failures(uri):
            in_time(partial(_Copy(store).fetch_earlier, version))


def _last_checkpoint(names: Iterable[str]) -> str:
    """The version of the last checkpoint of which all files are there, in the form of names; empty if there is none."""
    counts: dict[str, list[int]] = {}
    for name in names:
        if ".checkpoint." in name:
            parts = _PARTS.fullmatch(name)
            counts.setdefault(name[:20], []).append(int(parts[1]) if parts else 1)
    return max((version for version, totals in counts.items() if len(totals) >= min(totals)), default="")


class _Copy:
    """The copy of one log, and the ETags and sizes of its files."""

    def __init__(self, store: Store) -> None:
        self.folder = copies_folder() / store.digest
        self._log = self.folder / LOG
        self._objects = store.objects()

    def update(self) -> None:
        """Fetch what is new since the last update."""
        self._synchronize(is_whole=False)

    def compare(self) -> None:
        """Compare every file with the store, too."""
        self._synchronize(is_whole=True)

    def _synchronize(self, *, is_whole: bool) -> None:
        self._log.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self.folder / "lock"), store_failures():
            etags = self.read_etags()
            checkpoint = _last_checkpoint(etags)
            # a checkpoint comes after later entries, if another writer is slow
            first = min(etags, default="")[:20] if is_whole or not checkpoint else f"{max(0, int(checkpoint) - 2):020d}"
            stored_etags = self._list(first) if etags else {}
            known_entries = [name for name in etags if _ENTRY.fullmatch(name) and name[:20] >= first]
            changed = [name for name in known_entries if stored_etags.get(name, etags[name]) != etags[name]]
            is_same_log = max(known_entries, default="") in stored_etags and len(changed) < len(known_entries)
            if etags and not is_same_log:
                (self.folder / _REPLACED).unlink(missing_ok=True)
            if not is_same_log or len(stored_etags.keys() - etags.keys()) > _PAGE:
                return self._begin(has_copy=bool(etags))
            self._note_replaced(changed)
            return self._add(etags, stored_etags)

    def _begin(self, *, has_copy: bool) -> None:
        """Copy a log for the first time, or one that is another now, such as that of a table created again."""
        stored_etags = self._list("")
        if not stored_etags and not has_copy:
            return
        last = _last_checkpoint(stored_etags)
        newest = max(filter(_ENTRY.fullmatch, stored_etags), default="")[:20] or "0"
        first = f"{max(0, int(newest) + 1 - _FIRST_ENTRIES):020d}"
        first = min(first, last) if last else ""
        names = [n for n in stored_etags if n[:20] == last or (n >= first and ".checkpoint." not in n)]
        for former_log in self.folder.glob("log-*"):  # of a process that was killed
            shutil.rmtree(former_log)
        new_log = self.folder / f"log-{uuid4().hex}"
        new_log.mkdir()
        self._fetch(names, new_log)
        shutil.rmtree(self._log)
        new_log.rename(self._log)
        _gone_versions.pop(self.folder, None)
        self._note({name: stored_etags[name] for name in names})

    def _add(self, etags: Etags, stored_etags: Etags) -> None:
        """Fetch what the store has and the copy has not; forget expired entries and earlier checkpoints."""
        new_etags = {name: etag for name, etag in stored_etags.items() if etags.get(name) != etag}
        if not new_etags:
            return
        self._fetch(new_etags, self._log)
        etags = etags | new_etags
        if any(".checkpoint." in name for name in new_etags):
            oldest, last = self._oldest_name(min(etags)[:20]), _last_checkpoint(etags)
            former_names = [name for name in etags if name < oldest or (".checkpoint." in name and name[:20] < last)]
            etags = {name: etag for name, etag in etags.items() if name not in former_names}
        self._note(etags)

    def _oldest_name(self, after: str) -> str:
        """The first name that the clean-up of the log, which follows a checkpoint, has left."""
        return min((name for name, _ in next(self._pages(after), [])), default="")

    def fetch_earlier(self, version: int) -> None:
        """Fetch the entries from a version to the oldest of the copy, as far as the store still has them."""
        with FileLock(self.folder / "lock"), store_failures():
            etags = self.read_etags()
            oldest = min(filter(_ENTRY.fullmatch, etags), default="")
            if not oldest or version >= int(oldest[:20]) or version <= _gone_versions.get(self.folder, -1):
                return
            pages = takewhile(lambda page: page and page[0][0] < oldest, self._pages(f"{version:020d}"))
            names = chain.from_iterable(pages)
            earlier = {name: etag for name, etag in names if _ENTRY.fullmatch(name) and name < oldest}
            if f"{version:020d}.json" not in earlier:
                _gone_versions[self.folder] = version
            self._fetch(earlier, self._log)
            if earlier:
                self._note(etags | earlier)

    def _note_replaced(self, names: Collection[str]) -> None:
        """Fetch entries again whose ETag changed, and note the versions of those whose bytes did, too."""
        contents = {name: (self._log / name).read_bytes() for name in names}
        self._fetch(names, self._log)
        versions = {int(name[:20]) for name in names if (self._log / name).read_bytes() != contents[name]}
        if versions:
            all_versions = sorted(versions.union(_replaced_in(self.folder)))
            _replace(self.folder / _REPLACED, json.dumps(all_versions).encode())

    def read_etags(self) -> Etags:
        """The ETags of the files of the copy; none if a file is missing, or has another size than when it was noted."""
        with suppress(OSError, ValueError, TypeError):
            notes = json.loads((self.folder / _NOTES).read_bytes())
            sizes = {entry.name: entry.stat().st_size for entry in os.scandir(self._log)}
            sidecars = {name: (self._log / name).stat().st_size for name in notes if "/" in name}
            if all((sizes | sidecars).get(name) == size for name, (_, size) in notes.items()):
                return {name: etag for name, (etag, _) in notes.items()}
        return {}

    def _note(self, etags: Etags) -> None:
        """Note the files of the copy; others are removed."""
        notes = {name: (etag, (self._log / name).stat().st_size) for name, etag in etags.items()}
        _replace(self.folder / _NOTES, json.dumps(notes).encode())
        _replace(copies_folder() / _CHANGED, b"")
        for entry in os.scandir(self._log):
            if entry.is_file() and entry.name not in notes:
                Path(entry).unlink(missing_ok=True)

    def _list(self, after: str) -> Etags:
        """List the files of the log whose names follow this one."""
        return dict(chain.from_iterable(self._pages(after)))

    def _pages(self, after: str) -> Iterator[list[tuple[str, str]]]:
        """Yield names and ETags of the log's files, one request at a time."""
        for page in obstore.list(self._objects, LOG, offset=f"{LOG}/{after}" if after else None, chunk_size=_PAGE):
            names = ((file["path"].removeprefix(f"{LOG}/"), file["e_tag"] or "") for file in page)
            yield [(name, etag) for name, etag in names if _FILE.fullmatch(name)]

    def _fetch(self, names: Iterable[str], folder: Path) -> None:
        """Fetch files in parallel; they appear in the order of versions, the name of the last checkpoint last."""
        sorted_names = sorted(names)
        with ThreadPoolExecutor(_THREADS) as threads:
            new_files = list(threads.map(partial(self._fetch_one, folder), sorted_names))
        for name, new_file in zip(sorted_names, new_files, strict=True):
            new_file.replace(folder / name)

    def _fetch_one(self, folder: Path, name: str) -> Path:
        """Fetch a listed file under another name. Raises ``OSError`` if it is gone."""
        content = obstore.get(self._objects, f"{LOG}/{name}")
        file = folder / f"{name}.{uuid4().hex}"
        file.parent.mkdir(exist_ok=True)
        _write(file, bytes(content.bytes()))
        modified_at = content.meta["last_modified"].timestamp()
        os.utime(file, (modified_at, modified_at))
        return file


def _replaced_in(folder: Path) -> list[int]:
    with suppress(OSError, ValueError):
        return list(json.loads((folder / _REPLACED).read_bytes()))
    return []


def _replace(file: Path, content: bytes) -> None:
    """Write a file that a reader sees as a whole or not at all."""
    new_file = file.with_name(f"{file.name}.{uuid4().hex}")
    _write(new_file, content)
    new_file.replace(file)


def _write(file: Path, content: bytes) -> None:
    """Write a file to the disk: after a power cut, what names it must not be all that is left."""
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
