"""The ledger: the batches of a table, read from its own history. Reads the log in Python, without a JVM.

The newest entry is enough to continue; the whole history is the proof.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from deltalake import DeltaTable

from lakehouse.errors import LedgerError, restore_advice
from lakehouse.ledger.accounting import unaccounted_versions
from lakehouse.ledger.commit_infos import (
    ends_of,
    entry_of,
    metadata_of,
    names_of_progress,
    of_stream,
    require_readable,
    still_awaited,
)
from lakehouse.ledger.commit_values import Consumed, LastRecords, ReachedEnds, Totals, merge_reached, reached_beyond
from lakehouse.ledger.commits import Commit, Entry, Kind, Upkeep
from lakehouse.ledger.log import history_of, open_table, read_commit
from lakehouse.ledger.log_digests import digest_of, require_unreplaced
from lakehouse.ledger.log_files import LogCache
from lakehouse.ledger.positions import Progress, Range, SourceId
from lakehouse.ledger.restores import Foreign, ValidHistory, restored_version, valid_history
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings

_OPERATIONS = ("OPTIMIZE", "VACUUM START", "VACUUM END")  # they change no row, no matter which program runs them
_KINDS = ("maintenance", "purge", "rewrite", "acceptance", "wait")  # lakehouse commits that change no row
_CARRIED = (
    *("stream", "source", "progress", "left_out", "last_records", "versions_before", "other_sources"),
    *("consumed", "folder", "deletes_table", "rejected_table", "consumed_tables"),
    *("snapshot_position", "snapshot_end", "origins", "truncate", "purged", "declaration", "meaning", "outdated"),
)
"""The fields of a commit that the next one repeats, unless it has others."""
_PLANNED = ("number", "table_version", "follows", "rows_version", "totals_before", "truncate")
"""The fields of a commit that change if a commit without records comes before it."""
_NEWEST_COMMITS = 100  # read first: they nearly always contain the entry in question


def unchanged_versions(history: Iterable[Mapping[str, Any]]) -> frozenset[int]:
    """Return the versions that changed no row, according to their operation or to a later lakehouse commit."""
    unchanged: set[int] = set()
    for info in history:
        version, metadata, entry = int(info["version"]), metadata_of(info), entry_of(info)
        if entry and entry.commit.rows_version is not None:
            unchanged.update(range(entry.commit.rows_version + 1, entry.commit.table_version + 1))
        keeps_rows = str(info.get("operation")) in _OPERATIONS or (entry and entry.commit.kind in _KINDS)
        if keeps_rows or isinstance(metadata, Upkeep):
            unchanged.add(version)
    return frozenset(unchanged)


@dataclass(frozen=True)
class Ledger:
    """The part of a table's history that was read, newest first.

    - ``transaction``: the table's transaction number; 0 if it has no lakehouse commit.
    - ``complete``: whether the history reaches back to the creation of the table.
    - ``undone_numbers``: the numbers of our commits that a RESTORE undid or voided; their metadata is no longer valid.
    - ``has_undone_progress``, ``undone_ends``: whether progress was undone with them, and the end of what they read.
    - ``restored_sources``: the sources that had progress in them, with their names.
    - ``unchanged_versions``: versions known to have changed no row, such as maintenance.
    - ``unknown_restore``: the version of a RESTORE before all entries, if the version that it restored is unknown.
    - ``stream``: the name of the source whose progress this is, if the table reads several; else ``None``.
    """

    uri: str
    exists: bool = False
    table_id: str = ""
    version: int = -1
    transaction: int = 0
    complete: bool = True
    entries: tuple[Entry, ...] = ()
    foreign: tuple[Foreign, ...] = field(default=())
    undone_numbers: frozenset[int] = frozenset()
    has_undone_progress: bool = False
    undone_ends: ReachedEnds = field(default_factory=dict)
    restored_sources: Mapping[str, str] = field(default_factory=dict)
    unchanged_versions: frozenset[int] = frozenset()
    unknown_restore: int | None = None
    stream: str | None = None

    @property
    def newest(self) -> Entry | None:
        """The entry with the current progress: that of the transaction number, else the newest."""
        entries = (entry for entry in self.entries if entry.commit.number == self.transaction)
        return next(entries, self.entries[0] if self.entries else None)

    @property
    def last_commit(self) -> Commit | None:
        """The commit with the current progress, which is that of ``stream`` if the table reads several sources."""
        commit = self.newest.commit if self.newest else None
        return commit if commit is None or self.stream is None else of_stream(commit, self.stream)

    def of_stream(self, name: str) -> "Ledger":
        """Return the ledger with the progress of the source of that name, of a table that reads several."""
        return replace(self, stream=name)

    @property
    def next_number(self) -> int:
        """The number of the next commit; it never decreases, not even after a RESTORE."""
        return self.transaction + 1

    def next_commit(self, kind: Kind, run: str) -> Commit:
        """Return the next commit: the next number, a new attempt, and all fields that are carried on.

        Raises ``TableDamagedError`` if the log has an entry that is known to replace another one.
        """
        last = self.last_commit
        require_unreplaced(self.uri, self.version, [self.newest] if self.newest else [])
        return Commit(
            kind=kind,
            number=self.next_number,
            attempt=uuid.uuid4().hex,
            table_version=self.version,
            follows=digest_of(self.uri, self.version),
            rows_version=self.rows_version,
            reached=reached_beyond(self.reached, ends_of(last) if last else {}),
            totals_before=self.totals,
            run=run,
            unaccounted=self.unaccounted,
            undone_sources=self._undone_sources_to_carry(last),
            awaited=still_awaited(last) if last else {},
            **({name: getattr(last, name) for name in _CARRIED} if last else {}),
        )

    def replan(self, commit: Commit) -> Commit:
        """Return a commit that was planned on an older version of this ledger, planned on this one."""
        following = self.next_commit(commit.kind, commit.run)
        return commit.with_fields(**{name: getattr(following, name) for name in _PLANNED})

    @property
    def progress(self) -> Progress | None:
        """The next position to read of every partition; ``None`` before the first batch."""
        commit = self.last_commit
        if commit is None or commit.progress is None or commit.source is None:
            return None
        return Progress(commit.source, commit.progress)

    @property
    def left_out(self) -> tuple[Range, ...]:
        """The positions before the start of the table, which it left out on purpose."""
        return self.last_commit.left_out if self.last_commit else ()

    def last_records(self, source: SourceId) -> list[LastRecords]:
        """Return the last record of each partition after each commit, the newest first, if it had this source."""
        commits = [
            entry.commit if self.stream is None else of_stream(entry.commit, self.stream) for entry in self.entries
        ]
        return [commit.last_records for commit in commits if commit.source == source]

    @property
    def reached(self) -> ReachedEnds:
        """The end of the positions that were ever read, also by undone commits; their rows may be in the table."""
        last = self.newest.commit if self.newest else None
        return merge_reached(self.undone_ends, last.reached, ends_of(last)) if last else self.undone_ends

    @property
    def undone_sources(self) -> dict[str, str]:
        """The sources whose whole progress a RESTORE undid, with their names; a commit carries them on."""
        last = self.newest.commit if self.newest else None
        sources = {**(last.undone_sources if last else {}), **self.restored_sources}
        return {text: name for text, name in sources.items() if text not in names_of_progress(last)}

    def _undone_sources_to_carry(self, last: Commit | None) -> dict[str, str]:
        """The undone sources that the next commit carries on: all but that of a table which reads only one."""
        own_name = last.stream if last and self.stream is None else None
        return {text: name for text, name in self.undone_sources.items() if name != own_name}

    def lost_progress_of(self, source: SourceId) -> bool:
        """Whether a RESTORE undid the whole progress of a source, or, if the table reads one, any progress."""
        return self.has_undone_progress if self.stream is None else source.text in self.undone_sources

    def merged_by_key(self) -> "Ledger":
        """Return the ledger for a table with a key: records that are read again replace the same rows."""
        return replace(self, undone_ends={})

    @property
    def unaccounted(self) -> tuple[int, ...]:
        """The versions with open differences, oldest first."""
        return unaccounted_versions(self.entries)

    @property
    def consumed(self) -> Consumed | None:
        """The last merged version of the base table, or of the table that this one follows."""
        return self.newest.commit.consumed if self.newest else None

    @property
    def totals(self) -> Totals:
        """Sums over the batches."""
        return self.newest.totals if self.newest else Totals()

    @property
    def rows_version(self) -> int:
        """The newest version that may have changed a row; derived tables record this version."""
        version = self.version
        while version in self.unchanged_versions:
            version -= 1
        return version

    def next_change(self, version: int) -> int:
        """Return the first version after this one that may have changed a row; beyond the newest if none did."""
        version += 1
        while version in self.unchanged_versions:
            version += 1
        return version


_CACHE = LogCache[Ledger](lambda ledger: ledger.version)


def app_id(name: str) -> str:
    """Return the transaction id under which a table of that name is written."""
    return f"lakehouse:{name}"


def read_ledger(uri: str, name: str, *, whole: bool = False) -> Ledger:
    """Read the ledger of a table: the newest part of it, or the whole history.

    A table that does not exist has an empty ledger. The newest part reaches back to a commit with the progress, and to
    before every RESTORE without a batch after it. Raises ``TableError`` if the log cannot be read, and ``LedgerError``
    if another version of lakehouse wrote it.
    """
    if whole:
        return _read_ledger(uri, name, None)
    return _CACHE.read((uri, name), uri, lambda: _read_ledger(uri, name, _NEWEST_COMMITS))


def ledger_of(settings: Settings, name: str, *, whole: bool = False) -> Ledger:
    """Read the ledger of the table of that name, as ``read_ledger`` does."""
    return read_ledger(settings.table_uri(name), name, whole=whole)


def _read_ledger(uri: str, name: str, limit: int | None) -> Ledger:
    table = open_table(uri)
    return Ledger(uri) if table is None else ledger_as_of(table, uri, name, limit)


def ledger_as_of(table: DeltaTable, uri: str, name: str, limit: int | None = None) -> Ledger:
    """Read the ledger as of the version in which a table is opened; raises what ``read_ledger`` raises.

    With a ``limit``, this number of commits is read first, and the whole history only if they do not suffice.
    """
    with log_failures(uri):
        table_id = str(table.metadata().id)
        history, valid = _read_history(table, uri, table_id, limit)
        if limit and not valid.is_complete_from(_oldest_version(history)):
            history, valid = _read_history(table, uri, table_id, None)
        return Ledger(
            uri=uri,
            exists=True,
            table_id=table_id,
            version=table.version(),
            transaction=table.transaction_version(app_id(name)) or 0,
            complete=_oldest_version(history) == 0,
            entries=tuple(valid.entries),
            foreign=tuple(valid.foreign),
            undone_numbers=frozenset(valid.undone_numbers),
            has_undone_progress=valid.has_undone_progress,
            undone_ends=valid.undone_ends,
            restored_sources=valid.undone_sources,
            unchanged_versions=unchanged_versions(history),
            unknown_restore=valid.unknown_restore,
        )


def _read_history(
    table: DeltaTable, uri: str, table_id: str, limit: int | None
) -> tuple[list[dict[str, Any]], ValidHistory]:
    history = history_of(table, uri, limit)
    require_readable(history, uri)
    own_versions = (entry.version for info in history if (entry := entry_of(info)))
    oldest = min(own_versions, default=0) if limit is None else 0  # there may be older lakehouse commits
    return history, valid_history(history, partial(restored_version, uri, table_id, oldest))


def _oldest_version(history: Sequence[Mapping[str, Any]]) -> int:
    return int(history[-1]["version"]) if history else -1


def require_progress(ledger: Ledger, name: str) -> Ledger:
    """Return the ledger, or raise ``LedgerError`` if the log no longer shows the progress of the table."""
    if ledger.unknown_restore is not None:
        raise LedgerError(
            f"Cannot determine which version of {name} the RESTORE in version {ledger.unknown_restore} restored: it"
            " names no version, and no version in the log has the files of the table",
            where=ledger.uri,
            action=f"See and record the progress that its rows show: lakehouse repair progress {name} - or restore the"
            f" intended version again, by its number. {restore_advice(ledger.uri)}",
        )
    if ledger.newest is None and ledger.transaction and not ledger.complete:
        raise LedgerError(
            f"The log of {name} no longer holds a commit that records its progress",
            where=ledger.uri,
            action=f"See and record the progress that its rows show with: lakehouse repair progress {name}",
        )
    return ledger


def find_commit(uri: str, name: str, commit: Commit) -> Entry | None:
    """Return the entry of a commit that was just made; ``None`` if the commit is not valid.

    A commit directly after the version on which it was planned is valid, regardless of the rest of the history.
    """
    version = commit.table_version + 1
    info = read_commit(uri, version)
    entry = entry_of(info | {"version": version}) if info else None
    if entry and entry.commit.attempt == commit.attempt:
        return entry
    return next((entry for entry in read_ledger(uri, name).entries if entry.commit.attempt == commit.attempt), None)
