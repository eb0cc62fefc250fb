"""Makes commits survive a power failure, and finds commits that a power failure left incomplete.

A system keeps written data in memory for some seconds, and may write files to the disk in any order. After each commit
on a local disk, its files, its log entry and their folders are synced. A marker next to the table's lock then records
the version up to which everything is synced. Entries after it may be incomplete, so each process that starts work or
commits compares them with their files. If the marker is lost, or belongs to another log, more entries are compared.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from lakehouse.errors import TableDamagedError, restore_advice
from lakehouse.ledger.log_copies import LOG
from lakehouse.ledger.log_files import Action, info_in
from lakehouse.ledger.table_failures import disk_failure
from lakehouse.ledger.vectors import VECTOR_SUFFIX, vector_path
from lakehouse.settings.store import Store

# Spark's Delta counts files of changes separately, deltalake together with the others
_COUNTERS: Final = (
    (("numTargetFilesAdded", "numAddedFiles"), ("add",)),
    (("numTargetChangeFilesAdded", "numAddedChangeFiles"), ("cdc",)),
    (("num_target_files_added", "num_added_files"), ("add", "cdc")),
    (("numTargetFilesRemoved", "numRemovedFiles", "num_target_files_removed", "num_removed_files"), ("remove",)),
)
_MAX_COMPARED = 1_000  # of the newest entries, if no marker shows which were synced
_THREADS = 8  # that sync files at the same time
_PARQUET_ENDS = (b"PAR1", b"PARE")
_FRAME = 8  # bytes of the length and the checksum of a deletion vector


def is_cut(actions: Sequence[Action]) -> bool:
    """Whether an entry names fewer files, or files with fewer rows, than its commit counted.

    Checks only lakehouse commits, since other programs may count differently. An entry may name more files
    than counted.
    """
    from lakehouse.ledger.commit_infos import metadata_of  # noqa: PLC0415 - pydantic is slow, and a query needs none

    kinds = Counter(next(iter(action), "") for action in actions)
    info = info_in(actions) or {}
    if metadata_of(info) is None:
        return False
    counters = info.get("operationMetrics") or {}
    has_too_few_files = any(
        int(counters.get(name, 0)) > sum(kinds[kind] for kind in of_kinds)
        for names, of_kinds in _COUNTERS
        for name in names
    )
    # rows too, since Spark's count of the files of a WRITE may include an empty file that the entry omits
    rows = int(counters.get("numOutputRows", 0)) if info.get("operation") == "WRITE" else 0
    counts = [json.loads(action["add"].get("stats") or "{}").get("numRecords") for action in actions if "add" in action]
    return has_too_few_files or (None not in counts and sum(counts) < rows)


class _Damage(NamedTuple):
    """The first version with a file that is not what was written, the problem, the remedy, and how to restore."""

    version: int
    file: Path
    problem: str
    remedy: str
    restore: str = ""


def sync_commits(uri: str) -> None:
    """Sync all commits since the last call to the disk; the caller holds the table's lock.

    A second call has nothing to do. Does nothing for a table in an object store. ``TableError`` if the disk fails.
    """
    table = _local_folder(uri)
    if table is None:
        return
    try:
        versions = list(_unsynced_versions(table))
        if versions:
            _sync(table, versions)
            _write_marker(table, versions[-1])
    except OSError as error:
        raise disk_failure(error, uri) from error


def require_undamaged(uri: str) -> None:
    """Raise ``TableDamagedError`` if a power failure left a commit incomplete; writes nothing.

    The error names the version to which the table has to be restored. Checks only the entries after the marker.
    """
    table = _local_folder(uri)
    try:
        damage = _find_damage(table) if table else None
    except OSError as error:
        raise disk_failure(error, uri) from error
    if damage:
        raise TableDamagedError(
            f"Version {damage.version} of {Path(uri).name} is incomplete, as after a power failure: {damage.problem}",
            where=str(damage.file),
            action="If the source no longer holds the later records, restore a backup of the table. Otherwise stop all"
            f" writers and copy the folder. {damage.remedy}. If lakehouse status then reports no lost records, run it"
            f" again. {damage.restore}".rstrip(),
        )


def _local_folder(uri: str) -> Path | None:
    """Return the existing folder of a table on a local disk."""
    folder = Store(uri).folder
    return folder if folder and (folder / LOG).is_dir() else None


def _entry(table: Path, version: int) -> Path:
    return table / LOG / f"{version:020d}.json"


def _unsynced_versions(table: Path) -> Iterator[int]:
    """Return the versions after the marker, oldest first; finds no version after two consecutive missing entries."""
    version = _marked_version(table)
    if version is None:
        versions = (int(name.stem) for name in (table / LOG).glob("*.json") if name.stem.isdecimal())
        yield from sorted(versions)[-_MAX_COMPARED:]
        return
    while _entry(table, version + 1).exists() or _entry(table, version + 2).exists():
        version += 1
        yield version


def _find_damage(table: Path) -> _Damage | None:
    added_files: dict[str, tuple[int, int]] = {}
    change_files: dict[str, tuple[int, int]] = {}
    vectors: dict[str, dict[str, tuple[int, int]]] = {}  # of each data file
    for version in _unsynced_versions(table):
        actions, entry = _read(_entry(table, version)), _entry(table, version)
        if actions is None or is_cut(actions):
            if _marked_version(table) is None and _entry(table, version + 1).exists():
                return None  # later entries may have been synced
            problem = "names less than its commit counted" if actions else "is empty, truncated or missing"
            remedy = f"Delete the files of versions after {version - 1} in _delta_log, and _last_checkpoint"
            return _Damage(version, entry, f"its log entry {problem}", remedy)
        checkpoint = entry.with_suffix(".checkpoint.parquet")
        if checkpoint.exists() and _file_problem(checkpoint):
            remedy = "Delete that checkpoint, and _last_checkpoint"
            return _Damage(version, checkpoint, "its checkpoint is truncated", remedy)
        for path in (action["remove"]["path"] for action in actions if action.get("remove")):
            added_files.pop(path, None)
            vectors.pop(path, None)
        for file in (action["add"] for action in actions if action.get("add")):
            added_files.setdefault(file["path"], (version, file["size"]))
            vectors[file["path"]] = _vector_of(file, version)
        for file in (action["cdc"] for action in actions if action.get("cdc")):
            change_files.setdefault(file["path"], (version, file["size"]))
    # VACUUM may have deleted files of changes
    existing_changes = {path: file for path, file in change_files.items() if _path(table, path).exists()}
    local_files = {path: file for path, file in added_files.items() if Store(path).folder}
    vector_files = {path: file for vector in vectors.values() for path, file in vector.items()}
    return _find_damaged_file(table, local_files | existing_changes | vector_files)


def _vector_of(file: Action, version: int) -> dict[str, tuple[int, int]]:
    """Return the file with the deletion vector of a data file, by path, and how long it is at least."""
    vector = file.get("deletionVector") or {}
    path = vector_path(vector)
    return {path: (version, vector["offset"] + vector["sizeInBytes"] + _FRAME)} if path else {}


def _find_damaged_file(table: Path, files: Mapping[str, tuple[int, int]]) -> _Damage | None:
    """Return the first file, by version and size, that is not complete."""
    for path, (version, size) in sorted(files.items(), key=lambda item: item[1]):
        if problem := _file_problem(_path(table, path), size):
            if not version:
                return _Damage(version, _path(table, path), problem, "Delete the folder of the table")
            remedy = f"Restore version {version - 1}, and delete that file"
            return _Damage(version, _path(table, path), problem, remedy, restore_advice(str(table), version - 1))
    return None


def _path(table: Path, path: str) -> Path:
    """Return the location of a file from its path in the log; a file of a clone is outside the table."""
    store = Store(path)
    return table / ((store.folder if store.is_address else None) or unquote(path))


def _read(entry: Path) -> list[Action] | None:
    """Return the actions of an entry; ``None`` if it is not complete."""
    try:
        return [json.loads(line) for line in entry.read_bytes().splitlines() if line.strip()] or None
    except (FileNotFoundError, ValueError):
        return None


def _file_problem(file: Path, size: int | None = None) -> str | None:
    """Return what is wrong with a data file of the given size in bytes; ``None`` if it is complete."""
    try:
        with file.open("rb") as data_file:
            actual_size = data_file.seek(0, os.SEEK_END)
            data_file.seek(max(0, actual_size - len(_PARQUET_ENDS[0])))
            has_parquet_end = data_file.read() in _PARQUET_ENDS
    except FileNotFoundError:
        return "a data file is missing"
    if file.suffix == VECTOR_SUFFIX:
        return None if actual_size >= (size or 0) else f"a deletion vector ends after {actual_size} bytes"
    if size is not None and actual_size != size:
        return f"a data file has {actual_size} of {size} bytes"
    return None if has_parquet_end else "a data file does not end as a Parquet file"


def _sync(table: Path, versions: Iterable[int]) -> None:
    """Sync the files first, then their folders, then the entries that name them."""
    files, entries = set[Path](), list[Path]()
    for version in versions:
        entry = _entry(table, version)
        for action in _read(entry) or ():
            described_files = [action[kind] for kind in ("add", "cdc") if action.get(kind)]
            files |= {_path(table, file["path"]) for file in described_files}
            vectors = (vector_path(file.get("deletionVector") or {}) for file in described_files)
            files |= {_path(table, path) for path in vectors if path}
        entries += [entry, entry.with_suffix(".checkpoint.parquet")]
    folders = {folder for file in files for folder in file.parents if folder.is_relative_to(table)}
    _sync_all([*_with_checksums(files), *folders])
    parents = table.parents[:2] if _entry(table, 0) in entries else ()
    _sync_all([*_with_checksums(entries), table / LOG / "_last_checkpoint", table / LOG, *parents])


def _with_checksums(files: Iterable[Path]) -> Iterator[Path]:
    """Yield each file, followed by the checksum file that Hadoop may have written next to it."""
    for file in files:
        yield from (file, file.with_name(f".{file.name}.crc"))


def _sync_all(paths: Iterable[Path]) -> None:
    """Sync files and folders that exist, in parallel, since the disk then handles several at once."""
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(_sync_one, paths))


def _sync_one(path: Path) -> None:
    with suppress(FileNotFoundError):
        sync_path(path)


def sync_path(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _marker(table: Path) -> Path:
    return table.parent / ".locks" / f"{table.name}.synced"


def _state(entry: Path) -> list[int]:
    """Return the values in which an entry differs from that of the same version in another log."""
    stat = entry.stat()
    return [stat.st_ino, stat.st_size, stat.st_mtime_ns]


def _marked_version(table: Path) -> int | None:
    """Return the version up to which everything is synced; ``None`` if there is no valid marker."""
    try:
        marker = json.loads(_marker(table).read_bytes())
        version = int(marker["version"])
        return version if marker["entry"] == _state(_entry(table, version)) else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write_marker(table: Path, version: int) -> None:
    """Record that everything is synced up to a version. The marker itself is not synced, so it is never ahead."""
    marker = _marker(table)
    new_marker = marker.with_name(f"{marker.name}.new")
    new_marker.write_text(json.dumps({"version": version, "entry": _state(_entry(table, version))}))
    new_marker.replace(marker)
