"""Manifests: one file for each version of an export, which names its files. What none of them names is removed.

A manifest is written under another name, synced, and then linked to its own name, which fails if that exists. So a
version is published as a whole or not at all, and of two writers only one can publish it.

Only files that this export wrote are removed, by their names. Everything else in the folder stays.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Literal
from uuid import uuid4

from filelock import FileLock, Timeout
from pydantic import ValidationError

from lakehouse.errors import ConflictError, LockedError, TableDamagedError, TableError
from lakehouse.ledger.commit_values import Consumed, Frozen
from lakehouse.ledger.durability import sync_path
from lakehouse.storage.lock_holder import holder_of, note_holder

STATE = "_export"  # the folder of the manifests, within the folder of the export
FORM: Literal[1] = 1  # the version of the form of manifests
_DIGITS = 20
_NAME = re.compile(rf"[0-9]{{{_DIGITS}}}\.json")
_PATIENCE = 120.0  # seconds to wait for another run of the export
SPILL = "spill-"  # the start of the name of a folder for rows that do not fit into memory
_DRAFT = re.compile(r"\.\d+\.json\.[0-9a-f]{32}")
_SPILL = re.compile(rf"{SPILL}[0-9a-f]{{32}}")
_PARTITION = re.compile(r".*_(hour|day|month|year)=[\w-]+")


class ExportedFile(Frozen):
    """A file of an export: its path within the folder, and how many rows and bytes it has."""

    path: str
    rows: int
    bytes: int


class Manifest(Frozen):
    """One version of an export.

    ``kind`` is ``whole`` if its files have every row of the table, and ``changes`` if they have what changed after
    ``since_version`` of the table, up to the consumed version. ``first`` is the version of the export from which a new
    reader reads: the last one with every row. ``attempt`` is the unique id of the run in the names of its files.
    """

    manifest: Literal[1] = FORM
    export: str
    version: int
    first: int
    kind: Literal["whole", "changes"]
    attempt: str
    table: str
    consumed: Consumed
    since_version: int | None
    format: str
    declaration: str
    committed_at: datetime
    run: str
    rows: int
    files: tuple[ExportedFile, ...]


def manifest_path(folder: Path, version: int) -> Path:
    """Return the place of the manifest of a version."""
    return folder / STATE / f"{version:0{_DIGITS}d}.json"


def list_versions(folder: Path) -> list[int]:
    """Return the versions that have a manifest, oldest first; none if the folder does not exist.

    Raises ``TableError`` if it cannot be read: then it is unknown what the export has.
    """
    try:
        names = [path.name for path in (folder / STATE).iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        message = f"The manifests of an export cannot be read: {error.strerror}"
        raise TableError(message, where=str(folder / STATE), action="Correct the folder, and run it again.") from None
    return sorted(int(name.removesuffix(".json")) for name in names if _NAME.fullmatch(name))


def read_newest(folder: Path) -> Manifest | None:
    """Read the newest manifest; ``None`` if nothing is published. ``TableDamagedError`` if it cannot be read."""
    versions = list_versions(folder)
    return read_manifest(folder, versions[-1]) if versions else None


def read_manifest(folder: Path, version: int) -> Manifest:
    """Read the manifest of a version. ``TableDamagedError`` if it cannot be read."""
    path = manifest_path(folder, version)
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a manifest of this lakehouse"
        raise _damaged(path, version, reason) from None
    if manifest.version != version:
        raise _damaged(path, version, f"it is a copy of that of version {manifest.version}")
    return manifest


def _damaged(path: Path, version: int, reason: str | None) -> TableDamagedError:
    return TableDamagedError(
        f"The manifest of version {version} of an export cannot be read: {reason}",
        where=str(path),
        action="Restore it from a backup; or move the folder of the export away, and run the export again.",
    )


def publish(folder: Path, manifest: Manifest, *, sync: bool) -> None:
    """Publish a version. Raises ``ConflictError`` if the version exists already; nothing is published then."""
    place = manifest_path(folder, manifest.version)
    draft = place.with_name(f".{place.name}.{uuid4().hex}")
    try:
        write_draft(draft, manifest, sync=sync)
        link_draft(draft, place)
    except FileExistsError:
        message = f"Another run published version {manifest.version} of export {manifest.export} first"
        raise ConflictError(message, where=str(place), action="Nothing was published. Run it again.") from None
    finally:
        draft.unlink(missing_ok=True)
    if sync:
        sync_path(place.parent)


def write_draft(draft: Path, manifest: Manifest, *, sync: bool) -> None:
    """Write a manifest under a name that no reader looks for."""
    with draft.open("xb") as file:
        file.write(manifest.model_dump_json(indent=1).encode() + b"\n")
        file.flush()
        if sync:
            os.fsync(file.fileno())


def link_draft(draft: Path, place: Path) -> None:
    """Give a manifest its own name; ``FileExistsError`` if that exists."""
    os.link(draft, place)


@contextmanager
def export_lock(folder: Path, name: str) -> Iterator[None]:
    """Hold the lock of an export, which its folder gets if it has none. It is released when the process ends.

    Raises ``LockedError`` if another run holds it for more than two minutes.
    """
    file = folder / STATE / "lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file)
    try:
        lock.acquire(timeout=_PATIENCE)
    except Timeout:
        message = f"Export {name} was locked for {_PATIENCE:.0f} seconds; now {holder_of(file)} writes it"
        raise LockedError(message, where=str(folder), action="Run it again when that run is done.") from None
    try:
        with note_holder(file):
            yield
    finally:
        lock.release()


def file_name(name: str, version: int, attempt: str, number: int, suffix: str) -> str:
    """Return the name of a file of an export: no other export and no other run has it."""
    return f"{name}-{version}-{attempt}-{number:05d}.{suffix}"


def remove_leftovers(folder: Path, name: str, *, former: bool = False) -> None:
    """Remove what no reader needs; the caller holds the lock. A second call removes nothing.

    Readers need the newest version and the one before it, and with changes each version since their last whole one.
    With ``former``, the version before the newest is removed too.
    """
    newest, first = _needed_versions(folder, 1 if former else 2)
    for version in list_versions(folder):
        if version < first:
            remove_file(manifest_path(folder, version))
    for path, version, attempt in _own_files(folder, name):
        if not _is_needed(newest, first, version, attempt):
            remove_file(path)
    _remove_drafts(folder / STATE)
    for partition in _partitions(folder):
        with suppress(OSError):  # it still has files
            partition.rmdir()


def remove_export(folder: Path, name: str) -> None:
    """Remove what the export of this name wrote, and its folder if nothing else is in it. Raises ``LockedError``."""
    with export_lock(folder, name):
        for version in list_versions(folder):
            remove_file(manifest_path(folder, version))
        remove_leftovers(folder, name)
    shutil.rmtree(folder / STATE)
    with suppress(OSError):  # it has files that are not of the export
        folder.rmdir()


def _remove_drafts(state: Path) -> None:
    for path in state.iterdir():
        if _SPILL.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)
        elif _DRAFT.fullmatch(path.name):
            remove_file(path)


def _is_needed(newest: Manifest | None, first: int, version: int, attempt: str) -> bool:
    if newest is None or not first <= version <= newest.version:
        return False
    return version < newest.version or attempt == newest.attempt


def remove_file(path: Path) -> None:
    """Remove a file."""
    path.unlink(missing_ok=True)


def _needed_versions(folder: Path, count: int) -> tuple[Manifest | None, int]:
    """Return the newest manifest, and the oldest version that a reader of the newest ``count`` versions needs."""
    versions = list_versions(folder)
    if not versions:
        return None, 0
    newest = read_manifest(folder, versions[-1])
    try:
        return newest, min(read_manifest(folder, version).first for version in versions[-count:])
    except TableDamagedError:  # what its readers need is unknown, so everything stays until later versions replace it
        return newest, versions[0]


def _own_files(folder: Path, name: str) -> Iterator[tuple[Path, int, str]]:
    """Yield the data files of the export, with the version and the attempt in their names."""
    pattern = re.compile(rf"{re.escape(name)}-(\d+)-([0-9a-f]+)-\d+\.(parquet|csv|jsonl)")
    for place in (folder, *_partitions(folder)):
        for path in sorted(place.iterdir()):
            match = pattern.fullmatch(path.name)
            if match:
                yield path, int(match[1]), match[2]


def _partitions(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if _PARTITION.fullmatch(path.name) and path.is_dir())
