"""Removes what no reader of an export needs: files of runs that died, and of versions before the last two.

Only files that this export wrote are removed, by their names. Everything else in the folder stays.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lakehouse.errors import TableDamagedError
from lakehouse.exports.manifests import STATE, Manifest, list_versions, manifest_path, read_manifest

SPILL = "spill-"  # the start of the name of a folder for rows that do not fit into memory
_DRAFT = re.compile(r"\.\d+\.json\.[0-9a-f]{32}")
_SPILL = re.compile(rf"{SPILL}[0-9a-f]{{32}}")
_PARTITION = re.compile(r".*_(hour|day|month|year)=[\w-]+")


def file_name(name: str, version: int, attempt: str, number: int, suffix: str) -> str:
    """Return the name of a file of an export: no other export and no other run has it."""
    return f"{name}-{version}-{attempt}-{number:05d}.{suffix}"


def remove_leftovers(folder: Path, name: str) -> None:
    """Remove what no reader needs; the caller holds the lock. A second call removes nothing.

    Readers need the newest version and the one before it, and with changes each version since their last whole one.
    """
    newest, first = _needed_versions(folder)
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


def _needed_versions(folder: Path) -> tuple[Manifest | None, int]:
    """Return the newest manifest, and the oldest version that a reader needs."""
    versions = list_versions(folder)
    if not versions:
        return None, 0
    newest = read_manifest(folder, versions[-1])
    try:
        return newest, min(read_manifest(folder, version).first for version in versions[-2:])
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
