"""How far an export is: which version of its table it has, how many are newer, and whether VACUUM waits for it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from os.path import realpath
from pathlib import Path

from lakehouse.declaration import Export
from lakehouse.errors import LakehouseError
from lakehouse.exports.lost_parts import find_lost_part
from lakehouse.exports.manifests import Manifest, read_newest
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.consumption import has_consumed_version, is_consumed
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.log import read_history
from lakehouse.settings import Settings


@dataclass(frozen=True)
class ExportStatus:
    """The state of an export; versions are ``None`` if nothing is published, or if it cannot be read.

    ``version`` is its newest version, ``source_version`` that of the table that it has. ``lag`` is the number of
    versions of the table that may have changed rows since. ``holds_vacuum``: it lags beyond half of the retention, so
    VACUUM of the table waits for it. ``problem`` says why it cannot be read, or what its readers miss.
    """

    export: str
    table: str
    enabled: bool
    version: int | None
    source_version: int | None
    lag: int | None
    holds_vacuum: bool
    problem: str | None = None

    @property
    def is_up_to_date(self) -> bool:
        """Whether it has every version that may have changed rows; one that is disabled is."""
        return not self.enabled or (self.problem is None and not self.lag)


def folder_of(settings: Settings, export: Export) -> Path:
    """Return the folder of an export, with symbolic links followed; it may not exist yet."""
    root = settings.exports or settings.home_folder / "exports"
    return Path(realpath(root / Path(export.folder_name).expanduser()))  # unlike resolve(), it accepts a loop


def export_status(settings: Settings, export: Export, retention: timedelta) -> ExportStatus:
    """Read the state of an export from its newest manifest; ``retention`` is that of its table."""
    try:
        manifest = read_newest(folder_of(settings, export))
    except LakehouseError as error:
        holds_vacuum = export.changes and export.enabled
        return ExportStatus(export.name, export.of, export.enabled, None, None, None, holds_vacuum, str(error))
    ledger = ledger_of(settings, export.of)
    if manifest is None:
        return ExportStatus(export.name, export.of, export.enabled, None, None, lag_of(ledger, None), False)
    lag = lag_of(ledger, manifest.consumed)
    holds_vacuum = needs_old_files(export, manifest, ledger, retention)
    lost_part = find_lost_part(folder_of(settings, export), export, manifest)
    problem = f"{lost_part[:1].upper()}{lost_part[1:]}. Run: {_repair(export)}" if lost_part else None
    versions = (manifest.version, manifest.consumed.version)
    return ExportStatus(export.name, export.of, export.enabled, *versions, lag, holds_vacuum, problem)


def _repair(export: Export) -> str:
    return f"lakehouse export {export.name}{' --whole' if export.changes else ''}"


def lag_of(ledger: Ledger, consumed: Consumed | None) -> int:
    """Return how many versions that may have changed rows were not consumed; all if the table is another one now."""
    is_same = consumed is not None and has_consumed_version(ledger, consumed)
    first = consumed.version + 1 if consumed and is_same else 0
    return sum(version not in ledger.unchanged_versions for version in range(first, ledger.version + 1))


def needs_old_files(export: Export, manifest: Manifest | None, ledger: Ledger, retention: timedelta) -> bool:
    """Whether VACUUM of a table may remove changes that an enabled export has still to read.

    An export that never ran, or that cannot continue, begins with all rows and needs none.
    """
    if not (export.enabled and export.changes) or manifest is None:
        return False
    return has_consumed_version(ledger, manifest.consumed) and is_overdue(ledger, manifest.consumed, retention)


def is_overdue(ledger: Ledger, consumed: Consumed | None, retention: timedelta) -> bool:
    """Whether a change that a reader has not consumed is older than half of the retention.

    VACUUM may then remove files that the reader needs: a file is older than its commit, and half of the retention
    allows for that. The first change need not have the oldest time, because a clock may have been ahead. A reader that
    consumed nothing, or another table, begins with the first version.
    """
    if is_consumed(ledger, consumed):
        return False
    first = ledger.next_change(consumed.version) if consumed and has_consumed_version(ledger, consumed) else 0
    timestamps = {commit["version"]: commit["timestamp"] for commit in read_history(ledger.uri)}
    if first not in timestamps:  # the log expired: the reader cannot continue
        return False
    oldest = min(timestamp for version, timestamp in timestamps.items() if version >= first)
    return datetime.now(UTC) - datetime.fromtimestamp(oldest / 1000, UTC) > retention / 2


def reason_to_wait(settings: Settings, export: Export, retention: timedelta) -> str | None:
    """Why VACUUM of the table has to wait for an export; ``None`` if it need not."""
    status = export_status(settings, export, retention)
    if not status.holds_vacuum:
        return None
    if status.version is None:
        return f"It is unknown what export {export.name} has read: {status.problem}"
    progress = f"export {export.name} has read {export.of} only up to version {status.source_version}"
    return f"{progress}. Run: lakehouse export {export.name}"
