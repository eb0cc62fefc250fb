"""The files in a folder, as they are now: their sizes and times, without their contents."""

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from lakehouse.declaration.files import Files
from lakehouse.errors import SourceError
from lakehouse.settings import Settings
from lakehouse.settings.store import Store

_IGNORED = (".", "_")
_MICROSECOND = 1_000  # nanoseconds


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

    Raises ``SourceError`` if the folder does not exist or cannot be read. A file that goes away meanwhile is left out.
    """
    try:
        if not Store(folder).is_path:
            return {path: facts for path, facts in _list_store(folder) if _is_declared(path, files)}
        return dict(_list_folder(folder, "", files))
    except OSError as error:
        raise SourceError(
            f"The folder of files cannot be read: {error.strerror or error}",
            where=folder,
            action="Create the folder, or correct folder= in the declaration or LAKEHOUSE_FILES.",
        ) from None


def _is_declared(path: str, files: Files) -> bool:
    *folders, name = path.split("/")
    return not any(part.startswith(_IGNORED) for part in (*folders, name)) and fnmatchcase(name, files.names)


def _list_folder(folder: str, prefix: str, files: Files) -> Iterator[tuple[str, FileFacts]]:
    with os.scandir(f"{folder}/{prefix}") as entries:
        for entry in entries:
            if entry.name.startswith(_IGNORED):
                continue
            if entry.is_dir():
                yield from _list_folder(folder, f"{prefix}{entry.name}/", files)
            elif fnmatchcase(entry.name, files.names):
                try:
                    stat = entry.stat()
                except FileNotFoundError:
                    continue
                times = (stat.st_mtime_ns // _MICROSECOND, stat.st_ctime_ns // _MICROSECOND)
                yield f"{prefix}{entry.name}", FileFacts(stat.st_size, *times)


def _list_store(folder: str) -> Iterator[tuple[str, FileFacts]]:
    from pyarrow.fs import FileSelector, FileSystem, FileType  # noqa: PLC0415 - only files in a store need it

    file_system, root = FileSystem.from_uri(folder)
    for info in file_system.get_file_info(FileSelector(root, recursive=True)):
        if info.type == FileType.File:
            modified = (info.mtime_ns or 0) // _MICROSECOND
            yield info.path.removeprefix(root).lstrip("/"), FileFacts(info.size, modified, modified)
