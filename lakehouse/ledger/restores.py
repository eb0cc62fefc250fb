"""Interprets RESTOREs: which version one restored, and which commits of a history are valid after it.

A RESTORE names either a version or a time. No clock shows which version a time meant: Delta compares it with the times
of the log's files, in the time zone of the caller. The files that are active after the RESTORE show the version.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from lakehouse.ledger.commit_infos import committed_at, ends_of, entry_of, metadata_of, names_of_progress
from lakehouse.ledger.commit_values import ReachedEnds, merge_reached
from lakehouse.ledger.commits import Entry, Upkeep
from lakehouse.ledger.log import File, FileChanges, file_changes

Info = Mapping[str, Any]  # a commit of a history, as deltalake returns it
_STORING_KINDS = (
    "batch",
    "derived",
    "load",
    "rejected",
    "deletes",
)  # before such a commit, the undone numbers are stored


@dataclass(frozen=True)
class Foreign:
    """A commit of another program, or a lakehouse commit that a RESTORE voided."""

    version: int
    operation: str
    committed_at: datetime


@dataclass
class ValidHistory:
    """The valid commits of a history, newest first, and the numbers of our commits that a RESTORE undid or voided.

    - ``unknown_restore``: the version of a RESTORE before all valid commits, if the version it restored is unknown.
    - ``undone_ends``: the end of the positions that undone commits read, by source and partition.
    - ``oldest_restored``: the oldest version that a RESTORE restored.
    - ``has_undone_progress``: whether progress was undone, and ``undone_sources`` of which sources, with their names.
    """

    entries: list[Entry] = field(default_factory=list)
    foreign: list[Foreign] = field(default_factory=list)
    undone_numbers: set[int] = field(default_factory=set)
    undone_ends: ReachedEnds = field(default_factory=dict)
    has_undone_progress: bool = False
    undone_sources: dict[str, str] = field(default_factory=dict)
    unknown_restore: int | None = None
    oldest_restored: int | None = None

    def undo(self, entries: Iterable[Entry]) -> None:
        """Record lakehouse commits that are no longer valid."""
        for entry in entries:
            self.undone_numbers.add(entry.commit.number)
            self.has_undone_progress |= bool(entry.commit.progress)
            self.undone_sources |= names_of_progress(entry.commit)
            self.undone_ends = merge_reached(self.undone_ends, entry.commit.reached, ends_of(entry.commit))

    def is_complete_from(self, oldest: int) -> bool:
        """Whether a history back to this version contains everything that the next commit needs.

        That is the progress, and every undone number that was not stored yet: a batch stores them.
        """
        has_stored = any(entry.commit.kind in _STORING_KINDS for entry in self.entries)
        return oldest == 0 or (has_stored and (self.oldest_restored is None or oldest <= self.oldest_restored))


def named_version(restore: Info) -> int | None:
    """Return the version that a RESTORE names; ``None`` if it names a time."""
    version = str((restore.get("operationParameters") or {}).get("version"))
    return int(version) if version.isdecimal() else None


def valid_history(
    history: Iterable[Info], restored_version_of: Callable[[Info], int | None] = named_version
) -> ValidHistory:
    """Walk a history backwards, newest first; ``restored_version_of`` returns the version that a RESTORE restored.

    The commits that a RESTORE undid are left out, and the walk continues at the restored version. If that is unknown,
    no earlier commit is valid. A batch that was planned before a RESTORE and committed after it is void: its rows are
    in the table, but the progress is the restored one, so its ranges are read again.
    """
    valid = ValidHistory()
    newest_valid: int | None = None
    for info in history:
        version, entry = int(info["version"]), entry_of(info)
        if newest_valid is not None and version > newest_valid:
            valid.undo([entry] if entry else [])
        elif entry:
            valid.entries.append(entry)
        else:
            if info.get("operation") == "RESTORE":
                newest_valid = _apply_restore(valid, version, restored_version_of(info))
            _add_foreign(valid, info)
    return valid


def _apply_restore(valid: ValidHistory, version: int, restored: int | None) -> int:
    """Remove the commits that a RESTORE voided; return the newest valid version before it."""
    void = [entry for entry in valid.entries if entry.commit.table_version < version]
    valid.entries = [entry for entry in valid.entries if entry.commit.table_version >= version]
    valid.undo(void)
    valid.foreign += [Foreign(entry.version, "Made void by a RESTORE", entry.committed_at) for entry in void]
    if restored is None:
        valid.unknown_restore = None if valid.entries else version
        return -1
    valid.oldest_restored = min(restored, valid.oldest_restored if valid.oldest_restored is not None else restored)
    return restored


def _add_foreign(valid: ValidHistory, info: Info) -> None:
    operation = str(info.get("operation", "UNKNOWN"))
    if not operation.startswith("CREATE TABLE") and not isinstance(metadata_of(info), Upkeep):
        valid.foreign.append(Foreign(int(info["version"]), operation, committed_at(info)))


def restored_version(uri: str, table_id: str, oldest: int, restore: Info) -> int | None:
    """Return the version that a RESTORE restored: the one that it names, else the oldest one with the same files.

    If several versions have the same files, the oldest one is safe: merging records again changes nothing. A version
    before ``oldest``, the oldest remaining lakehouse commit, records no progress and counts only if no other version
    has these files. ``None`` if no version in the log has them.
    """
    version = named_version(restore)
    if version is not None:
        return version
    candidates = _versions_with_same_files(uri, table_id, int(restore["version"]), committed_at(restore))
    return min((version for version in candidates if version >= oldest), default=min(candidates, default=None))


@lru_cache(maxsize=256)
def _versions_with_same_files(uri: str, table_id: str, restore: int, at: datetime) -> list[int]:  # noqa: ARG001
    """Read the log once per RESTORE and process, because sensors ask every few seconds.

    The id distinguishes tables at the same place, and the time of the commit distinguishes histories of one table, as
    after a restored backup.
    """
    return versions_with_newest_files(changes_since_newest_file(file_changes(uri, restore)))


def changes_since_newest_file(changes: Iterable[FileChanges]) -> list[FileChanges]:
    """Take changes, newest first, back to those that created a file of the newest version; no older version has it.

    So the log is read only as far back as the restored version.
    """
    newest_changes = []
    is_active: dict[File, bool] = {}  # in the newest version
    for change in changes:
        newest_changes.append(change)
        for file in change.added_files:
            is_active.setdefault(file, True)
        for file in change.removed_files:
            is_active.setdefault(file, False)
        if any(is_active[file] for file in change.created_files):
            break
    return newest_changes


def versions_with_newest_files(changes: list[FileChanges]) -> list[int]:
    """Return, newest first, the versions among these that had exactly the files of the newest one.

    ``changes`` are those of consecutive versions, newest first. A file without an older change is assumed to have been
    active before its removal, and inactive before its addition.
    """
    was_active: dict[File, bool] = {}
    switched_files: list[set[File]] = []
    for change in reversed(changes):
        now_active = dict.fromkeys(change.removed_files, False) | dict.fromkeys(change.added_files, True)
        switched_files.append(
            {file for file, active in now_active.items() if was_active.get(file, not active) is not active}
        )
        was_active |= now_active
    differing_files: set[File] = set()
    versions = []
    for files, older_change in zip(reversed(switched_files), changes[1:], strict=False):
        differing_files ^= files
        if not differing_files:
            versions.append(older_change.version)
    return versions
