"""The lock of a table on a local disk, and a note of a writing statement that may outlive its process.

Delta commits a version as a file whose name is the version number. HDFS refuses a second file with that name, and so
does S3 if it is asked to (``ConditionalLogStore.java``). On a local disk, Delta checks that the name is free and then
renames (seen). If two processes do so at the same moment, the later one overwrites the commit of the other, which does
not notice. So every writer takes this lock.

A client may die while its statement still runs; the kernel then releases the lock of the table. With an engine, the
writer is noted until the engine has answered. The next holder of the lock finds the note, interrupts the statement, and
waits for its end before it writes. A process's own Java may live slightly longer than the process: while its statement
writes, it holds a second lock, which the kernel releases when Java ends. If it is unknown whether a statement has
ended, nothing is written.
"""

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from lakehouse.errors import LockedError, SetupError, TableError
from lakehouse.ledger.durability import sync_path
from lakehouse.ledger.log_copies import look_again
from lakehouse.ledger.table_failures import disk_failure
from lakehouse.settings.store import Store
from lakehouse.spark.engine import is_engine_running, read_address
from lakehouse.storage.lock_holder import holder_of, note_holder
from lakehouse.storage.store_probe import require_conditions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_END_SECONDS = 60.0  # seconds for an interrupted statement to end
_POLL = 0.1
_log = logging.getLogger(__name__)
_DELETE = "Delete this note if no running lakehouse up, in any home, can write the table. Then run it again."
_PATIENCE = 120.0  # seconds to wait for other writers


@dataclass(frozen=True)
class Writer:
    """The writer of a table: the session of its statement, and the folder, start and lock inode of its engine."""

    engine: str
    start: str
    lock: int
    session: str

    @classmethod
    def now(cls, engine: str, session: str) -> "Writer":
        """Return the writer for a session on the engine that runs in this folder now."""
        address = read_address(Path(engine))
        return cls(engine, address.start if address else "", _engine_lock_inode(engine), session)


def _engine_lock_inode(engine: str) -> int:
    """Return the inode of an engine's lock, or 0 if there is none; another file does not show if the engine runs."""
    try:
        return (Path(engine) / "lock").stat().st_ino
    except OSError:
        return 0


def note_writer(lock: Path, writer: Writer) -> Path:
    """Note the writer of a table, for the holder of its lock; return the note, to delete when the engine has answered.

    The note is flushed to the disk. Raises ``OSError`` if the disk refuses it.
    """
    note = _writer_note_of(lock)
    new_note = note.with_name(f"{note.name}.new")
    with new_note.open("w") as file:
        file.write(json.dumps(asdict(writer)))
        file.flush()
        os.fsync(file.fileno())
    new_note.replace(note)
    sync_path(note.parent)
    return note


def _writer_note_of(lock: Path) -> Path:
    return lock.with_name(f"{lock.name}.writer")


def require_ended(lock: Path, name: str) -> None:
    """End a statement that the last holder of a table's lock left running; the caller holds the lock now.

    Raises ``TableError`` if the statement cannot be ended, does not end, or its state is unknown; nothing is written.
    """
    _await_java(lock, name)
    note = _writer_note_of(lock)
    if not os.path.lexists(note):
        return
    writer = _read_note(note)
    if writer is None:
        message = f"A statement may still write {name}: the note of its last writer cannot be read"
        raise TableError(message, where=str(note), action=_DELETE)
    if not writer.lock or writer.lock != _engine_lock_inode(writer.engine):
        message = f"A statement may still write {name}: its engine is no longer in {writer.engine}, and may still run"
        raise TableError(message, where=str(note), action=_DELETE)
    _log.info("Ending the statement of an ended process that may still write %s", name)
    if not _end_statement(writer):
        message = f"A statement of another process may still write {name}, on the engine in {writer.engine}"
        action = f"Run it again. If that does not help, stop the lakehouse up that runs this engine. {_DELETE}"
        raise TableError(message, where=str(note), action=action)
    note.unlink()


@contextmanager
def java_lock(spark: "SparkSession", lock: Path) -> Iterator[None]:
    """Make the Java process of a session hold the table's second lock, until this block or the process ends.

    The caller must hold the first lock, and must have waited until the second one is free.
    """
    file = spark._jvm.java.io.RandomAccessFile(str(_java_lock_of(lock)), "rw")  # type: ignore[union-attr]
    try:
        if file.getChannel().tryLock() is None:
            raise _java_error(lock, lock.name)
        yield
    finally:
        file.close()


def _java_lock_of(lock: Path) -> Path:
    return lock.with_name(f"{lock.name}.java")


def _java_error(lock: Path, name: str) -> LockedError:
    message = f"A statement of an ended process may still write {name}, in a Java process that still runs"
    return LockedError(message, where=str(_java_lock_of(lock)), action="Run it again when that Java process has ended.")


def _await_java(lock: Path, name: str) -> None:
    """Wait until no Java process of an ended process writes the table."""
    deadline = time.monotonic() + _END_SECONDS
    if _is_locked(_java_lock_of(lock)):
        _log.info("Waiting for the statement of an ended process that may still write %s", name)
    while _is_locked(_java_lock_of(lock)):
        if time.monotonic() > deadline:
            raise _java_error(lock, name)
        time.sleep(_POLL)


def _is_locked(file: Path) -> bool:
    """Whether another process has locked this file, with the kind of lock that Java uses."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read_note(note: Path) -> Writer | None:
    """Read a note; return ``None`` if it is not valid, for example because a newer version wrote it."""
    try:
        fields = json.loads(note.read_text())
        writer = Writer(**fields)
    except (OSError, ValueError, TypeError):
        return None
    field_types = (str, str, int, str)
    return writer if tuple(map(type, asdict(writer).values())) == field_types else None


def _end_statement(writer: Writer) -> bool:
    """Interrupt the statement of a writer; return whether none of its statements runs any more."""
    engine = Path(writer.engine)
    try:
        address = read_address(engine)
        if not is_engine_running(engine) or (address and writer.start and address.start != writer.start):
            return True  # if another engine has the lock, the former one is dead
        from lakehouse.spark.orphans import end_work  # noqa: PLC0415 - rarely needed

        return end_work(engine, writer.session, _END_SECONDS)
    except SetupError:  # another user's engine
        return False


@contextmanager
def table_lock(uri: str, name: str) -> Iterator[None]:
    """Hold the lock of a table for one statement; in an object store, its log is looked at again after the statement.

    The lock file is next to the table, and the lock is released when its process ends for any reason. Statements that
    an ended process left running on an engine are ended first. Raises ``LockedError`` if other writers hold the lock
    for more than two minutes. Raises ``TableError`` if the disk refuses the lock, or if it is unknown whether such a
    statement has ended, and what ``require_conditions`` raises. Nothing is written then.
    """
    file = Store(uri).lock
    if file is None:
        require_conditions(uri.rpartition("/")[0])
        try:
            yield
        finally:
            look_again()
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
