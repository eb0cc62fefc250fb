"""Whose statement writes a table, where it may outlive the process that waits for it: told beside the table's lock.

A client may die while its statement runs on; the kernel then frees the lock of the table. Over an engine, the writer is
noted until the engine has answered: whoever takes the lock next finds the note, interrupts the statement, and waits for
its end before anything is written. A Java of a process's own may live some moments longer than its process: while a
statement of its writes, it holds a lock itself, which the kernel frees when that Java is dead. Where nobody can tell
whether a statement has ended, nothing is written.
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

from lakehouse.errors import LockedError, SetupError, TableError
from lakehouse.spark.engine import lives, read_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE = 60.0  # seconds for a statement that was interrupted to end
_POLL = 0.1
_log = logging.getLogger(__name__)
_DELETE = "Delete this note when no lakehouse up runs, in whatever home, that could write the table; then run it again."


@dataclass(frozen=True)
class Writer:
    """Whose statement writes a table: a session, and of its engine the folder, the start and the lock's inode."""

    engine: str
    start: str
    lock: int
    session: str

    @classmethod
    def now(cls, engine: str, session: str) -> "Writer":
        """A session on the engine that is in this folder now."""
        address = read_address(Path(engine))
        return cls(engine, address.start if address else "", _lock_of(engine), session)


def _lock_of(engine: str) -> int:
    """The inode of an engine's lock: in another file of that name, nobody sees who lives. 0 where there is none."""
    try:
        return (Path(engine) / "lock").stat().st_ino
    except OSError:
        return 0


def note_writer(lock: Path, writer: Writer) -> Path:
    """Note who writes, for who holds this lock of a table; return the note, to be deleted when the engine answered.

    It is on the disk then. ``OSError`` where the disk refuses it.
    """
    note = _note_of(lock)
    written = note.with_name(f"{note.name}.new")
    with written.open("w") as file:
        file.write(json.dumps(asdict(writer)))
        file.flush()
        os.fsync(file.fileno())
    written.replace(note)
    folder = os.open(note.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return note


def _note_of(lock: Path) -> Path:
    return lock.with_name(f"{lock.name}.writer")


def require_ended(lock: Path, name: str) -> None:
    """End what the last holder of a table's lock left running, for who holds the lock now.

    Raises ``TableError`` where that cannot be done, does not end, or cannot be told; nothing was written then.
    """
    _await_java(lock, name)
    note = _note_of(lock)
    if not os.path.lexists(note):
        return
    writer = _read(note)
    if writer is None:
        fact = f"A statement may still write {name}: the note of who wrote it last cannot be read"
        raise TableError(fact, where=str(note), action=_DELETE)
    if not writer.lock or writer.lock != _lock_of(writer.engine):
        fact = f"A statement may still write {name}: its engine is no longer in {writer.engine}, and may live"
        raise TableError(fact, where=str(note), action=_DELETE)
    _log.info("Ending what a process that is gone left writing %s", name)
    if not _ended(writer):
        fact = f"A statement that another process left behind may still write {name}, on the engine in {writer.engine}"
        action = f"Run it again; if that does not help, stop the lakehouse up that keeps this engine. {_DELETE}"
        raise TableError(fact, where=str(note), action=action)
    note.unlink()


@contextmanager
def java_lock(spark: "SparkSession", lock: Path) -> Iterator[None]:
    """Have the Java of a session hold the table's second lock, until this ends or that Java is dead.

    For who holds the first, and has waited until nobody holds this one.
    """
    file = spark._jvm.java.io.RandomAccessFile(str(_java_lock_of(lock)), "rw")  # type: ignore[union-attr]
    try:
        if file.getChannel().tryLock() is None:
            raise _left_in_java(lock, lock.name)
        yield
    finally:
        file.close()


def _java_lock_of(lock: Path) -> Path:
    return lock.with_name(f"{lock.name}.java")


def _left_in_java(lock: Path, name: str) -> LockedError:
    fact = f"A statement that was left behind may still write {name}, in a Java that lives"
    return LockedError(fact, where=str(_java_lock_of(lock)), action="Run it again when that Java has ended.")


def _await_java(lock: Path, name: str) -> None:
    """Wait until no Java writes the table for a process that has left it alone."""
    deadline = time.monotonic() + _PATIENCE
    if _is_held(_java_lock_of(lock)):
        _log.info("Waiting for the end of what a process that is gone left writing %s", name)
    while _is_held(_java_lock_of(lock)):
        if time.monotonic() > deadline:
            raise _left_in_java(lock, name)
        time.sleep(_POLL)


def _is_held(file: Path) -> bool:
    """Whether another process has a lock of this file, of the kind that Java takes."""
    try:
        opened = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(opened)
    return False


def _read(note: Path) -> Writer | None:
    """What a note says; ``None`` where that is not what is noted here, as in one of a newer version."""
    try:
        said = json.loads(note.read_text())
        writer = Writer(**said)
    except (OSError, ValueError, TypeError):
        return None
    kinds = (str, str, int, str)
    return writer if tuple(map(type, asdict(writer).values())) == kinds else None


def _ended(writer: Writer) -> bool:
    """Whether nothing runs any more for this writer; it is interrupted."""
    engine = Path(writer.engine)
    try:
        address = read_address(engine)
        if not lives(engine) or (address and writer.start and address.start != writer.start):
            return True  # where another one has the lock, the former is dead
        from lakehouse.spark.connect import end_work  # noqa: PLC0415 - hardly ever needed

        return end_work(engine, writer.session, _PATIENCE)
    except SetupError:  # somebody else's engine
        return False
