"""What is gone of the published versions of an export: a reader who begins now has too few rows."""

from functools import lru_cache
from pathlib import Path

from lakehouse.declaration import Export
from lakehouse.errors import LakehouseError
from lakehouse.exports.manifests import ExportedFile, Manifest, list_versions, manifest_path, read_manifest


def find_lost_part(folder: Path, export: Export, newest: Manifest) -> str | None:
    """Return what a new reader would miss, as a part of a sentence; ``None`` if nothing.

    With changes, a reader needs every version from the last whole one on; else the newest one alone.
    """
    first = newest.first if export.changes else newest.version
    lost_versions = {*range(first, newest.version)} - {*list_versions(folder)}
    if lost_versions:
        return f"the manifest of version {min(lost_versions)} of the export is gone"
    for version in range(first, newest.version + 1):
        try:
            manifest = newest if version == newest.version else _read_cached(folder, version)
        except (LakehouseError, OSError):
            return f"the manifest of version {version} of the export cannot be read"
        lost_file = next((file for file in manifest.files if not _is_complete(folder, file)), None)
        if lost_file:
            return f"{lost_file.path} of version {version} of the export is gone, or has other bytes"
    return None


def _is_complete(folder: Path, file: ExportedFile) -> bool:
    try:
        return (folder / file.path).stat().st_size == file.bytes
    except OSError:
        return False


def _read_cached(folder: Path, version: int) -> Manifest:
    """Read a manifest once, as long as its file is the same: a tick looks at all of them."""
    status = manifest_path(folder, version).stat()
    return _read_unchanged(folder, version, (status.st_ino, status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=4096)
def _read_unchanged(folder: Path, version: int, _: tuple[int, int, int]) -> Manifest:
    return read_manifest(folder, version)
