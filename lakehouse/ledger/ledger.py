"""The ledger: the batches of a table as its own history tells them. Reads the log in Python, no JVM.

The newest entry is enough to go on; the whole history is the proof.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from deltalake import DeltaTable

from lakehouse.errors import LedgerError
from lakehouse.ledger.commits import Commit, Consumed, Entry, Kind, Totals, entry_of, identity_of
from lakehouse.ledger.differences import unaccounted
from lakehouse.ledger.log import history_of, open_table, read_commit
from lakehouse.ledger.log_cache import Kept
from lakehouse.ledger.positions import Progress
from lakehouse.ledger.reached import Reached, beyond, furthest
from lakehouse.ledger.restores import Foreign, Standing, restored_version, standing
from lakehouse.ledger.row_versions import unchanged_versions
from lakehouse.ledger.table_failures import log_failures
from lakehouse.ledger.understood import require_understood
from lakehouse.settings import Settings

_NEWEST = 100  # commits read first: the entry looked for is nearly always among them


@dataclass(frozen=True)
class Ledger:
    """A table's history, newest first, as far as it was read.

    ``transaction`` is the table's transaction number: 0 where none of our commits was made. ``complete`` says that the
    history reaches back to the table's creation. ``undone`` are the numbers of our commits that a RESTORE undid or made
    void: what they say of themselves no longer holds; ``unread`` says that progress was among it, and ``reread`` where
    the positions end that they read. ``unchanged`` are versions of which is known that they changed no row:
    maintenance, and what keeps the table in shape. ``untold`` is the version of a RESTORE before all entries, of which
    nothing tells what it put back.
    """

    uri: str
    exists: bool = False
    table_id: str = ""
    version: int = -1
    transaction: int = 0
    complete: bool = True
    entries: tuple[Entry, ...] = ()
    foreign: tuple[Foreign, ...] = field(default=())
    undone: frozenset[int] = frozenset()
    unread: bool = False
    reread: Reached = field(default_factory=dict)
    unchanged: frozenset[int] = frozenset()
    untold: int | None = None

    @property
    def newest(self) -> Entry | None:
        """The entry that tells how far the table got: that of the transaction number, else the newest."""
        numbered = (entry for entry in self.entries if entry.commit.number == self.transaction)
        return next(numbered, self.entries[0] if self.entries else None)

    @property
    def next_number(self) -> int:
        """The number of the next commit; it never goes back, not even by a RESTORE."""
        return self.transaction + 1

    def next_commit(self, kind: Kind, run: str) -> Commit:
        """Return the commit that follows: the next number, a new attempt, and all that is carried on."""
        last = self.newest.commit if self.newest else None
        return Commit(
            kind=kind,
            number=self.next_number,
            attempt=uuid.uuid4().hex,
            table_version=self.version,
            rows_version=self.rows_version,
            stream=last.stream if last else None,
            source=last.source if last else None,
            progress=last.progress if last else None,
            reached=beyond(self.reached, last.ends if last else {}),
            totals_before=self.totals,
            consumed=last.consumed if last else None,
            folder=last.folder if last else None,
            declaration=last.declaration if last else "",
            run=run,
            unaccounted=self.unaccounted,
        )

    @property
    def progress(self) -> Progress | None:
        """The next position to read of every partition; ``None`` before the first batch."""
        commit = self.newest.commit if self.newest else None
        if commit is None or commit.progress is None or commit.source is None:
            return None
        return Progress(commit.source, commit.progress)

    @property
    def reached(self) -> Reached:
        """Where the positions end that were ever read, also by commits that do not count: rows of them may be there."""
        last = self.newest.commit if self.newest else None
        return furthest(self.reread, last.reached, last.ends) if last else self.reread

    def merged_by_key(self) -> "Ledger":
        """The ledger of a table with a key: what a RESTORE undid is read again into the same rows, and leaves none."""
        return replace(self, reread={})

    @property
    def unaccounted(self) -> tuple[int, ...]:
        """The versions that do not add up, whose differences nobody accepted."""
        return unaccounted(self.entries)

    @property
    def consumed(self) -> Consumed | None:
        """The version merged so far of the base table, or of the table that this one follows."""
        return self.newest.commit.consumed if self.newest else None

    @property
    def totals(self) -> Totals:
        """Sums over the batches."""
        return self.newest.totals if self.newest else Totals()

    @property
    def rows_version(self) -> int:
        """The newest version that may have changed a row; what follows another table names this one."""
        version = self.version
        while version in self.unchanged:
            version -= 1
        return version

    def next_change(self, version: int) -> int:
        """Return the first version after this one that may have changed a row; beyond the newest: none did."""
        version += 1
        while version in self.unchanged:
            version += 1
        return version

    def is_consumed(self, consumed: Consumed | None) -> bool:
        """Whether whoever consumed that has seen every row this table holds."""
        return (
            consumed is not None and self.next_change(consumed.version) > self.version and still_holds(self, consumed)
        )


_KEPT = Kept[Ledger](lambda ledger: ledger.version)


def to_consume(ledger: Ledger) -> Consumed:
    """The version that whoever follows a table consumes now: the newest that may have changed a row."""
    info = read_commit(ledger.uri, ledger.rows_version)
    commit = identity_of(info) if info else None
    return Consumed(table_id=ledger.table_id, version=ledger.rows_version, commit=commit)


def still_holds(ledger: Ledger, consumed: Consumed) -> bool:
    """Whether the version consumed is in this table, and was made by the same commit as far as that is told.

    It is not where the table was made anew, or was brought back from a backup: then it goes through the same versions
    again.
    """
    if consumed.table_id != ledger.table_id or consumed.version > ledger.version:
        return False
    info = read_commit(ledger.uri, consumed.version) if consumed.commit else None
    return info is None or identity_of(info) == consumed.commit


def app_id(name: str) -> str:
    """The transaction id under which a table of that name is written."""
    return f"lakehouse:{name}"


def read_ledger(uri: str, name: str, *, whole: bool = False) -> Ledger:
    """Read the ledger of a table: the newest part of it, or the whole history.

    A table that does not exist has an empty ledger. The newest part reaches back to a commit that tells how far
    the table got, and over every RESTORE behind which a batch has not been merged. Raises ``TableError`` where
    the log cannot be read, ``LedgerError`` where another version of lakehouse wrote it.
    """
    if whole:
        return _read_ledger(uri, name, None)
    return _KEPT.read((uri, name), uri, lambda: _read_ledger(uri, name, _NEWEST))


def ledger_of(settings: Settings, name: str, *, whole: bool = False) -> Ledger:
    """Read the ledger of the table of that name, as ``read_ledger`` does."""
    return read_ledger(settings.table_uri(name), name, whole=whole)


def _read_ledger(uri: str, name: str, limit: int | None) -> Ledger:
    table = open_table(uri)
    if table is None:
        return Ledger(uri)
    with log_failures(uri):
        table_id = str(table.metadata().id)
        history, found = _read(table, uri, table_id, limit)
        if limit and not found.is_told_by(_oldest(history)):
            history, found = _read(table, uri, table_id, None)
        return Ledger(
            uri=uri,
            exists=True,
            table_id=table_id,
            version=table.version(),
            transaction=table.transaction_version(app_id(name)) or 0,
            complete=_oldest(history) == 0,
            entries=tuple(found.entries),
            foreign=tuple(found.foreign),
            undone=frozenset(found.undone),
            unread=found.unread,
            reread=found.reached,
            unchanged=unchanged_versions(history),
            untold=found.untold,
        )


def _read(table: DeltaTable, uri: str, table_id: str, limit: int | None) -> tuple[list[dict[str, Any]], Standing]:
    history = history_of(table, uri, limit)
    require_understood(history, uri)
    ours = (entry.version for info in history if (entry := entry_of(info)))
    oldest = min(ours, default=0) if limit is None else 0  # there may be older ones
    return history, standing(history, partial(restored_version, uri, table_id, oldest))


def _oldest(history: Sequence[Mapping[str, Any]]) -> int:
    return int(history[-1]["version"]) if history else -1


def require_told(ledger: Ledger, name: str) -> Ledger:
    """Return the ledger, or raise ``LedgerError`` where the log no longer says how far the table got."""
    if ledger.untold is not None:
        raise LedgerError(
            f"Nothing tells which version of {name} the RESTORE of version {ledger.untold} put back: it names none, and"
            " no version that the log still holds has the files of the table",
            where=ledger.uri,
            action="RESTORE it again TO VERSION AS OF the one that was meant, or see and record what the rows"
            f" themselves say with: lakehouse recover-progress {name}",
        )
    if ledger.newest is None and ledger.transaction and not ledger.complete:
        raise LedgerError(
            f"The log of {name} no longer holds a commit that tells its progress",
            where=ledger.uri,
            action=f"See and record what the rows themselves say with: lakehouse recover-progress {name}",
        )
    return ledger


def find_attempt(uri: str, name: str, attempt: str) -> Entry | None:
    """Return the entry an attempt committed, or ``None`` where it did not commit."""
    return next((entry for entry in read_ledger(uri, name).entries if entry.commit.attempt == attempt), None)


def find_commit(uri: str, name: str, commit: Commit) -> Entry | None:
    """Return the entry of a commit that was just made, or ``None`` where it does not count.

    Right behind the version it was planned on it counts, whatever the rest of the history says.
    """
    version = commit.table_version + 1
    info = read_commit(uri, version)
    entry = entry_of(info | {"version": version}) if info else None
    return entry if entry and entry.commit.attempt == commit.attempt else find_attempt(uri, name, commit.attempt)
