"""The ledger: the batches of a table as its own history tells them. Reads the log in Python, no JVM.

The newest entry is enough to go on; the whole history is the proof.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from deltalake import DeltaTable

from lakehouse.commits import (
    VERSION,
    Commit,
    Entry,
    Kind,
    Newer,
    Source,
    Totals,
    Upkeep,
    committed_at,
    entry_of,
    said_by,
)
from lakehouse.errors import LedgerError
from lakehouse.failures import log_failures, open_table
from lakehouse.offsets import Progress

_NEWEST = 100  # commits read first: the entry looked for is nearly always among them
_MOVE_ROWS = ("OPTIMIZE", "VACUUM START", "VACUUM END")  # operations that change no row, whoever ran them
_CARRY_ON = ("maintenance", "migration")  # commits of ours that change no row


@dataclass(frozen=True)
class Foreign:
    """A commit that is not ours, or one of ours that a RESTORE made void."""

    version: int
    operation: str
    committed_at: datetime


@dataclass(frozen=True)
class Ledger:
    """A table's history, newest first, as far as it was read.

    ``transaction`` is the table's transaction number: 0 where none of our commits was made.
    ``complete`` says that the history reaches back to the table's creation. ``undone`` are the numbers of
    our commits that a RESTORE undid or made void: what they say of themselves no longer holds. ``still``
    are versions of which is known that they changed no row: maintenance, and what keeps the table in shape.
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
    still: frozenset[int] = frozenset()

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
            topic=last.topic if last else None,
            incarnation=last.incarnation if last else None,
            progress=last.progress if last else None,
            totals_before=self.totals,
            source=last.source if last else None,
            folder=last.folder if last else None,
            declaration=last.declaration if last else "",
            run=run,
        )

    @property
    def progress(self) -> Progress | None:
        """The next offset to read of every partition; ``None`` before the first batch."""
        commit = self.newest.commit if self.newest else None
        if commit is None or commit.progress is None or commit.incarnation is None:
            return None
        return Progress(commit.incarnation, commit.progress)

    @property
    def source(self) -> Source | None:
        """The version of the source (or base) table merged so far."""
        return self.newest.commit.source if self.newest else None

    @property
    def totals(self) -> Totals:
        """Sums over the batches."""
        return self.newest.totals if self.newest else Totals()

    @property
    def rows_version(self) -> int:
        """The newest version that may have changed a row; what follows another table names this one."""
        version = self.version
        while version in self.still:
            version -= 1
        return version

    def next_change(self, version: int) -> int:
        """Return the first version after this one that may have changed a row; beyond the newest: none did."""
        version += 1
        while version in self.still:
            version += 1
        return version

    def is_consumed(self, source: Source | None) -> bool:
        """Whether whoever consumed ``source`` has seen every row this table holds."""
        if source is None or source.table_id != self.table_id or source.version > self.version:
            return False
        return self.next_change(source.version) > self.version


def app_id(name: str) -> str:
    """The transaction id under which a table of that name is written."""
    return f"lakehouse:{name}"


def read_ledger(uri: str, name: str, *, whole: bool = False) -> Ledger:
    """Read the ledger of a table: the newest part of it, or the whole history.

    A table that does not exist has an empty ledger. Raises ``TableError`` where its log cannot be read.
    """
    table = open_table(uri)
    if table is None:
        return Ledger(uri)
    with log_failures(uri):
        ledger = _read(table, uri, name, None if whole else _NEWEST)
        return ledger if ledger.newest or ledger.complete else _read(table, uri, name, None)


def require_told(ledger: Ledger, name: str) -> Ledger:
    """Return the ledger, or raise ``LedgerError`` where the log no longer says how far the table got."""
    if ledger.newest is None and ledger.transaction and not ledger.complete:
        raise LedgerError(
            f"The log of {name} no longer holds a commit that tells its progress",
            where=ledger.uri,
            action=f"See and record what the rows themselves say with: lakehouse recover-progress {name}",
        )
    return ledger


def count_rows(uri: str) -> int:
    """Count the rows of a table, from its log alone; 0 where there is no table."""
    table = open_table(uri)
    with log_failures(uri):
        return int(table.count()) if table else 0


def _read(table: DeltaTable, uri: str, name: str, limit: int | None) -> Ledger:
    history = table.history(limit)
    _require_understood(history, uri)
    entries, foreign, undone = walk(history)
    complete = bool(history) and history[-1]["version"] == 0
    transaction = table.transaction_version(app_id(name)) or 0
    return Ledger(
        uri=uri,
        exists=True,
        table_id=str(table.metadata().id),
        version=table.version(),
        transaction=transaction,
        complete=complete,
        entries=entries,
        foreign=foreign,
        undone=undone,
        still=still_versions(history),
    )


def _require_understood(history: Iterable[dict[str, Any]], uri: str) -> None:
    """Raise where a newer lakehouse committed: to pass its commits over would be to go on at an older progress."""
    for info in history:
        said = said_by(info)
        if isinstance(said, Newer):
            raise LedgerError(
                f"Version {info['version']} was committed by a newer lakehouse (metadata {said.metadata};"
                f" this process understands {VERSION})",
                where=uri,
                action="Upgrade this process to the version of lakehouse that wrote it; nothing was changed.",
            )


def still_versions(history: Iterable[dict[str, Any]]) -> frozenset[int]:
    """Return the versions that changed no row: their operation tells, or a later commit of ours says so."""
    still: set[int] = set()
    for info in history:
        version, said, entry = int(info["version"]), said_by(info), entry_of(info)
        if entry and entry.commit.rows_version is not None:
            still.update(range(entry.commit.rows_version + 1, entry.commit.table_version + 1))
        moves_rows = str(info.get("operation")) in _MOVE_ROWS or (entry and entry.commit.kind in _CARRY_ON)
        if moves_rows or isinstance(said, Upkeep):
            still.add(version)
    return frozenset(still)


def walk(history: Iterable[dict[str, Any]]) -> tuple[tuple[Entry, ...], tuple[Foreign, ...], frozenset[int]]:
    """Walk a history backwards, newest first, into entries, foreign commits and the numbers undone.

    A RESTORE is not scanned past: what it undid is left out and the walk goes on at the version it
    restored. A batch planned before a RESTORE and committed after it is void: its rows are in the table,
    but the progress is the restored one, so its ranges are read again.
    """
    entries: list[Entry] = []
    foreign: list[Foreign] = []
    undone: list[Entry | None] = []
    upto: int | None = None
    restored_at: datetime | None = None
    for info in history:
        version, at = int(info["version"]), committed_at(info)
        operation = str(info.get("operation", "UNKNOWN"))
        entry = entry_of(info)
        if (upto is not None and version > upto) or (restored_at is not None and at > restored_at):
            undone.append(entry)
            continue
        upto = restored_at = None
        if entry:
            entries.append(entry)
            continue
        if operation == "RESTORE":
            void = [e for e in entries if e.commit.table_version < version]
            entries = [e for e in entries if e.commit.table_version >= version]
            undone += void
            foreign += [Foreign(e.version, "MERGE made void by a RESTORE", e.committed_at) for e in void]
            upto, restored_at = _restored(info)
        if not operation.startswith("CREATE TABLE") and not isinstance(said_by(info), Upkeep):
            foreign.append(Foreign(version, operation, at))
    return tuple(entries), tuple(foreign), frozenset(entry.commit.number for entry in undone if entry)


def _restored(info: dict[str, Any]) -> tuple[int | None, datetime | None]:
    parameters = info.get("operationParameters") or {}
    version, timestamp = parameters.get("version"), parameters.get("timestamp")
    if version not in (None, "", "null"):
        return int(version), None
    return None, datetime.fromisoformat(str(timestamp)).replace(tzinfo=UTC)


def find_attempt(uri: str, name: str, attempt: str) -> Entry | None:
    """Return the entry an attempt committed, or ``None`` where it did not commit."""
    with log_failures(uri):
        entries = _read(DeltaTable(uri), uri, name, _NEWEST).entries
    return next((entry for entry in entries if entry.commit.attempt == attempt), None)
