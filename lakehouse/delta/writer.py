"""Whose statement writes a table over an engine: noted beside the table's lock until the engine has answered.

A client may die while its statement runs on; the kernel then frees the lock of the table. Whoever takes that lock next
finds the note, interrupts the statement, and waits for its end before anything is written. Where nobody can tell
whether it has ended, nothing is written.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from lakehouse.errors import SetupError, TableError
from lakehouse.local.engine import lives, read_address

_PATIENCE = 60.0  # seconds for a statement that was interrupted to end
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
    if not _ended(writer):
        fact = f"A statement that another process left behind may still write {name}, on the engine in {writer.engine}"
        action = f"Run it again; if that does not help, stop the lakehouse up that keeps this engine. {_DELETE}"
        raise TableError(fact, where=str(note), action=action)
    note.unlink()


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
        from lakehouse.connect import end_work  # noqa: PLC0415 - hardly ever needed

        return end_work(engine, writer.session, _PATIENCE)
    except SetupError:  # somebody else's engine
        return False
