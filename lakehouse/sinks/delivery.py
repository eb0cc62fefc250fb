"""What every sink does: it brings its target to the newest version of the table, with the progress, or not at all."""

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import NamedTuple

from lakehouse.declaration.sink import RowIdentity, Sink
from lakehouse.errors import TableError
from lakehouse.exports.exporter import OutletUpdate
from lakehouse.ledger.audit import Finding, finding
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.settings import Settings
from lakehouse.sinks.changed_rows import SourceRows
from lakehouse.storage.row_changes import ChangesGoneError

_log = logging.getLogger(__name__)


class Written(NamedTuple):
    """How many rows a run wrote into a target, inserted or updated, and how many it deleted there."""

    rows: int
    deleted: int


class Differences(NamedTuple):
    """How many rows of a table the target does not have, has too much, or has with other values."""

    missing: int
    surplus: int
    different: int


_EQUAL = Differences(0, 0, 0)


class TargetState(NamedTuple):
    """How far a target is, and ``reason``: why it has to be compared as a whole; ``None`` if it can be continued.

    ``has_rows``: it may have rows, also if it has no version as a whole.
    """

    consumption: Consumption
    reason: str | None
    has_rows: bool


@dataclass(frozen=True)
class SinkUpdate(OutletUpdate):
    """The result of one run of a sink: ``deleted`` rows are gone from the target; ``rows`` were written."""

    deleted: int
    target: str


@dataclass(frozen=True)
class Delivery(ABC):
    """A sink in an environment; ``identity`` are the columns that identify a row of its table."""

    settings: Settings
    sink: Sink
    identity: RowIdentity

    @property
    def waits_for(self) -> str | None:
        """The table, if it does not exist yet."""
        return None if ledger_of(self.settings, self.sink.of).exists else self.sink.of

    def find_news(self) -> str | None:
        """Return why the target is stale, or ``None``. Raises as ``update`` does."""
        state = self.look()
        return state.reason or (None if state.consumption.is_current else f"rows of {self.sink.of} may have changed")

    def update(self, run: str = "", *, whole: bool = False) -> SinkUpdate:
        """Bring the target to the newest version of the table, by what changed, or with ``whole`` by all rows.

        All rows are compared also if the changes cannot be continued: the table was restored or created again, VACUUM
        removed them, or the columns of the sink changed. Only rows that differ are written. A run that dies at any
        moment leaves the target at the version that it had, or at the newest. Raises ``TableError`` if the table does
        not exist, or if the target refuses; nothing is written then.
        """
        if not self.sink.enabled:
            raise TableError(f"Sink {self.sink.name} is disabled", action="Remove enabled=False from its declaration.")
        run = run or self.settings.command_run
        try:
            return self.deliver(run, "all rows were asked for" if whole else None)
        except ChangesGoneError as error:
            return self.deliver(run, error.what)

    def replace_versions(self, run: str = "") -> SinkUpdate | None:
        """Delete from the target what was erased from the table; ``None`` if it has nothing."""
        return self.update(run) if self.look().has_rows else None

    @abstractmethod
    def look(self) -> TargetState:
        """Look how far the target is."""

    @abstractmethod
    def deliver(self, run: str, reason: str | None) -> SinkUpdate:
        """Bring the target to the newest version, because of a ``reason`` by all rows.

        Raises ``ChangesGoneError`` if the changes cannot be read; nothing is written then.
        """

    @abstractmethod
    def equals_table(self) -> Finding:
        """Compare every value of the target with the version of the table that it has."""

    @abstractmethod
    def statements(self) -> list[str]:
        """What a run does in the target, as text."""

    def source(self) -> SourceRows:
        """The table as it is now. ``TableError`` if it does not exist."""
        ledger = ledger_of(self.settings, self.sink.of)
        if not ledger.exists:
            message = f"Sink {self.sink.name} is of {self.sink.of}, which does not exist yet"
            action = "Create it first, by a merge or by loading its file."
            raise TableError(message, where=ledger.uri, action=action)
        return SourceRows(self.settings, self.sink, self.identity, ledger)

    def _state(self, ledger: Ledger, consumed: Consumed | None, *, has_other_columns: bool) -> TargetState:
        consumption, reason = Consumption(ledger, consumed), None
        if consumed is None:
            reason = "nothing was written yet"
        elif has_other_columns:
            reason = "its columns changed"
        elif not consumption.has_source:
            reason = f"{self.sink.of} was created again, or restored from a backup"
        return TargetState(consumption, reason, has_rows=consumed is not None)

    def announce(self, state: TargetState) -> None:
        """Say why all rows are compared."""
        if state.reason and state.consumption.consumed:
            _log.warning("Sink %s compares all rows: %s", self.sink.name, state.reason)

    def _describe(self, consumed: Consumed, kind: str | None, written: Written) -> SinkUpdate:
        sink, lag = self.sink, Consumption(ledger_of(self.settings, self.sink.of), consumed).lag
        figures = (sink.name, sink.of, consumed.version, kind, written.rows, lag)
        return SinkUpdate(*figures, written.deleted, sink.to.place)

    def _finding(
        self, version: int | None, differences: Differences = _EQUAL, fact: str = "every row equals"
    ) -> Finding:
        """Say what differs from a version of the table; ``None`` if the target has none yet."""
        if version is None:
            return finding("equals_table", [], f"it has no version of {self.sink.of} yet")
        texts = zip(differences, ("are missing", "are only there", "have other values"), strict=True)
        problems = [f"{count:,} rows {text}." for count, text in texts if count]
        return finding(
            "equals_table",
            problems,
            f"{fact} version {version} of {self.sink.of}",
            f"Correct it: lakehouse export {self.sink.name} --whole",
        )


def as_of(source: SourceRows, version: int) -> SourceRows:
    """Return the table as of the newest version with the rows of this one: VACUUM may have removed files of others."""
    newest_equal = min(source.ledger.next_change(version) - 1, source.ledger.version)
    return replace(source, ledger=replace(source.ledger, version=newest_equal))
