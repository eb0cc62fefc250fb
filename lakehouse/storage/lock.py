"""The lock of a table on a local disk: one writer at a time across all processes.

Delta commits a version as a file whose name is the version number. Object stores and HDFS refuse a second file with
that name. On a local disk, Delta checks that the name is free and then renames (seen). If two processes do so at the
same moment, the later one overwrites the commit of the other, which does not notice. So every writer takes this lock.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lakehouse.errors import LockedError
from lakehouse.ledger.table_failures import disk_failure
from lakehouse.settings.store import Store
from lakehouse.storage.lock_holder import holder_of, note_holder
from lakehouse.storage.writer_note import require_ended

_PATIENCE = 120.0  # seconds to wait for other writers
_log = logging.getLogger(__name__)


@contextmanager
def table_lock(uri: str, name: str) -> Iterator[None]:
    """Hold the lock of a table for one statement; only a table on a local disk has a lock.

    The lock file is next to the table, and the lock is released when its process ends for any reason. Statements that
    an ended process left running on an engine are ended first. Raises ``LockedError`` if other writers hold the lock
    for more than two minutes. Raises ``TableError`` if the disk refuses the lock, or if it is unknown whether such a
    statement has ended. Nothing is written then.
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
        message = f"{name} was locked for {_PATIENCE:.0f} seconds; now {holder_of(file)} writes it"
        action = "Run it again when that writer is done, or let fewer processes write the table."
        raise LockedError(message, where=uri, action=action) from None
    except OSError as error:
        raise disk_failure(error, uri) from error
    try:
        with note_holder(file):
            require_ended(file, name)
            yield
    finally:
        lock.release()


def _acquire(lock: FileLock, file: Path, name: str) -> None:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _log.info("Waiting for table %s: %s writes it", name, holder_of(file))
        lock.acquire(timeout=_PATIENCE)
