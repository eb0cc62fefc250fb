"""What this process read of a table's log, kept for as long as nothing was written there: on a local disk."""

from collections.abc import Hashable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from lakehouse.delta.log_files import LOG

_MOST = 32  # tables, or ledgers, of which something is kept
T = TypeVar("T")


class _State(NamedTuple):
    """The folder of a log and its newest commit, as the disk tells them; any new file changes the folder's time."""

    version: int
    folder: tuple[int, int]
    commit: tuple[int, int, int]


def _state_of(uri: str, version: int) -> _State | None:
    """``None`` where it is not the newest commit, or the disk does not tell."""
    log = Path(uri, LOG)
    if "://" in uri or (log / f"{version + 1:020d}.json").exists():
        return None
    try:
        folder, commit = log.stat(), (log / f"{version:020d}.json").stat()
    except OSError:
        return None
    told = (commit.st_ino, commit.st_mtime_ns, commit.st_size)
    return _State(version, (folder.st_ino, folder.st_mtime_ns), told)


class Kept(Generic[T]):
    """What was read last, by what was asked for."""

    def __init__(self) -> None:
        self._read: dict[Hashable, tuple[_State, T]] = {}

    def get(self, asked: Hashable, uri: str) -> T | None:
        """What was read, where it would be read the same now."""
        state, value = self._read.get(asked, (None, None))
        return value if state is not None and state == _state_of(uri, state.version) else None

    def keep(self, asked: Hashable, uri: str, version: int, value: T) -> T:
        """Keep what was read of this version, and return it."""
        state = _state_of(uri, version)
        if state:
            self._read.pop(asked, None)
            self._read[asked] = (state, value)
            for oldest in list(self._read)[:-_MOST]:
                self._read.pop(oldest, None)
        return value
