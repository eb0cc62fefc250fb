"""Opens a table's log and reads it commit by commit, on a local disk or in an object store, without a JVM."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from lakehouse.errors import TableDamagedError, TableError
from lakehouse.errors.causes import in_time
from lakehouse.errors.troubles import Trouble
from lakehouse.ledger.durability import require_undamaged
from lakehouse.ledger.log_copies import LOG, local_log, look_once
from lakehouse.ledger.log_files import Action, LogCache, LogFiles, info_in
from lakehouse.ledger.table_failures import damaged_log_error, disk_failure, explain_error, log_failures
from lakehouse.settings.store import Store

if TYPE_CHECKING:
    from arro3.core import Table

_FIX_FOLDER = "Correct LAKEHOUSE_TABLES, or restore the folder of the table: if it was a table, its log is gone."

_CACHE = LogCache[DeltaTable | None](lambda table: table.version() if table else -1)
_ROWS_CACHE = LogCache[DeltaTable | None](lambda table: table.version() if table else -1)

Info = dict[str, Any]  # the ``commitInfo`` of a commit
File = tuple[str, str]  # its path, and the id of its deletion vector


@dataclass(frozen=True)
class FileChanges:
    """The changes of one commit to the table's active files; no earlier version has the ``created_files``."""

    version: int
    added_files: frozenset[File]
    removed_files: frozenset[File]
    created_files: frozenset[File] = frozenset()


def open_table(uri: str) -> DeltaTable | None:
    """Open a table's log without a JVM; ``None`` if there is no table and its place is free.

    The result may be shared within this process, so writers use ``open_uncached``. Its data files cannot be read
    through it, since it may be a copy of the log: ``open_rows`` can. A folder with an interrupted creation is free.
    Raises ``TableError`` if the place holds something else, or if its log cannot be read. The wait for a store that
    does not respond ends after about twenty seconds.
    """
    return _CACHE.read(uri, uri, lambda: _open_log(uri))


def open_rows(uri: str) -> DeltaTable | None:
    """Open a table as ``open_table`` does, in its own place: its rows can be read, in a store with the present keys."""
    store = Store(uri)
    if store.folder:
        return open_table(uri)
    return _ROWS_CACHE.read((uri, store.access.with_keys()), uri, lambda: open_uncached(uri))


def _open_log(uri: str) -> DeltaTable | None:
    if Store(uri).folder:
        return open_uncached(uri)
    folder = local_log(uri)
    with log_failures(uri), suppress(TableNotFoundError):
        return _require_entry(uri, folder, DeltaTable(folder))
    return None


def open_uncached(uri: str) -> DeltaTable | None:
    """Open a table in its own place, without the cache: the result is not shared."""
    folder = Store(uri).folder
    names = _names_in(folder) if folder else {LOG}
    if LOG in names:
        try:
            with log_failures(uri), suppress(TableNotFoundError):
                return _require_entry(uri, folder, _open(uri))
        except TableDamagedError:
            require_undamaged(uri)  # reports damage after a power failure as such
            raise
    other_names = sorted(names - {LOG}, key=lambda name: (name.startswith(("_", ".")), name))
    if other_names:
        message = f"The folder is not a Delta table: it holds {other_names[0]}, but no log"
        raise TableError(message, where=uri, action=_FIX_FOLDER)
    return None


def _require_entry(uri: str, folder: Path | None, table: DeltaTable) -> DeltaTable:
    """Refuse a log whose newest entry is empty; deltalake accepts it as a commit (seen)."""
    entry = folder / LOG / f"{table.version():020d}.json" if folder else None
    if entry and entry.exists() and not entry.stat().st_size:
        raise damaged_log_error(f"the entry of version {table.version()} is empty", uri)
    return table


def _open(uri: str) -> DeltaTable:
    """Open a table; Ctrl-C interrupts the wait for a store that does not respond."""
    store = Store(uri)
    if store.folder:
        return DeltaTable(uri)
    return in_time(lambda: DeltaTable(uri, storage_options=store.options))


def _open_existing(uri: str) -> DeltaTable:
    if table := open_table(uri):
        return table
    raise TableNotFoundError(f"No table is at {uri}")


def open_version(uri: str, version: int) -> DeltaTable:
    """Open an earlier version of an existing table, not shared; ``TableError`` if the log no longer shows it."""
    try:
        table = _open(uri)
        table.load_as_version(version)
    except (DeltaError, OSError, ValueError) as error:
        message = f"The log no longer shows version {version} as a whole: older entries have expired"
        expired = TableError(message, where=uri, action="Choose a newer version.")
        raise (explain_error(error, uri, excluded_trouble=Trouble.DAMAGED_LOG) or expired) from error
    return table


def is_table(uri: str) -> bool:
    """Whether a table exists in an object store. Raises ``TableError`` if the store fails."""
    with log_failures(uri):
        return in_time(lambda: DeltaTable.is_deltatable(uri, Store(uri).options))


def read_history(uri: str, limit: int | None = None) -> list[Info]:
    """Read the ``commitInfo`` of the newest ``limit`` commits of an existing table, or of all; newest first."""
    with log_failures(uri), look_once():
        return history_of(_open_existing(uri), uri, limit)


def history_of(table: DeltaTable, uri: str, limit: int | None = None) -> list[Info]:
    """Read the ``commitInfo`` of the commits of an opened table, each with its version; newest first.

    deltalake does not read versions: it counts down from the opened version, by one for each ``commitInfo`` (seen). A
    commit without ``commitInfo``, which Delta allows, or a commit made since would shift all older versions. If the
    names of the log's files show such a commit, the log is read by name instead.
    """
    version, log = table.version(), LogFiles(uri)
    oldest = max(0, version + 1 - limit) if limit else 0
    log.has_version(oldest)  # a copy of a log then holds what follows
    history = table.history(limit)
    is_shorter = len(history) < version + 1 - oldest
    if log.has_version(version + 1) or (is_shorter and log.has_version(version - len(history))):
        return list(islice(_read_by_name(uri, version), limit))
    return history


def _read_by_name(uri: str, newest: int) -> Iterator[Info]:
    log = LogFiles(uri)
    for version, actions in log.commits(newest):
        info = info_in(actions)
        default = {"operation": "UNKNOWN", "timestamp": 0 if info else log.written_at(version)}
        yield (info or default) | {"version": version}


def active_files(uri: str) -> "Table":
    """List the active files of an existing table: path, size in bytes, one column for each partition column."""
    with log_failures(uri):
        return _open_existing(uri).get_add_actions(flatten=True)


def file_changes(uri: str, newest: int) -> Iterator[FileChanges]:
    """Read the changes of each commit to the active files, from a version backwards to the oldest in the log."""
    for version, actions in LogFiles(uri).commits(newest):
        yield _file_changes(version, actions)


def holds_version(uri: str, version: int) -> bool:
    """Whether the log of a table holds the commit of this version; does not read it."""
    with log_failures(uri):
        return LogFiles(uri).has_version(version)


def read_commit(uri: str, version: int) -> Info | None:
    """Read the ``commitInfo`` of one version; ``None`` if the log does not hold the commit, or it has none."""
    with log_failures(uri):
        _, actions = next(LogFiles(uri).commits(version), (version, []))
    return info_in(actions)


def _file_changes(version: int, actions: Sequence[Action]) -> FileChanges:
    by_kind = {kind: [action[kind] for action in actions if action.get(kind)] for kind in ("add", "remove")}
    if not by_kind["remove"] and not any(file.get("dataChange") for file in by_kind["add"]):
        by_kind["add"] = []  # files that were active before, with new statistics
    added_files = frozenset(map(_file, by_kind["add"]))
    is_restore = (info_in(actions) or {}).get("operation") == "RESTORE"
    created_files = frozenset[File]() if is_restore else added_files
    return FileChanges(version, added_files, frozenset(map(_file, by_kind["remove"])), created_files)


def _file(action: Action) -> File:
    vector = action.get("deletionVector") or {}
    parts = (vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset"))
    return action["path"], "/".join(str(part) for part in parts if part is not None)


def _names_in(folder: Path) -> set[str]:
    """Return the names in a folder; empty if it does not exist."""
    try:
        return {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return set()
    except NotADirectoryError as error:
        action = "Move the file away, or correct LAKEHOUSE_TABLES."
        raise TableError("The table's folder is a file", where=str(folder), action=action) from error
    except OSError as error:
        raise disk_failure(error, str(folder)) from error
