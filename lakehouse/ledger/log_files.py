"""Reads the files of a table's log by name, one at a time."""

import json
import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from lakehouse.ledger.log_copies import LOG, fetch_earlier, local_log, look_once
from lakehouse.ledger.table_failures import damaged_log_error

Action = dict[str, Any]  # a line of a commit
_MAX_VALUES = 16  # tables, or ledgers, in one cache
_CLOCK_TICK = 10_000_000  # nanoseconds by which the clock of the disk may be late
_COMMITS = 100  # newest commits of a log that are compared
T = TypeVar("T")
_Stat = tuple[int, int, int] | None


class LogFiles:
    """The log files of a table, as a folder has them: the table's own, or a copy of the log in an object store."""

    def __init__(self, uri: str, folder: Path | None = None) -> None:
        self._uri, self._folder = uri, folder or local_log(uri)

    def has_version(self, version: int) -> bool:
        """Whether the commit of a version exists; does not read it."""
        return self._find(version) is not None

    def written_at(self, version: int) -> int:
        """The modification time of a commit's file, in milliseconds since 1970."""
        return (self._folder / _name(version)).stat().st_mtime_ns // 1_000_000

    def commits(self, newest: int) -> Iterator[tuple[int, list[Action]]]:
        """Read versions and the actions of their commits, backwards to the oldest one.

        Raises ``TableDamagedError`` if a commit is empty.
        """
        for version in range(newest, -1, -1):
            file = self._find(version)
            if file is None:
                return
            actions = [json.loads(line) for line in file.read_bytes().splitlines() if line.strip()]
            if not actions:
                raise damaged_log_error(f"{_name(version)} is empty", self._uri)
            yield version, actions

    def _find(self, version: int) -> Path | None:
        """The file of a commit; ``None`` if the log does not hold it."""
        file = self._folder / _name(version)
        if not file.exists():
            fetch_earlier(self._uri, version)
        return file if file.exists() else None


def _name(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def info_in(actions: Iterable[Action]) -> Action | None:
    """Return the ``commitInfo`` of a commit; ``None`` if it has none, which Delta allows."""
    return next((action["commitInfo"] for action in actions if action.get("commitInfo")), None)


class _State(NamedTuple):
    """The state on the disk of a log's folder, its last checkpoint and its newest commits."""

    version: int
    folder: _Stat
    checkpoint: tuple[_Stat, _Stat]
    commits: tuple[_Stat, ...]

    @property
    def changed_at(self) -> int:
        """The time of the last change of one of its files, in nanoseconds since 1970."""
        return max(stat[1] for stat in (*self.checkpoint, *self.commits) if stat)


def _stat(file: str) -> _Stat:
    """Return values that differ for any other file or contents of that name; ``None`` if there is no file."""
    try:
        status = os.stat(file)  # noqa: PTH116 - takes half the time, and runs a hundred times
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_ctime_ns, status.st_size  # a copy may keep the mtime of another file


def _state_of(folder: Path, version: int) -> _State | None:
    """Return the state of a log whose newest version is ``version``; ``None`` if it is not, or cannot be read."""
    log = f"{folder}/{LOG}"
    last_checkpoint = f"{log}/_last_checkpoint"
    try:
        if _stat(f"{log}/{version + 1:020d}.json"):
            return None
        compared_versions = range(max(0, version + 1 - _COMMITS), version + 1)
        commits = tuple(_stat(f"{log}/{number:020d}.json") for number in compared_versions)
        checkpoint_stat = _stat(last_checkpoint)
        number = json.loads(Path(last_checkpoint).read_bytes())["version"] if checkpoint_stat else 0
        checkpoint = (checkpoint_stat, _stat(f"{log}/{number:020d}.checkpoint.parquet"))
        return _State(version, _stat(log), checkpoint, commits) if commits and commits[-1] else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


class LogCache(Generic[T]):
    """The values last read from logs, by key. ``version_of`` returns the table version of a value, -1 for no table."""

    def __init__(self, version_of: Callable[[T], int]) -> None:
        self._version_of = version_of
        self._values: dict[Hashable, tuple[_State, T]] = {}

    def read(self, key: Hashable, uri: str, read: Callable[[], T]) -> T:
        """Return the cached value if the log has not changed since; else read it."""
        with look_once():
            return self._read(key, local_log(uri), read)

    def _read(self, key: Hashable, folder: Path, read: Callable[[], T]) -> T:
        cached_value = self._values.get(key)
        if cached_value and cached_value[0] == _state_of(folder, cached_value[0].version):
            return cached_value[1]
        folder_before, began_at = None, time.time_ns()
        with suppress(OSError):
            folder_before = _stat(f"{folder}/{LOG}")
        value = read()
        state = _state_of(folder, self._version_of(value))
        # neither the folder nor a file changed during the read
        if state and state.folder == folder_before and state.changed_at < began_at - _CLOCK_TICK:
            self._values.pop(key, None)
            self._values[key] = (state, value)
            for oldest in list(self._values)[:-_MAX_VALUES]:
                self._values.pop(oldest, None)
        return value
