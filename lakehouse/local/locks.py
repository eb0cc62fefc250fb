"""File locks with a limit on the wait: a process that holds one may be stopped and never release it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lakehouse.errors import SetupError


@contextmanager
def hold_lock(file: Path, limit: float) -> Iterator[None]:
    """Hold the lock of a file. The end of the process releases it too.

    Raises ``SetupError`` if another process keeps it for more than ``limit`` seconds, ``OSError`` if the disk refuses
    the lock.
    """
    lock = FileLock(file, timeout=limit)
    try:
        lock.acquire()
    except Timeout:
        message = f"Another process has kept this lock for {limit:.0f} seconds"
        action = "Check what that process waits for, or end it. Then run it again."
        raise SetupError(message, where=str(file), action=action) from None
    try:
        yield
    finally:
        lock.release()
