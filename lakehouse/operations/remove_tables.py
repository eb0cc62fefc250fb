"""Removes the tables of a declaration: rows, rejected records, feed, rollups, what else it stores, and its exports."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from lakehouse.declaration import Export, StreamTable, TableRows, View
from lakehouse.declaration.view import find_inputs
from lakehouse.errors import LakehouseError
from lakehouse.exports.progress import folder_of
from lakehouse.ledger.table_failures import disk_failure
from lakehouse.ledger.versions import count_rows
from lakehouse.operations.planned_changes import layouts_of
from lakehouse.settings import Settings
from lakehouse.storage.lock import table_lock

_TRASH = ".removed"  # beside the tables, and beside the exports: folders whose files are being deleted


@dataclass(frozen=True)
class TableFolder:
    """The folder of a table, or of an export; ``rows`` is ``None`` if it has none, or if they cannot be counted."""

    name: str
    path: Path
    rows: int | None

    @property
    def bytes(self) -> int:
        """The size of all its files."""
        return sum(file.lstat().st_size for file in self.path.rglob("*") if file.is_file())


def find_folders(settings: Settings, table: StreamTable, exports: Iterable[Export]) -> list[TableFolder]:
    """Return what is stored of a declaration, the merged table first; ``exports`` are those of its tables.

    Includes a table that cannot be opened, and what an earlier removal did not finish to delete. Raises
    ``LakehouseError`` if the tables are not on a local disk.
    """
    if not settings.store.is_path:
        names = ", ".join(layout.name for layout in layouts_of(settings, table))
        action = f"Delete the objects of these tables there: {names}."
        message = "Tables in an object store cannot be removed by lakehouse"
        raise LakehouseError(message, where=settings.tables_root, action=action)
    paths = {layout.name: Path(layout.uri) for layout in layouts_of(settings, table)}
    folders = [TableFolder(name, path, _count_rows(path)) for name, path in paths.items() if path.exists()]
    export_paths = {export.name: folder_of(settings, export) for export in exports}
    folders += [TableFolder(name, path, None) for name, path in export_paths.items() if path.exists()]
    for name, path in (*paths.items(), *export_paths.items()):
        folders += [TableFolder(name, remainder, None) for remainder in (path.parent / _TRASH).glob(f"{name}-*")]
    return folders


def require_no_reader(
    settings: Settings, table: StreamTable, tables: Sequence[StreamTable], views: Sequence[View]
) -> None:
    """Raise ``LakehouseError`` if another table, or a view, reads one of the tables of a declaration."""
    names = {layout.name for layout in layouts_of(settings, table)}
    readers = [*_find_readers(names | {settings.table_uri(name) for name in names}, table, tables)]
    readers += [f"view {view.name}" for view in views if names & {*find_inputs(view, views).tables}]
    if readers:
        raise LakehouseError(
            f"{table.name} is read by {', '.join(readers)}",
            where=settings.tables_root,
            action="Remove what reads it first, and its declaration.",
        )


def _find_readers(names: set[str], table: StreamTable, tables: Iterable[StreamTable]) -> Iterator[str]:
    for reader in tables:
        if reader.name != table.name and isinstance(reader.source, TableRows) and reader.source.of in names:
            yield f"table {reader.name}"


def remove_folders(folders: Sequence[TableFolder]) -> None:
    """Move each folder away while no other writer holds the lock of its table, then delete the files.

    A table is there or not, also if this is killed; a second run deletes the rest. Raises ``LockedError`` if another
    writer holds a lock, and ``TableError`` if the disk refuses.
    """
    try:
        for path in [_move_away(folder) for folder in folders]:
            shutil.rmtree(path)
            with suppress(OSError):  # it has other folders
                path.parent.rmdir()
    except OSError as error:
        raise disk_failure(error, str(error.filename)) from error


def _move_away(folder: TableFolder) -> Path:
    """Move a folder to those that are deleted; return its new place."""
    if folder.path.parent.name == _TRASH:
        return folder.path
    place = folder.path.parent / _TRASH / f"{folder.name}-{uuid4().hex[:8]}"
    with table_lock(str(folder.path), folder.name):
        place.parent.mkdir(exist_ok=True)
        folder.path.rename(place)
    return place


def _count_rows(path: Path) -> int | None:
    try:
        return count_rows(str(path))
    except LakehouseError:
        return None
