"""Whose statement writes a table over an engine: noted beside the table's lock until the engine has answered.

A client may die while its statement runs on; the kernel then frees the lock of the table. Whoever takes that lock next
finds the note, interrupts the statement, and waits for its end before anything is written.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from lakehouse.errors import ConflictError
from lakehouse.local.engine import lives, read_address

_PATIENCE = 60.0  # seconds for a statement that was interrupted to end


@dataclass(frozen=True)
class Writer:
    """Whose statement writes a table: a session, and the folder and the process of the engine on which it runs."""

    engine: str
    process: int
    session: str

    @classmethod
    def now(cls, engine: str, session: str) -> "Writer":
        """A session on the engine that is in this folder now."""
        address = read_address(Path(engine))
        return cls(engine, address.pid if address else 0, session)


def note_writer(lock: Path, writer: Writer) -> Path:
    """Note who writes, for who holds this lock of a table; return the note, to be deleted when the engine answered."""
    note = _note_of(lock)
    written = note.with_name(f"{note.name}.new")
    written.write_text(json.dumps(asdict(writer)))
    written.replace(note)
    return note


def _note_of(lock: Path) -> Path:
    return lock.with_name(f"{lock.name}.writer")


def require_ended(lock: Path, name: str) -> None:
    """End what the last holder of a table's lock left running, for who holds the lock now.

    Raises ``ConflictError`` where that cannot be done or does not end; nothing was written then.
    """
    note = _note_of(lock)
    if not note.exists():
        return
    writer = Writer(**json.loads(note.read_text()))
    if not _ended(writer):
        raise ConflictError(
            f"A statement that another process left behind may still write {name}",
            where=writer.engine,
            action="Run it again; if that does not help, stop the lakehouse up that keeps this engine.",
        )
    note.unlink()


def _ended(writer: Writer) -> bool:
    """Whether nothing runs any more for this writer; it is interrupted."""
    engine = Path(writer.engine)
    try:
        address = read_address(engine)
        if not lives(engine) or (address and address.pid != writer.process):
            return True  # where another one runs, the former is dead
        from lakehouse.connect import end_work  # noqa: PLC0415 - hardly ever needed

        return end_work(engine, writer.session, _PATIENCE)
    except PermissionError:  # somebody else's engine
        return False
