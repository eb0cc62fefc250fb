"""One writer at a time for a table on a local disk, whatever process it is in.

Delta commits a version by giving a file its number. Object stores and HDFS refuse a second file of that name. On
a local disk Delta looks whether the name is free and then renames (seen): of two processes in the same moment
the later one replaces the commit of the other, which goes on as if it stood. So whoever writes takes this lock.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lakehouse.errors import LockedError
from lakehouse.ledger.table_failures import disk_failure
from lakehouse.settings.store import Store
from lakehouse.storage.lock_holder import holder_of, noted
from lakehouse.storage.writer_note import require_ended

_PATIENCE = 120.0  # seconds to wait for other writers
_log = logging.getLogger(__name__)


@contextmanager
def table_lock(uri: str, name: str) -> Iterator[None]:
    """Hold the lock of a table for one statement; a table that is on no local disk has none.

    It lies beside the table and is free as soon as its process ends, whatever ended it. What that process left
    running on an engine has ended when this returns. Raises ``LockedError`` where others write for more
    than two minutes, ``TableError`` where the disk refuses the lock, or nobody can tell whether such a statement has
    ended; nothing was written then.
    """
    file = Store(uri).lock
    if file is None:
        yield
        return
    lock = FileLock(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        _acquire(lock, file, name)
    except Timeout:
        fact = f"{name} was never free for {_PATIENCE:.0f} seconds; now it is written by {holder_of(file)}"
        raise LockedError(fact, where=uri, action="Run it again when that one is done, or fewer write it.") from None
    except OSError as error:
        raise disk_failure(error, uri) from error
    try:
        with noted(file):
            require_ended(file, name)
            yield
    finally:
        lock.release()


def _acquire(lock: FileLock, file: Path, name: str) -> None:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _log.info("Waiting for %s, which is written by %s", name, holder_of(file))
        lock.acquire(timeout=_PATIENCE)
