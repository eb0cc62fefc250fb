"""The files in a folder, as they are now: their sizes and times, without their contents."""

import logging
import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

from lakehouse.declaration.files import Files
from lakehouse.decoding.fields import is_text
from lakehouse.errors import SourceError
from lakehouse.settings import Settings
from lakehouse.settings.store import Store

_IGNORED = (".", "_")
_MICROSECOND = 1_000  # nanoseconds
Place = tuple[int, int]
"""The device and the number of a folder on it."""
_log = logging.getLogger(__name__)


class FileFacts(NamedTuple):
    """Size in bytes, and the times of the last change of the contents, and of anything, in microseconds since 1970."""

    size: int
    modified: int
    changed: int


def folder_of(settings: Settings, files: Files) -> str:
    """Return the path or URI of the declared folder."""
    if not Store(files.folder).is_path or Path(files.folder).is_absolute():
        return files.folder.rstrip("/")
    root = settings.files_root
    root = str(Path(root).resolve()) if Store(root).is_path else root
    return f"{root.rstrip('/')}/{files.folder.strip('/')}"


def list_files(folder: str, files: Files) -> dict[str, FileFacts]:
    """Return the facts of each file that is declared, by its path within the folder.

    Raises ``SourceError`` if the folder does not exist or cannot be read. Left out is what is not a regular file, has a
    name that is not UTF-8, or goes away meanwhile.
    """
    try:
        if not Store(folder).is_path:
            return {path: facts for path, facts in _list_store(folder) if _is_declared(path, files)}
        root = Path(folder).stat()
        return dict(_list_folder(folder, "", files, frozenset({(root.st_dev, root.st_ino)})))
    except OSError as error:
        raise SourceError(
            f"The folder of files cannot be read: {error.strerror or error}",
            where=folder,
            action="Create the folder, or correct folder= in the declaration or LAKEHOUSE_FILES.",
        ) from None


def _is_declared(path: str, files: Files) -> bool:
    *folders, name = path.split("/")
    return not any(part.startswith(_IGNORED) for part in (*folders, name)) and fnmatchcase(name, files.names)


def _list_folder(folder: str, prefix: str, files: Files, above: frozenset[Place]) -> Iterator[tuple[str, FileFacts]]:
    """Yield the regular files of a folder; ``above`` are the folders around it, so that no link leads in a circle."""
    with os.scandir(f"{folder}/{prefix}") as entries:
        for entry in entries:
            if entry.name.startswith(_IGNORED) or not is_text(entry.name):
                continue
            try:
                stat = entry.stat()
            except OSError:
                continue
            place = (stat.st_dev, stat.st_ino)
            if S_ISDIR(stat.st_mode) and place not in above:
                try:
                    yield from _list_folder(folder, f"{prefix}{entry.name}/", files, above | {place})
                except PermissionError:
                    _log.warning("Folder %s%s cannot be read, and is left out", prefix, entry.name)
            elif S_ISREG(stat.st_mode) and fnmatchcase(entry.name, files.names):
                times = (stat.st_mtime_ns // _MICROSECOND, stat.st_ctime_ns // _MICROSECOND)
                yield f"{prefix}{entry.name}", FileFacts(stat.st_size, *times)


def _list_store(folder: str) -> Iterator[tuple[str, FileFacts]]:
    from pyarrow.fs import FileSelector, FileSystem, FileType  # noqa: PLC0415 - only files in a store need it

    file_system, root = FileSystem.from_uri(folder)
    for info in file_system.get_file_info(FileSelector(root, recursive=True)):
        if info.type == FileType.File:
            modified = (info.mtime_ns or 0) // _MICROSECOND
            yield info.path.removeprefix(root).lstrip("/"), FileFacts(info.size, modified, modified)
