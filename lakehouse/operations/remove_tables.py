"""Removes the tables of a declaration: rows, rejected records, feed, rollups, what else it stores, and its exports."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from os.path import realpath
from pathlib import Path
from uuid import uuid4

from lakehouse.declaration import Export, StreamTable, TableRows, View
from lakehouse.declaration.sink import Outlet
from lakehouse.declaration.view import find_inputs
from lakehouse.errors import LakehouseError
from lakehouse.exports.manifests import read_newest, remove_export
from lakehouse.exports.progress import folder_of
from lakehouse.ledger.table_failures import disk_failure
from lakehouse.ledger.versions import count_rows
from lakehouse.operations.planned_changes import layouts_of
from lakehouse.settings import Settings
from lakehouse.settings.store import Store
from lakehouse.storage.lock import table_lock
from lakehouse.storage.table_context import FORMER, REBUILT

_TRASH = ".removed"  # next to the tables: folders whose files are being deleted
_OF_REBUILDS = (FORMER, REBUILT)


@dataclass(frozen=True)
class StoredPart:
    """A table with its folder, or an export with its; ``rows`` is ``None`` if they cannot be counted."""

    name: str
    path: Path
    rows: int | None
    bytes: int
    is_export: bool = False


def find_stored_parts(settings: Settings, table: StreamTable, outlets: Iterable[Outlet]) -> list[StoredPart]:
    """Return what is stored of a declaration, the merged table first; ``outlets`` are those of its tables.

    Includes a table that cannot be opened, and what an earlier removal did not finish to delete. An export counts if it
    has published a version. Raises ``LakehouseError`` if a table is in an object store, or a link.
    """
    paths = [(layout.name, _folder_of_table(layout.name, layout.uri)) for layout in layouts_of(settings, table)]
    places = [(name, path) for name, path in paths if path.exists()]
    places += [(name, left) for name, path in paths for left in (path.parent / _TRASH).glob(f"{name}-*")]
    root = _folder_of_table(table.name, settings.table_uri(table.name)).parent
    hidden_folders = [root / folder / table.name for folder in _OF_REBUILDS]
    places += [(f"{path.parent.name[1:]} {path.name}", path) for path in hidden_folders if path.exists()]
    parts = [StoredPart(name, path, _count_rows(path), sum(_sizes(path))) for name, path in places]
    for export in (outlet for outlet in outlets if isinstance(outlet, Export)):
        newest = read_newest(folder_of(settings, export))
        if newest and newest.export == export.name:
            size = sum(file.bytes for file in newest.files)
            parts.append(StoredPart(export.name, folder_of(settings, export), newest.rows, size, is_export=True))
    return parts


def _folder_of_table(name: str, uri: str) -> Path:
    folder = Store(uri).folder
    if folder is None:
        message, action = f"{name} is in an object store", "Delete its objects there, with the tool of the store."
        raise LakehouseError(message, where=uri, action=action)
    if folder.is_symlink():
        message, action = f"The folder of {name} is a link", "Delete it and what it points to, then run this again."
        raise LakehouseError(message, where=f"{folder} to {realpath(folder)}", action=action)
    return folder


def require_no_reader(
    settings: Settings, table: StreamTable, tables: Sequence[StreamTable], views: Sequence[View]
) -> None:
    """Raise ``LakehouseError`` if another table, or a view, reads one of the tables of a declaration."""
    places = {layout.name: _place_of(layout.uri) for layout in layouts_of(settings, table)}
    readers = [*_find_readers({*places, *places.values()}, table, tables)]
    readers += [f"view {view.name}" for view in views if {*places} & {*find_inputs(view, views).tables}]
    if readers:
        raise LakehouseError(
            f"{table.name} is read by {', '.join(readers)}",
            where=settings.tables_root,
            action="Remove what reads it first, and its declaration.",
        )


def _find_readers(names: set[str], table: StreamTable, tables: Iterable[StreamTable]) -> Iterator[str]:
    for reader in (reader for reader in tables if reader.name != table.name):
        source = reader.source
        if isinstance(source, TableRows) and {source.of, _place_of(source.of)} & names:
            yield f"table {reader.name}"


def _place_of(uri: str) -> str:
    folder = Store(uri).folder
    return realpath(folder) if folder else uri


def remove_parts(parts: Sequence[StoredPart]) -> None:
    """Delete exports and move all tables away while no other writer holds a lock of them, then delete their files.

    A table is there or not, also if this is killed; a second run deletes the rest. Raises ``LockedError`` if another
    writer holds the lock of a table: nothing is removed then. Raises ``TableError`` if the disk refuses.
    """
    tables = [part for part in parts if not part.is_export]
    try:
        with ExitStack() as locks:
            for part in (part for part in tables if part.path.parent.name not in (_TRASH, *_OF_REBUILDS)):
                locks.enter_context(table_lock(str(part.path), part.name))
            for part in (part for part in parts if part.is_export):
                remove_export(part.path, part.name)
            trash_folders = [_move_away(part) for part in tables]
        for folder in trash_folders:
            shutil.rmtree(folder)
            with suppress(OSError):  # it has other folders
                folder.parent.rmdir()
    except OSError as error:
        raise disk_failure(error, str(error.filename)) from error


def _move_away(part: StoredPart) -> Path:
    """Move a folder to those that are deleted; return its new place, also if another removal has moved it."""
    if part.path.parent.name == _TRASH:
        return part.path
    place = part.path.parent / _TRASH / f"{part.name}-{uuid4().hex[:8]}"
    place.mkdir(parents=True)
    with suppress(FileNotFoundError):
        part.path.rename(place)
    return place


def _count_rows(path: Path) -> int | None:
    try:
        return count_rows(str(path))
    except LakehouseError:
        return None


def _sizes(path: Path) -> Iterator[int]:
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):
            yield file.lstat().st_size
