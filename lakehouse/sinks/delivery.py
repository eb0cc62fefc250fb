"""Runs one sink: brings its target to the newest version of the table, together with the progress, or not at all."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lakehouse.declaration.sink import RowIdentity, Sink
from lakehouse.errors import TableError
from lakehouse.exports.exporter import OutletUpdate
from lakehouse.ledger.audit import Finding, finding
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.consumption import Consumption, version_to_consume
from lakehouse.ledger.ledger import ledger_of
from lakehouse.settings import Settings
from lakehouse.sinks.changed_rows import SourceRows
from lakehouse.sinks.postgres import PostgresTarget, Written
from lakehouse.sinks.progress import open_connection
from lakehouse.storage.row_changes import ChangesGoneError

_log = logging.getLogger(__name__)
_NO_IDENTITY = RowIdentity(())


@dataclass(frozen=True)
class SinkUpdate(OutletUpdate):
    """The result of one run of a sink: ``deleted`` rows are gone from the target; ``rows`` were written."""

    deleted: int
    target: str


@dataclass(frozen=True)
class Delivery:
    """A sink in an environment; ``identity`` are the columns that identify a row of its table."""

    settings: Settings
    sink: Sink
    identity: RowIdentity = _NO_IDENTITY

    @property
    def waits_for(self) -> str | None:
        """The table, if it does not exist yet."""
        return None if ledger_of(self.settings, self.sink.of).exists else self.sink.of

    def find_news(self) -> str | None:
        """Return why the target is stale, or ``None``. Raises as ``update`` does."""
        with self._open(locked=False) as target:
            return self._find_reason(target) or (None if self._consumption(target).is_current else self._stale)

    def update(self, run: str = "", *, whole: bool = False) -> SinkUpdate:
        """Bring the target to the newest version of the table, by what changed, or with ``whole`` by all rows.

        All rows are compared also if the changes cannot be continued: the table was restored or created again, VACUUM
        removed them, or the columns of the sink changed. Only rows that differ are written. A run that dies at any
        moment leaves the target as it was, or complete. Raises ``TableError`` if the table does not exist, or if the
        target refuses; nothing is written then.
        """
        if not self.sink.enabled:
            raise TableError(f"Sink {self.sink.name} is disabled", action="Remove enabled=False from its declaration.")
        run = run or self.settings.command_run
        try:
            return self._deliver(run, "all rows were asked for" if whole else None)
        except ChangesGoneError as error:
            return self._deliver(run, error.what)

    def replace_versions(self, run: str = "") -> SinkUpdate | None:
        """Delete from the target what was erased from the table; ``None`` if it has nothing."""
        with self._open(locked=False) as target:
            has_rows = target.progress is not None
        return self.update(run) if has_rows else None

    def equals_table(self) -> Finding:
        """Compare every value of the target with the version of the table that it has."""
        with self._open(locked=False) as target:
            progress, ledger = target.progress, target.source.ledger
            if progress is None or not self._consumption(target).has_source:
                return finding("equals_table", [], f"it has no version of {self.sink.of} yet")
            # the newest version with these rows: VACUUM may have removed files of others
            version = min(ledger.next_change(progress.consumed.version) - 1, ledger.version)
            with replace(target.source, ledger=replace(ledger, version=version)).open(None) as batches:
                differences = target.find_differences(batches)
        texts = zip(differences, ("are missing", "are only there", "have other values"), strict=True)
        problems = [f"{count:,} rows {text}." for count, text in texts if count]
        fact = f"every row equals version {progress.consumed.version} of {self.sink.of}"
        return finding("equals_table", problems, fact, f"Correct it: lakehouse export {self.sink.name} --whole")

    def _deliver(self, run: str, reason: str | None) -> SinkUpdate:
        with self._open(locked=True) as target:
            reason = reason or self._find_reason(target)
            consumption = self._consumption(target)
            if reason is None and consumption.is_current:
                return self._describe(consumption, None, Written(0, 0))
            is_whole = reason is not None
            if is_whole and consumption.consumed:
                _log.warning("Sink %s compares all rows: %s", self.sink.name, reason)
            with target.source.open(None if is_whole else consumption.version) as batches:
                written = target.replace_rows(batches) if is_whole else target.apply_changes(batches)
            consumed = version_to_consume(target.source.ledger)
            target.record_progress(consumed, run)
        return self._describe(Consumption(target.source.ledger, consumed), "whole" if is_whole else "changes", written)

    def _find_reason(self, target: PostgresTarget) -> str | None:
        """Why the target cannot be brought to the newest version by what changed."""
        progress = target.progress
        if progress is None:
            return "nothing was written yet"
        if target.preparation:
            return "its columns changed"
        if not self._consumption(target).has_source:
            return f"{self.sink.of} was created again, or restored from a backup"
        return None

    @property
    def _stale(self) -> str:
        return f"rows of {self.sink.of} may have changed"

    def _consumption(self, target: PostgresTarget) -> Consumption:
        consumed: Consumed | None = target.progress.consumed if target.progress else None
        return Consumption(target.source.ledger, consumed)

    @contextmanager
    def _open(self, *, locked: bool) -> Iterator[PostgresTarget]:
        """Open the target, and then read the ledger: with the lock, the target has no later version."""
        with open_connection(self.settings, self.sink, locked=locked) as connection:
            ledger = ledger_of(self.settings, self.sink.of)
            if not ledger.exists:
                message = f"Sink {self.sink.name} is of {self.sink.of}, which does not exist yet"
                action = "Create it first, by a merge or by loading its file."
                raise TableError(message, where=ledger.uri, action=action)
            yield PostgresTarget(connection, self.sink, SourceRows(self.settings, self.sink, self.identity, ledger))

    def _describe(self, consumption: Consumption, kind: str | None, written: Written) -> SinkUpdate:
        sink, version = self.sink, consumption.version or 0
        figures = (sink.name, sink.of, version, kind, written.rows, consumption.lag)
        return SinkUpdate(*figures, written.deleted, sink.to.place)
