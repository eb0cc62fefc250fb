"""What this process read of a table's log, kept until something of it is written or changed: on a local disk."""

import json
import os
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from lakehouse.ledger.log_files import LOG
from lakehouse.settings.store import Store

_MOST = 16  # tables, or ledgers, of which something is kept
_TICK = 10_000_000  # nanoseconds: so late may be a change, by the clock of the disk
_COMMITS = 100  # the newest of a log, which are looked at
T = TypeVar("T")
_Stat = tuple[int, int, int] | None


class _State(NamedTuple):
    """The folder of a log, its last checkpoint and its newest commits, as the disk tells them."""

    version: int
    folder: _Stat
    checkpoint: tuple[_Stat, _Stat]
    commits: tuple[_Stat, ...]

    @property
    def changed(self) -> int:
        """When one of its files was changed last, in nanoseconds since 1970."""
        return max(each[1] for each in (*self.checkpoint, *self.commits) if each)


def _stat(file: str) -> _Stat:
    """What another file of that name, or with other contents, would have otherwise; ``None`` where there is none."""
    try:
        found = os.stat(file)  # noqa: PTH116 - in half of the time, a hundred times
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns, found.st_size  # of a copy, the time of its contents may be that of another


def _state_of(uri: str, version: int) -> _State | None:
    """The state of a log of which this is the newest version; ``None`` where it is not, or nobody can tell."""
    if not Store(uri).is_path:
        return None
    log = f"{uri}/{LOG}"
    last = f"{log}/_last_checkpoint"
    try:
        if _stat(f"{log}/{version + 1:020d}.json"):
            return None
        commits = tuple(_stat(f"{log}/{each:020d}.json") for each in range(max(0, version + 1 - _COMMITS), version + 1))
        told = _stat(last)
        number = json.loads(Path(last).read_bytes())["version"] if told else 0
        checkpoint = (told, _stat(f"{log}/{number:020d}.checkpoint.parquet"))
        return _State(version, _stat(log), checkpoint, commits) if commits and commits[-1] else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


class Kept(Generic[T]):
    """What was read last, by what was asked for; ``version_of`` is that of a table there is, else -1."""

    def __init__(self, version_of: Callable[[T], int]) -> None:
        self._version_of = version_of
        self._read: dict[Hashable, tuple[_State, T]] = {}

    def read(self, asked: Hashable, uri: str, read: Callable[[], T]) -> T:
        """Return what was read, where the log is as it was then; else read it."""
        kept = self._read.get(asked)
        if kept and kept[0] == _state_of(uri, kept[0].version):
            return kept[1]
        before, begun = None, time.time_ns()
        with suppress(OSError):
            before = _stat(f"{uri}/{LOG}")
        value = read()
        state = _state_of(uri, self._version_of(value))
        if state and state.folder == before and state.changed < begun - _TICK:  # nobody put another in its place
            self._read.pop(asked, None)
            self._read[asked] = (state, value)
            for oldest in list(self._read)[:-_MOST]:
                self._read.pop(oldest, None)
        return value
