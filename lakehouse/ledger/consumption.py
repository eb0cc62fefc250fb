"""What readers of a table have consumed of it, and what waits for them.

A reader is a change feed, a rollup, a materialized view, an export, or a merged table that reads its base rows. Each
records the version that it has consumed, in its own commit or manifest.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from lakehouse.ledger.commit_infos import identity_of
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table, read_commit, read_history


@dataclass(frozen=True)
class Consumption:
    """How far a reader of a table is: ``source`` is the ledger of the table, ``consumed`` what the reader recorded.

    ``consumed`` is ``None`` if the reader never ran.
    """

    source: Ledger
    consumed: Consumed | None

    @property
    def version(self) -> int | None:
        """The version of the table that the reader has."""
        return self.consumed.version if self.consumed else None

    @cached_property
    def has_source(self) -> bool:
        """Whether the reader has a version of this table, and can continue after it."""
        return self.consumed is not None and has_consumed_version(self.source, self.consumed)

    @property
    def next_version(self) -> int:
        """The next version to read: the first one that may have changed rows since; 0 if the reader cannot continue."""
        return self.source.next_change(self.consumed.version) if self.consumed and self.has_source else 0

    @property
    def _unread_versions(self) -> set[int]:
        return {*range(self.next_version, self.source.version + 1)} - self.source.unchanged_versions

    @property
    def lag(self) -> int:
        """How many versions that may have changed rows the reader does not have; all if it cannot continue."""
        return len(self._unread_versions)

    @property
    def is_current(self) -> bool:
        """Whether the reader has every row of the table."""
        return self.has_source and not self.lag

    @property
    def changed_rows(self) -> int | None:
        """How many rows our commits changed since; ``None`` if other programs committed, or if the reader never ran."""
        metrics = {entry.version: entry.metrics for entry in self.source.entries}
        if self.consumed is None or not self._unread_versions <= metrics.keys():
            return None
        return sum(metrics[v].inserted + metrics[v].updated + metrics[v].deleted for v in self._unread_versions)

    @property
    def is_ahead(self) -> bool:
        """Whether the reader has a later version of the table than the ledger."""
        consumed, source = self.consumed, self.source
        return consumed is not None and consumed.table_id == source.table_id and consumed.version > source.version

    @property
    def is_of_lost_version(self) -> bool:
        """Whether the table no longer has the version that the reader has, as after a restore from a backup."""
        table = open_table(self.source.uri) if self.is_ahead else None  # another process may have committed since
        return table is not None and self.consumed is not None and self.consumed.version > table.version()

    def is_overdue(self, retention: timedelta) -> bool:
        """Whether a change that the reader does not have is older than half of the retention.

        VACUUM may then remove files that the reader needs: a file is older than its commit, and half of the retention
        allows for that. The first change need not have the oldest time, because a clock may have been ahead. A reader
        that cannot continue begins with the first version.
        """
        if self.is_current:
            return False
        first = self.next_version
        timestamps = {commit["version"]: commit["timestamp"] for commit in read_history(self.source.uri)}
        if first not in timestamps:  # the log expired: the reader cannot continue
            return False
        oldest = min(timestamp for version, timestamp in timestamps.items() if version >= first)
        return datetime.now(UTC) - datetime.fromtimestamp(oldest / 1000, UTC) > retention / 2


def version_to_consume(ledger: Ledger) -> Consumed:
    """Return the version that a reader consumes now: the newest one that may have changed a row."""
    info = read_commit(ledger.uri, ledger.rows_version)
    commit = identity_of(info) if info else None
    return Consumed(table_id=ledger.table_id, version=ledger.rows_version, commit=commit)


def has_consumed_version(ledger: Ledger, consumed: Consumed) -> bool:
    """Whether the consumed version is in this table, and was made by the same commit if that is known.

    It is not if the table was recreated or restored from a backup, because version numbers are then used again.
    """
    if consumed.table_id != ledger.table_id or consumed.version > ledger.version:
        return False
    info = read_commit(ledger.uri, consumed.version) if consumed.commit else None
    return info is None or identity_of(info) == consumed.commit
