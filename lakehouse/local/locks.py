"""Locks of this machine that are waited for, each with a limit: whoever holds one may be stopped, and never free it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lakehouse.errors import SetupError


@contextmanager
def held_lock(file: Path, limit: float) -> Iterator[None]:
    """Hold the lock of a file, which is free when its process ends.

    Raises ``SetupError`` where another process keeps it for more than ``limit`` seconds, ``OSError`` where the disk
    refuses it.
    """
    lock = FileLock(file, timeout=limit)
    try:
        lock.acquire()
    except Timeout:
        fact = f"Another process has kept this lock for {limit:.0f} seconds"
        raise SetupError(fact, where=str(file), action="See what it waits for, or end it; then run it again.") from None
    try:
        yield
    finally:
        lock.release()
