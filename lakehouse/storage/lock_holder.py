"""A note with the holder of a table's lock and its start time. It is shown to waiting processes and decides nothing."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

_MAX_LENGTH = 1000  # characters of a note
_work = {"what": ""}  # the work of this process: a command or a Dagster run


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
