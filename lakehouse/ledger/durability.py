"""Commits that outlive a power cut: what is on the disk before anybody hears of them, and what a cut left of others.

A system keeps what is written in memory for some seconds, and may bring files to the disk in any order. After each
commit on a local disk its files, its log entry and their folders are synced, and a marker beside the table's lock tells
up to which version that is done. Entries behind it may be cut off: whoever begins or commits
compares them with their files. A marker that is lost, or is of another log, tells nothing: more entries are compared.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from lakehouse.errors import TableDamagedError
from lakehouse.ledger.log_entries import Action, is_cut
from lakehouse.ledger.log_files import LOG
from lakehouse.ledger.table_failures import disk_failure
from lakehouse.settings.store import Store

_MOST = 1_000  # of the newest entries, where nothing tells which were synced
_AT_ONCE = 8  # files that are synced
_ENDS = (b"PAR1", b"PARE")  # of a file of rows


class _Torn(NamedTuple):
    """The first version of which something is not what was written: what, and what to do."""

    version: int
    file: Path
    fact: str
    way: str


def sync_commits(uri: str) -> None:
    """Bring all that was committed since the last time to the disk, for who holds the table's lock.

    A second run finds nothing. Nothing is done for a table in an object store. ``TableError`` where the disk refuses.
    """
    table = _local(uri)
    if table is None:
        return
    try:
        versions = list(_unsynced(table))
        if versions:
            _sync(table, versions)
            _write_marker(table, versions[-1])
    except OSError as error:
        raise disk_failure(error, uri) from error


def require_whole(uri: str) -> None:
    """Raise ``TableDamagedError`` where a power cut left less of a commit than its log entry says; nothing is written.

    It names the version to which the table is to be restored. Looks at the entries behind the marker alone.
    """
    table = _local(uri)
    try:
        torn = _torn(table) if table else None
    except OSError as error:
        raise disk_failure(error, uri) from error
    if torn:
        raise TableDamagedError(
            f"Version {torn.version} of {Path(uri).name} was cut off, as by a loss of power: {torn.fact}",
            where=str(torn.file),
            action=f"{torn.way}; then run it again: what came later is read again where it came from. If that no longer"
            " holds it, bring the table back from a backup instead.",
        )


def _local(uri: str) -> Path | None:
    """The folder of a table on a local disk that is there."""
    folder = Store(uri).folder
    return folder if folder and (folder / LOG).is_dir() else None


def _entry(table: Path, version: int) -> Path:
    return table / LOG / f"{version:020d}.json"


def _unsynced(table: Path) -> Iterator[int]:
    """The versions behind the marker, the oldest first; of several in a row that are missing, none is seen."""
    version = _marked(table)
    if version is None:
        found = (int(name.stem) for name in (table / LOG).glob("*.json") if name.stem.isdecimal())
        return iter(sorted(found)[-_MOST:])
    return _following(table, version)


def _following(table: Path, version: int) -> Iterator[int]:
    while _entry(table, version + 1).exists() or _entry(table, version + 2).exists():
        version += 1
        yield version


def _torn(table: Path) -> _Torn | None:
    files: dict[str, tuple[int, int]] = {}
    changes: dict[str, tuple[int, int]] = {}
    for version in _unsynced(table):
        actions, entry = _read(_entry(table, version)), _entry(table, version)
        if actions is None or is_cut(actions):
            if _marked(table) is None and _entry(table, version + 1).exists():
                return None  # others that were synced may stand behind it
            fact = "lacks a part of what its commit counted" if actions else "is empty, cut off or missing"
            way = f"Delete what _delta_log holds of versions after {version - 1}, and _last_checkpoint"
            return _Torn(version, entry, f"its log entry {fact}", way)
        checkpoint = entry.with_suffix(".checkpoint.parquet")
        if checkpoint.exists() and _fault(checkpoint):
            return _Torn(version, checkpoint, "its checkpoint is cut off", "Delete that, and _last_checkpoint")
        for path in (action["remove"]["path"] for action in actions if action.get("remove")):
            files.pop(path, None)
        for kind, found in (("add", files), ("cdc", changes)):
            for said in (action[kind] for action in actions if action.get(kind)):
                found.setdefault(said["path"], (version, said["size"]))
    there = {path: told for path, told in changes.items() if _path(table, path).exists()}  # VACUUM takes others
    here = {path: told for path, told in files.items() if Store(path).folder}
    return _torn_file(table, here | there)


def _torn_file(table: Path, told: Mapping[str, tuple[int, int]]) -> _Torn | None:
    """The first of these files that is not as its version and size say."""
    for path, (version, size) in sorted(told.items(), key=lambda each: each[1]):
        if fault := _fault(_path(table, path), size):
            restore = f"RESTORE TABLE delta.`{table}` TO VERSION AS OF {version - 1}, and delete that file"
            way = restore if version else "Delete the folder of the table"
            return _Torn(version, _path(table, path), fault, way)
    return None


def _path(table: Path, path: str) -> Path:
    """A file by its path as the log tells it; that of a clone lies elsewhere."""
    store = Store(path)
    return table / (unquote(path) if store.is_path or store.folder is None else store.folder)


def _read(entry: Path) -> list[Action] | None:
    """What an entry holds; ``None`` where it is not whole."""
    try:
        return [json.loads(line) for line in entry.read_bytes().splitlines() if line.strip()] or None
    except (FileNotFoundError, ValueError):
        return None


def _fault(file: Path, size: int | None = None) -> str | None:
    """What is wrong with a file of rows, which has to have so many bytes; nothing where it is whole."""
    try:
        with file.open("rb") as opened:
            there = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, there - len(_ENDS[0])))
            whole = opened.read() in _ENDS
    except FileNotFoundError:
        return "a file of its rows is missing"
    if size is not None and there != size:
        return f"a file of its rows has {there} of {size} bytes"
    return None if whole else "a file of its rows does not end as one"


def _sync(table: Path, versions: Iterable[int]) -> None:
    """Files first, then their folders, then the entries that name them."""
    files, entries = set[Path](), list[Path]()
    for version in versions:
        entry = _entry(table, version)
        for action in _read(entry) or ():
            told = (action.get(kind) for kind in ("add", "cdc"))
            files |= {_path(table, said["path"]) for said in told if said}
        entries += [entry, entry.with_suffix(".checkpoint.parquet")]
    folders = {folder for file in files for folder in file.parents if folder.is_relative_to(table)}
    _sync_all([*_with_sums(files), *folders])
    above = table.parents[:2] if _entry(table, 0) in entries else ()
    _sync_all([*_with_sums(entries), table / LOG / "_last_checkpoint", table / LOG, *above])


def _with_sums(files: Iterable[Path]) -> Iterator[Path]:
    """Files, each with the checksums that Hadoop may have written beside it."""
    for file in files:
        yield from (file, file.with_name(f".{file.name}.crc"))


def _sync_all(paths: Iterable[Path]) -> None:
    """Sync files and folders, those that are there; several at once are one turn of the disk."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(_sync_one, paths))


def _sync_one(path: Path) -> None:
    with suppress(FileNotFoundError):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _marker(table: Path) -> Path:
    return table.parent / ".locks" / f"{table.name}.synced"


def _state(entry: Path) -> list[int]:
    """What an entry of the same version in another log has otherwise."""
    found = entry.stat()
    return [found.st_ino, found.st_size, found.st_mtime_ns]


def _marked(table: Path) -> int | None:
    """The version up to which all is on the disk; ``None`` where nothing tells."""
    try:
        said = json.loads(_marker(table).read_bytes())
        version = int(said["version"])
        return version if said["entry"] == _state(_entry(table, version)) else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write_marker(table: Path, version: int) -> None:
    """Tell that all is on the disk up to a version. It is not synced itself: it may be lost, and is never ahead."""
    marker = _marker(table)
    written = marker.with_name(f"{marker.name}.new")
    written.write_text(json.dumps({"version": version, "entry": _state(_entry(table, version))}))
    written.replace(marker)
