"""A table's log without a JVM, on a local disk or in an object store: opened, and read commit by commit."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from lakehouse.errors import TableDamagedError, TableError
from lakehouse.errors.time_limit import in_time
from lakehouse.ledger.durability import require_whole
from lakehouse.ledger.log_cache import Kept
from lakehouse.ledger.log_files import LOG, Action, LogFiles
from lakehouse.ledger.table_failures import damaged_log, disk_failure, log_failures
from lakehouse.settings.store import Store

if TYPE_CHECKING:
    from arro3.core import Table

_PLACE = "Correct LAKEHOUSE_TABLES, or give the table its folder back: where it was a table, its log is gone."

_OPENED = Kept[DeltaTable | None](lambda table: table.version() if table else -1)

Info = dict[str, Any]  # what a commit says of itself
File = tuple[str, str]  # its path, and the id of its deletion vector


@dataclass(frozen=True)
class FileChanges:
    """What the commit of one version did to the table's active files; ``created`` were in no version before it."""

    version: int
    added: frozenset[File]
    removed: frozenset[File]
    created: frozenset[File] = frozenset()


def open_table(uri: str) -> DeltaTable | None:
    """Open a table without a JVM, to look at it; ``None`` where there is none and the place is free.

    It may be shared with others in this process: who writes opens it anew. A folder in which a creation was cut off is
    free. Raises ``TableError`` where something else stands there, or where its log cannot be read; a store that does
    not answer is given up within some twenty seconds.
    """
    return _OPENED.read(uri, uri, lambda: open_anew(uri))


def open_anew(uri: str) -> DeltaTable | None:
    """Open a table as ``open_table`` does, for nobody else."""
    names = _names_in(Path(uri)) if Store(uri).is_path else {LOG}
    if LOG in names:
        try:
            with log_failures(uri), suppress(TableNotFoundError):
                table = _opened(uri)
                if _is_empty(uri, table.version()):
                    raise damaged_log(f"the entry of version {table.version()} is empty", uri)
                return table
        except TableDamagedError:
            require_whole(uri)  # a power cut is told as one
            raise
    strangers = sorted(names - {LOG}, key=lambda name: (name.startswith(("_", ".")), name))
    if strangers:
        what = f"The folder is not a Delta table: it holds {strangers[0]}, but no log"
        raise TableError(what, where=uri, action=_PLACE)
    return None


def _is_empty(uri: str, version: int) -> bool:
    """Whether the newest entry of a log on a local disk holds nothing, which deltalake takes for a commit (seen)."""
    entry = Path(uri, LOG, f"{version:020d}.json")
    return Store(uri).is_path and entry.exists() and not entry.stat().st_size


def _opened(uri: str) -> DeltaTable:
    """A table, opened; of a store that is silent so that Ctrl-C ends it."""
    store = Store(uri)
    if store.is_path:
        return DeltaTable(uri)
    return in_time(lambda: DeltaTable(uri, storage_options=store.options))


def is_table(uri: str) -> bool:
    """Whether a table stands in an object store. Raises ``TableError`` where the store does not tell."""
    with log_failures(uri):
        return in_time(lambda: DeltaTable.is_deltatable(uri, Store(uri).options))


def read_history(uri: str, limit: int | None = None) -> list[Info]:
    """Read what the commits of a table that is there say of themselves: all of them, or so many; newest first."""
    with log_failures(uri):
        return history_of(_opened(uri), uri, limit)


def history_of(table: DeltaTable, uri: str, limit: int | None = None) -> list[Info]:
    """Read what the commits of an opened table say of themselves, each with its version; newest first.

    deltalake does not tell versions: it counts down from the one that was opened, one for each commit it finds that
    says something (seen). One that says nothing, as Delta allows, or one made since would give all before it a wrong
    version. Whether there are such is asked for by the names of the log's files, and the log is then read by name.
    """
    told, version = table.history(limit), table.version()
    fewer = len(told) < min(limit or version + 1, version + 1)
    log = _log_of(uri)
    if log.holds(version + 1) or (fewer and log.holds(version - len(told))):
        return list(islice(_by_name(uri, version), limit))
    return told


def _by_name(uri: str, newest: int) -> Iterator[Info]:
    log = _log_of(uri)
    for version, actions in log.commits(newest):
        said = next((action["commitInfo"] for action in actions if action.get("commitInfo")), None)
        silent = {"operation": "UNKNOWN", "timestamp": 0 if said else log.written_at(version)}
        yield (said or silent) | {"version": version}


def active_files(uri: str) -> "Table":
    """List the active files of a table that is there: path, size in bytes, one column for each partition column."""
    with log_failures(uri):
        return _opened(uri).get_add_actions(flatten=True)


def file_changes(uri: str, newest: int) -> Iterator[FileChanges]:
    """Read what each commit did to the active files, from a version backwards to the oldest that the log holds."""
    for version, actions in _log_of(uri).commits(newest):
        yield _changes(version, actions)


def holds_version(uri: str, version: int) -> bool:
    """Whether the log of a table holds the commit of this version; it is not read."""
    with log_failures(uri):
        return _log_of(uri).holds(version)


def read_commit(uri: str, version: int) -> Info | None:
    """What the commit of one version says of itself; ``None`` where the log no longer holds it, or it says nothing."""
    with log_failures(uri):
        _, actions = next(_log_of(uri).commits(version), (version, []))
    return next((action["commitInfo"] for action in actions if action.get("commitInfo")), None)


def _log_of(uri: str) -> LogFiles:
    return LogFiles(uri)


def _changes(version: int, actions: Iterable[Action]) -> FileChanges:
    found = {kind: [each[kind] for each in actions if each.get(kind)] for kind in ("add", "remove", "commitInfo")}
    if not found["remove"] and not any(file.get("dataChange") for file in found["add"]):
        found["add"] = []  # active files described anew, with other statistics
    added = frozenset(map(_file, found["add"]))
    restored = any(info.get("operation") == "RESTORE" for info in found["commitInfo"])
    created = frozenset[File]() if restored else added
    return FileChanges(version, added, frozenset(map(_file, found["remove"])), created)


def _file(action: Action) -> File:
    vector = action.get("deletionVector") or {}
    parts = (vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset"))
    return action["path"], "/".join(str(part) for part in parts if part is not None)


def _names_in(folder: Path) -> set[str]:
    """What a folder holds; nothing where there is none."""
    try:
        return {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return set()
    except NotADirectoryError as error:
        action = "Move it away, or correct LAKEHOUSE_TABLES."
        raise TableError("A file stands where the table's folder belongs", where=str(folder), action=action) from error
    except OSError as error:
        raise disk_failure(error, str(folder)) from error
