"""Who holds the lock of a table and since when: a note beside it for those who wait, on which only words depend."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

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
    """Who has the lock, in words: ``another process`` where no note tells it."""
    try:
        what, process, since = json.loads(_note_of(lock).read_text(encoding="utf-8"))
        moment = datetime.fromtimestamp(since, UTC)
    except (OSError, ValueError, TypeError, OverflowError):
        return "another process"
    return f"{what or 'a program'} (process {process}, since {moment:%H:%M:%S} UTC)"


def _note_of(lock: Path) -> Path:
    return lock.with_name(f"{lock.name}.holder")
