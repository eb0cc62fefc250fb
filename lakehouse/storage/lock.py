"""The lock of a table on a local disk, and a note with its holder: one writer at a time across all processes.

Delta commits a version as a file whose name is the version number. Object stores and HDFS refuse a second file with
that name. On a local disk, Delta checks that the name is free and then renames (seen). If two processes do so at the
same moment, the later one overwrites the commit of the other, which does not notice. So every writer takes this lock.
"""

import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from lakehouse.errors import LockedError
from lakehouse.ledger.table_failures import disk_failure
from lakehouse.settings.store import Store
from lakehouse.storage.writer_note import require_ended

_MAX_LENGTH = 1000  # characters of a note
_work = {"what": ""}  # the work of this process: a command or a Dagster run
_PATIENCE = 120.0  # seconds to wait for other writers
_log = logging.getLogger(__name__)


def name_work(name: str) -> None:
    """Name the work of this process from now on: a command or a Dagster run."""
    _work["what"] = name


@contextmanager
def note_holder(lock: Path) -> Iterator[None]:
    """Note that this process holds the lock, and delete the note at the end; errors of the disk are ignored."""
    note = _note_of(lock)
    with suppress(OSError):
        note.write_text(json.dumps([_work["what"], os.getpid(), time.time()]), encoding="utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            note.unlink()


def holder_of(lock: Path) -> str:
    """Describe the holder of the lock; ``another writer`` if there is no note, or if it is not valid."""
    try:
        with _note_of(lock).open(encoding="utf-8") as note:
            work_name, process_id, since = json.loads(note.read(_MAX_LENGTH))
        start = datetime.fromtimestamp(since, UTC)
        is_valid = type(process_id) is int and work_name.isprintable()
    except (AttributeError, OSError, OverflowError, RecursionError, TypeError, ValueError):
        is_valid = False
    if not is_valid:
        return "another writer"
    process = "this process" if process_id == os.getpid() else f"process {process_id}"
    day = "" if start.date() == datetime.now(UTC).date() else f"{start:%Y-%m-%d} "
    return f"{work_name or 'a program'} ({process}, since {day}{start:%H:%M:%S} UTC)"


def _note_of(lock: Path) -> Path:
    return lock.with_name(f"{lock.name}.holder")


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
