"""How far an export is: which version of its table it has, what is gone of it, and whether VACUUM waits for it."""

from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from os.path import realpath
from pathlib import Path

from lakehouse.declaration import Export
from lakehouse.errors import LakehouseError
from lakehouse.exports.manifests import ExportedFile, Manifest, list_versions, manifest_path, read_manifest, read_newest
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import ledger_of
from lakehouse.settings import Settings


@dataclass(frozen=True)
class OutletStatus:
    """The state of an export or a sink; versions are ``None`` if nothing was written, or if it cannot be read.

    ``version`` is the newest version of an export, ``source_version`` that of the table that it has. ``lag`` is the
    number of versions of the table that may have changed rows since. ``holds_vacuum``: it lags beyond half of the
    retention, so VACUUM of the table waits for it. ``problem`` says why it cannot be read, or what its readers miss.
    ``target`` is where a sink writes.
    """

    export: str
    table: str
    enabled: bool
    version: int | None
    source_version: int | None
    lag: int | None
    holds_vacuum: bool
    problem: str | None = None
    target: str | None = None

    @property
    def is_up_to_date(self) -> bool:
        """Whether it has every version that may have changed rows; one that is disabled is."""
        return not self.enabled or (self.problem is None and not self.lag)


def folder_of(settings: Settings, export: Export) -> Path:
    """Return the folder of an export, with symbolic links followed; it may not exist yet."""
    root = settings.exports or settings.home_folder / "exports"
    return Path(realpath(root / Path(export.folder_name).expanduser()))  # unlike resolve(), it accepts a loop


def export_status(settings: Settings, export: Export, retention: timedelta) -> OutletStatus:
    """Read the state of an export from its newest manifest; ``retention`` is that of its table."""
    try:
        manifest = read_newest(folder_of(settings, export))
    except LakehouseError as error:
        holds_vacuum = export.changes and export.enabled
        return OutletStatus(export.name, export.of, export.enabled, None, None, None, holds_vacuum, str(error))
    consumption = Consumption(ledger_of(settings, export.of), manifest.consumed if manifest else None)
    if manifest is None:
        return OutletStatus(export.name, export.of, export.enabled, None, None, consumption.lag, False)
    # an export that never ran, or that cannot continue, begins with all rows and needs no old files
    needs_changes = export.enabled and export.changes and consumption.has_source
    holds_vacuum = needs_changes and consumption.is_overdue(retention)
    lost_part = find_lost_part(folder_of(settings, export), export, manifest)
    repair = f"lakehouse export {export.name}{' --whole' if export.changes else ''}"
    problem = f"{lost_part[:1].upper()}{lost_part[1:]}. Run: {repair}" if lost_part else None
    versions = (manifest.version, consumption.version)
    return OutletStatus(export.name, export.of, export.enabled, *versions, consumption.lag, holds_vacuum, problem)


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
