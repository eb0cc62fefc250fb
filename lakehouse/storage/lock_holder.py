"""Who holds the lock of a table and since when: a note beside it for those who wait, on which only words depend."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

_LONGEST = 1000  # characters of a note
_work = {"what": ""}  # what this process does, as a person knows it


def name_work(what: str) -> None:
    """Say what this process does from now on: a verb, or a run of Dagster."""
    _work["what"] = what


@contextmanager
def noted(lock: Path) -> Iterator[None]:
    """Note that this process has the lock, until it gives it back; a disk that refuses the note changes nothing."""
    note = _note_of(lock)
    with suppress(OSError):
        note.write_text(json.dumps([_work["what"], os.getpid(), time.time()]), encoding="utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            note.unlink()


def holder_of(lock: Path) -> str:
    """Who has the lock, in words: ``another writer`` where no note tells it, or anything else stands in that."""
    try:
        with _note_of(lock).open(encoding="utf-8") as note:
            what, process, since = json.loads(note.read(_LONGEST))
        moment = datetime.fromtimestamp(since, UTC)
        known = type(process) is int and what.isprintable()
    except (AttributeError, OSError, OverflowError, RecursionError, TypeError, ValueError):
        known = False
    if not known:
        return "another writer"
    whose = "this process" if process == os.getpid() else f"process {process}"
    day = "" if moment.date() == datetime.now(UTC).date() else f"{moment:%Y-%m-%d} "
    return f"{what or 'a program'} ({whose}, since {day}{moment:%H:%M:%S} UTC)"


def _note_of(lock: Path) -> Path:
    return lock.with_name(f"{lock.name}.holder")
