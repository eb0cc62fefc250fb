"""What a RESTORE means: which version it put back, and what of a history counts after it.

A RESTORE says either the version or a moment. Which version a moment meant is told by no clock: Delta goes by
the times of the log's files, in the zone of whoever asked. It is told by the files that are active after it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from lakehouse.ledger.commits import Entry, Upkeep, committed_at, entry_of, said_by
from lakehouse.ledger.log import File, FileChanges, file_changes
from lakehouse.ledger.reached import Reached, furthest

Info = Mapping[str, Any]  # what a commit of a history says, as deltalake tells it
_STORED = ("batch", "derived", "load", "rejected")  # commits before which all that was undone is stored, or nothing is


@dataclass(frozen=True)
class Foreign:
    """A commit that is not ours, or one of ours that a RESTORE made void."""

    version: int
    operation: str
    committed_at: datetime


@dataclass
class Standing:
    """What of a history counts, newest first, and the numbers of our commits that a RESTORE undid or made void.

    ``untold`` is the version of a RESTORE before all that counts of which nothing tells what it put back.
    ``reached`` tells where the positions end that these read, by source and partition.
    ``reaches`` is the oldest version that a RESTORE put back; ``unread`` says that progress was undone.
    """

    entries: list[Entry] = field(default_factory=list)
    foreign: list[Foreign] = field(default_factory=list)
    undone: set[int] = field(default_factory=set)
    reached: Reached = field(default_factory=dict)
    unread: bool = False
    untold: int | None = None
    reaches: int | None = None

    def undo(self, entries: Iterable[Entry]) -> None:
        """Note commits of ours that do not count any more."""
        for entry in entries:
            self.undone.add(entry.commit.number)
            self.unread |= bool(entry.commit.progress)
            self.reached = furthest(self.reached, entry.commit.reached, entry.commit.ends)

    def is_told_by(self, oldest: int) -> bool:
        """Whether a history back to this version tells all of it that a next commit has to know.

        That is how far the table got, and every number undone that was not stored yet: a batch stores them.
        """
        stored = any(entry.commit.kind in _STORED for entry in self.entries)
        return oldest == 0 or (stored and (self.reaches is None or oldest <= self.reaches))


def named_version(restore: Info) -> int | None:
    """Return the version that a RESTORE names, ``None`` where it names a moment instead."""
    version = str((restore.get("operationParameters") or {}).get("version"))
    return int(version) if version.isdecimal() else None


def standing(history: Iterable[Info], put_back: Callable[[Info], int | None] = named_version) -> Standing:
    """Walk a history backwards, newest first; ``put_back`` tells which version a RESTORE put back.

    A RESTORE is not scanned past: what it undid is left out and the walk goes on at the version it put back.
    Where that is not told, nothing before it counts. A batch planned before a RESTORE and committed after it
    is void: its rows are in the table, but the progress is the restored one, so its ranges are read again.
    """
    found = Standing()
    newest: int | None = None  # the newest version that counts
    for info in history:
        version, entry = int(info["version"]), entry_of(info)
        if newest is not None and version > newest:
            found.undo([entry] if entry else [])
        elif entry:
            found.entries.append(entry)
        else:
            if info.get("operation") == "RESTORE":
                newest = _restore(found, version, put_back(info))
            _note_foreign(found, info)
    return found


def _restore(found: Standing, version: int, put_back: int | None) -> int:
    """Take out what a RESTORE made void; returns the newest version before it that counts."""
    void = [entry for entry in found.entries if entry.commit.table_version < version]
    found.entries = [entry for entry in found.entries if entry.commit.table_version >= version]
    found.undo(void)
    found.foreign += [Foreign(each.version, "Made void by a RESTORE", each.committed_at) for each in void]
    if put_back is None:
        found.untold = None if found.entries else version
        return -1
    found.reaches = min(put_back, found.reaches if found.reaches is not None else put_back)
    return put_back


def _note_foreign(found: Standing, info: Info) -> None:
    operation = str(info.get("operation", "UNKNOWN"))
    if not operation.startswith("CREATE TABLE") and not isinstance(said_by(info), Upkeep):
        found.foreign.append(Foreign(int(info["version"]), operation, committed_at(info)))


def restored_version(uri: str, table_id: str, oldest: int, restore: Info) -> int | None:
    """Return the version that a RESTORE put back: the one it names, else the oldest that had the same files.

    Of several with the same files the oldest is safe: records merged again change nothing. One before ``oldest``,
    the oldest commit of ours that is left, tells nothing, and counts only where no other has these files. ``None``
    where no version that the log still holds had them.
    """
    named = named_version(restore)
    if named is not None:
        return named
    same = _versions_put_back(uri, table_id, int(restore["version"]), committed_at(restore))
    return min((version for version in same if version >= oldest), default=min(same, default=None))


@lru_cache(maxsize=256)
def _versions_put_back(uri: str, table_id: str, restore: int, at: datetime) -> list[int]:  # noqa: ARG001
    """Read the log once for each RESTORE and process: a sensor asks every few seconds.

    Tables of one place differ by their id, and histories of one table, as from a backup, by the time of the commit.
    """
    return versions_with_the_files_of_the_newest(back_to_a_file_of_the_newest(file_changes(uri, restore)))


def back_to_a_file_of_the_newest(changes: Iterable[FileChanges]) -> list[FileChanges]:
    """Take changes, newest first, back to those that created a file the newest version has: no older one had it.

    So the log is read only as far back as the version that was put back.
    """
    taken = []
    stays: dict[File, bool] = {}
    for change in changes:
        taken.append(change)
        for file in change.added:
            stays.setdefault(file, True)
        for file in change.removed:
            stays.setdefault(file, False)
        if any(stays[file] for file in change.created):
            break
    return taken


def versions_with_the_files_of_the_newest(changes: list[FileChanges]) -> list[int]:
    """Return, newest first, the versions among these that had the very files the newest of them has.

    ``changes`` are those of one version after the other, newest first. A file of which nothing older is told
    was active before it was removed, and was not before it was added.
    """
    was: dict[File, bool] = {}
    turned: list[set[File]] = []
    for change in reversed(changes):
        now = dict.fromkeys(change.removed, False) | dict.fromkeys(change.added, True)
        turned.append({file for file, active in now.items() if was.get(file, not active) is not active})
        was |= now
    differing: set[File] = set()
    same = []
    for files, older in zip(reversed(turned), changes[1:], strict=False):
        differing ^= files
        if not differing:
            same.append(older.version)
    return same
