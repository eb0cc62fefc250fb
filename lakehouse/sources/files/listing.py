"""The files in a folder, as they are now: their sizes and times, without their contents."""

import errno
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase, translate
from heapq import heappop, heappush
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

from lakehouse.declaration.sources import Files
from lakehouse.decoding.fields import is_text
from lakehouse.decoding.files.contents import connect_to_store
from lakehouse.decoding.files.reader import FileForm
from lakehouse.errors import SourceError, SourceUnreachableError
from lakehouse.errors.troubles import Trouble, has_trouble
from lakehouse.ledger.positions import FILE_PLACES
from lakehouse.settings import Settings
from lakehouse.settings.store import Store

_IGNORED = (".", "_")
_MICROSECOND = 1_000  # nanoseconds
Place = tuple[int, int]
"""The device and the number of a folder on it."""
LOST = (os.strerror(errno.ENOENT), os.strerror(errno.ELOOP))
"""Why a file that was removed, and a link to nothing, cannot be read."""
_HIDING = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
_NOT_TEXT = "its name is not UTF-8"
_NO_SUCH_TIME = "its time is outside of the years 1 to 9999"
_TIMES = range(-62_135_596_800_000_000, 253_402_300_800_000_000)  # microseconds since 1970 of these years


class FileFacts(NamedTuple):
    """Size in bytes, and the times of the last change of the contents, and of anything, in microseconds since 1970."""

    size: int
    modified: int
    changed: int


class Listing(NamedTuple):
    """The facts of each declared file, by its path within the folder; and why files and folders were left out."""

    facts: Mapping[str, FileFacts]
    left_out: Mapping[str, str] = {}


def folder_of(settings: Settings, files: Files) -> str:
    """Return the path or URI of the declared folder."""
    if not Store(files.folder).is_relative:
        return files.folder.rstrip("/")
    return f"{Store(settings.files_root).absolute.rstrip('/')}/{files.folder.strip('/')}"


def form_of(files: Files, encoding: str) -> FileForm:
    """Return how such files become records; ``encoding`` is that of their lines."""
    options = (files.each, files.header, files.quoted_line_breaks, FILE_PLACES, encoding)
    return FileForm(*options, files.title_lines, files.total_lines)


def list_files(folder: str, files: Files) -> Listing:
    """List the files that are declared, in all folders within the folder.

    Raises ``SourceUnreachableError`` if its store does not respond, and ``SourceError`` if the folder does not exist or
    cannot be read. Not listed is what is not a regular file, a link that leads in a circle, and what goes away
    meanwhile.
    """
    try:
        if Store(folder).is_address:
            return Listing({path: facts for path, facts in _list_store(folder) if _is_declared(path, files)})
        root = Path(folder).stat()
        walk = _Walk(folder, re.compile(translate(files.names)))
        walk.enter_all((root.st_dev, root.st_ino))
        return Listing(walk.facts, walk.left_out)
    except OSError as error:
        raise _listing_error(folder, error) from None


def _listing_error(folder: str, error: OSError) -> SourceError:
    fact = f"The folder of files cannot be read: {error.strerror or error}"
    store_advice = "Check that the store answers, and its credentials." if Store(folder).is_address else ""
    if has_trouble(error, Trouble.UNREACHABLE):
        return SourceUnreachableError(fact, where=folder, action=store_advice or "Check the network and its server.")
    advice = "Create the folder, or correct folder= in the declaration or LAKEHOUSE_FILES."
    return SourceError(fact, where=folder, action=f"{advice} {store_advice}".rstrip())


def _is_declared(path: str, files: Files) -> bool:
    *folders, name = path.split("/")
    return not any(part.startswith(_IGNORED) for part in (*folders, name)) and fnmatchcase(name, files.names)


@dataclass
class _Walk:
    """A walk through a folder on a disk, which collects what a ``Listing`` has."""

    folder: str
    names: re.Pattern[str]
    facts: dict[str, FileFacts] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    _folders: list[tuple[str, Place]] = field(default_factory=list)
    _linked_folders: list[tuple[int, str, Place]] = field(default_factory=list)  # a heap, by depth and path
    _places: set[Place] = field(default_factory=set)

    def enter_all(self, root: Place) -> None:
        """Collect what is in the folder and in those within it, one after the other: they may be nested deeply.

        Each folder is entered once, also if several links lead to it: by its own path, or by the first of the links.
        """
        self._places.add(root)
        self._enter("")
        while self._folders or self._linked_folders:
            path, place = self._folders.pop() if self._folders else heappop(self._linked_folders)[1:]
            if place in self._places:
                continue
            self._places.add(place)
            try:
                self._enter(f"{path}/")
            except FileNotFoundError:
                continue  # the folder has gone away meanwhile
            except OSError as error:
                if error.errno not in _HIDING:
                    raise
                self.left_out[path] = str(error.strerror)

    def _enter(self, prefix: str) -> None:
        with os.scandir(f"{self.folder}/{prefix}") as entries:
            for entry in entries:
                if not entry.name.startswith(_IGNORED):
                    self._look_at(entry, prefix)

    def _await_folder(self, path: str, place: Place, *, is_link: bool) -> None:
        if is_link:
            heappush(self._linked_folders, (path.count("/"), path, place))
        else:
            self._folders.append((path, place))

    def _look_at(self, entry: "os.DirEntry[str]", prefix: str) -> None:
        path, is_declared = f"{prefix}{entry.name}", self.names.match(entry.name) is not None
        if not is_declared and entry.is_file(follow_symlinks=False):
            return
        try:
            stat = entry.stat()
        except OSError as error:
            is_lost = error.strerror in LOST
            if not is_lost or (is_declared and entry.is_symlink()):
                self.left_out[path] = str(error.strerror)
            return
        is_folder, place = S_ISDIR(stat.st_mode), (stat.st_dev, stat.st_ino)
        if not is_folder and not (is_declared and S_ISREG(stat.st_mode)):
            return
        if not is_text(entry.name):
            self.left_out[path] = _NOT_TEXT
        elif is_folder:
            self._await_folder(path, place, is_link=entry.is_symlink())
        elif stat.st_mtime_ns // _MICROSECOND not in _TIMES:
            self.left_out[path] = _NO_SUCH_TIME
        else:
            self.facts[path] = _facts_in(stat)


def _facts_in(stat: os.stat_result) -> FileFacts:
    return FileFacts(stat.st_size, stat.st_mtime_ns // _MICROSECOND, stat.st_ctime_ns // _MICROSECOND)


def facts_of(folder: str, path: str) -> FileFacts:
    """Return the facts of one file as they are now; raises ``OSError`` if it is gone or cannot be seen."""
    if not Store(folder).is_address:
        return _facts_in(os.stat(f"{folder}/{path}"))  # noqa: PTH116 - takes half the time
    file_system, root = connect_to_store(folder)
    (info,) = file_system.get_file_info([f"{root}/{path}"])
    modified = (info.mtime_ns or 0) // _MICROSECOND
    return FileFacts(info.size or 0, modified, modified)


def _list_store(folder: str) -> Iterator[tuple[str, FileFacts]]:
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415 - only files in a store need it

    file_system, root = connect_to_store(folder)
    for info in file_system.get_file_info(FileSelector(root, recursive=True)):
        if info.type == FileType.File:
            modified = (info.mtime_ns or 0) // _MICROSECOND
            yield info.path.removeprefix(root).lstrip("/"), FileFacts(info.size, modified, modified)
