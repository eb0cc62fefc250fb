"""Runs one export: publishes every row of its table, or what changed since its last version, exactly once."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from lakehouse.declaration import Export
from lakehouse.errors import LakehouseError, TableDamagedError, TableError
from lakehouse.exports.attempts import Attempt, stop_error
from lakehouse.exports.manifests import (
    Manifest,
    export_lock,
    list_versions,
    manifest_path,
    publish,
    read_manifest,
    read_newest,
    remove_leftovers,
)
from lakehouse.exports.progress import find_lost_part, folder_of
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.log_copies import LOG
from lakehouse.settings import Settings


@dataclass(frozen=True)
class OutletUpdate:
    """The result of one run of an outlet.

    ``source_version`` is the version of the table that it has now. ``kind`` says what this run wrote: ``whole`` or
    ``changes``; ``None`` if there was no news. ``rows`` are those that it wrote. ``lag`` is the number of versions of
    the table that it does not have yet.
    """

    name: str
    table: str
    source_version: int
    kind: str | None
    rows: int
    lag: int


@dataclass(frozen=True)
class ExportUpdate(OutletUpdate):
    """The result of one run of an export.

    ``version`` is its newest version, which ``manifest`` publishes. ``files`` and ``bytes`` are what the run wrote.
    """

    version: int
    files: int
    bytes: int
    manifest: str


@dataclass(frozen=True)
class Exporter:
    """An export in an environment."""

    settings: Settings
    export: Export

    @property
    def folder(self) -> Path:
        """The folder of the export."""
        return folder_of(self.settings, self.export)

    @property
    def waits_for(self) -> str | None:
        """The table, if it does not exist yet and nothing was ever published."""
        is_missing = not ledger_of(self.settings, self.export.of).exists
        return self.export.of if is_missing and read_newest(self.folder) is None else None

    def find_news(self) -> str | None:
        """Return why the export is stale, or ``None``. Raises as ``update`` does."""
        self._require_runnable()
        ledger = self._ledger()
        if _has_erased(self.folder, ledger):
            return f"rows of {self.export.of} were erased, and a former version has them"
        return self._find_news(ledger, read_newest(self.folder))

    def update(self, run: str = "", *, whole: bool = False) -> ExportUpdate:
        """Publish a version if there is news, or with ``whole`` in any case, with all rows.

        There is news if a row of the table may have changed, and for an export without changes also if the declaration
        of the export changed or a file is missing. After an erasure, every row is published, and no former version
        stays. A run that dies at any moment leaves the version before it or the
        one that it published, and files that no manifest names, which the next run removes. Raises ``TableError`` if
        the table does not exist, if the changes can no longer be continued, or if the disk fails; ``ConflictError`` if
        another run published first. Nothing is published then.
        """
        self._require_runnable()
        self._ledger()  # without a table, no folder is created
        with self._failures(), export_lock(self.folder, self.export.name):
            newest, ledger = self._read_own_manifest(), self._ledger()
            remove_leftovers(self.folder, self.export.name)
            has_erased = _has_erased(self.folder, ledger)
            whole = whole or has_erased
            if not whole and newest is not None and self._find_news(ledger, newest) is None:
                return self._describe(newest, None)
            since = newest.consumed.version if newest and self.export.changes and not whole else None
            attempt = Attempt(self.settings, self.export, self.folder, ledger, newest, since, uuid4().hex)
            manifest = self._publish(attempt, run or self.settings.command_run)
            update = self._describe(manifest, manifest.kind)
        if has_erased:
            self._remove_former(update.version)
        return update

    def replace_versions(self, run: str = "") -> ExportUpdate | None:
        """Publish every row again, and remove all former versions at once, as after an erasure.

        ``None`` if nothing was ever published. A reader of a former version fails, and reads the new one. Raises as
        ``update`` does. A second run does it again.
        """
        if read_newest(self.folder) is None:
            return None
        update = self.update(run, whole=True)
        self._remove_former(update.version)
        return update

    def _remove_former(self, version: int) -> None:
        with export_lock(self.folder, self.export.name):
            try:
                remove_leftovers(self.folder, self.export.name, former=True)
            except OSError as error:
                message = f"Version {version} of export {self.export.name} is published, but files of former ones stay"
                action = f"Remove {error.filename}, and run it again."
                raise TableError(f"{message}: {error.strerror}", where=str(self.folder), action=action) from error

    def _publish(self, attempt: Attempt, run: str) -> Manifest:
        try:
            manifest = attempt.write(run)
            publish(self.folder, manifest, sync=self.settings.sync)
        finally:
            with suppress(OSError, LakehouseError):  # the next run removes what stays
                remove_leftovers(self.folder, self.export.name)
        return manifest

    def _require_runnable(self) -> None:
        export = self.export
        if not export.enabled:
            raise TableError(f"Export {export.name} is disabled", action="Remove enabled=False from its declaration.")
        if self.folder.is_relative_to(self.settings.tables_root):
            message = f"The folder of export {export.name} is in the folder of the tables"
            raise TableError(message, where=str(self.folder), action="Correct folder= of the export.")
        if any((place / LOG).is_dir() for place in (self.folder, *self.folder.parents)):
            message = f"The folder of export {export.name} is in a Delta table, whose VACUUM would remove the files"
            raise TableError(message, where=str(self.folder), action="Correct folder= of the export.")

    def _read_own_manifest(self) -> Manifest | None:
        newest = read_newest(self.folder)
        if newest and newest.export != self.export.name:
            message = f"The folder of export {self.export.name} belongs to export {newest.export}"
            raise TableError(message, where=str(self.folder), action="Correct folder= of the export.")
        return newest

    def _ledger(self) -> Ledger:
        ledger = ledger_of(self.settings, self.export.of)
        if not ledger.exists:
            message = f"Export {self.export.name} is of {self.export.of}, which does not exist yet"
            raise TableError(message, where=ledger.uri, action="Create it first, by a merge or by loading its file.")
        return ledger

    def _find_news(self, ledger: Ledger, newest: Manifest | None) -> str | None:
        """Say what news there is; raises ``TableError`` if changes cannot be continued."""
        if newest is None:
            return "nothing is exported yet"
        consumption = Consumption(ledger, newest.consumed)
        is_redeclared = newest.declaration != self.export.fingerprint
        lost_part = find_lost_part(self.folder, self.export, newest)
        if self.export.changes:
            if is_redeclared:
                raise self._stop(f"its declaration changed after version {newest.version} of the export")
            if not consumption.has_source:
                raise self._stop(f"{self.export.of} was created again, or restored from a backup")
            if lost_part:
                raise self._stop(lost_part)
        elif is_redeclared:
            return "the declaration of the export changed"
        elif lost_part:
            return lost_part
        return None if consumption.is_current else f"rows of {self.export.of} may have changed"

    def _stop(self, reason: str) -> TableError:
        return stop_error(self.export, self.folder, reason)

    def _describe(self, manifest: Manifest, kind: str | None) -> ExportUpdate:
        files = manifest.files if kind else ()
        return ExportUpdate(
            self.export.name,
            self.export.of,
            manifest.consumed.version,
            kind,
            sum(file.rows for file in files),
            Consumption(self._ledger(), manifest.consumed).lag,
            manifest.version,
            len(files),
            sum(file.bytes for file in files),
            str(manifest_path(self.folder, manifest.version)),
        )

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise failures of the disk, and values that a format cannot hold, as ``TableError``."""
        name, where = self.export.name, str(self.folder)
        try:
            yield
        except OSError as error:
            action = "Nothing was published. Make room, or correct the folder, and run it again."
            message = f"Export {name} cannot be written: {error.strerror or error}"
            raise TableError(message, where=where, action=action) from error
        except (pa.ArrowException, ValueError) as error:
            action = "Nothing was published. Choose another format, or leave the column out with columns=."
            message = f"Export {name} has a value that cannot be written as {self.export.format}: {error}"
            raise TableError(message, where=where, action=action) from error


def _has_erased(folder: Path, ledger: Ledger) -> bool:
    """Whether a version of the export may have rows that were erased from its table since."""
    erasures = (e.version for e in ledger.entries if e.commit.kind == "erasure" and e.metrics.deleted)
    last_erasure = max(erasures, default=-1)
    oldest_versions = list_versions(folder)[:1] if last_erasure >= 0 else ()  # the others have read newer ones
    for version in oldest_versions:
        with suppress(TableDamagedError):  # which the next versions replace
            consumed = read_manifest(folder, version).consumed
            return consumed.table_id == ledger.table_id and consumed.version < last_erasure
    return False
