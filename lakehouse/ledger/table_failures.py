"""Failures of a table, of its log and of the store below it, as errors that name the table and the way on.

Whatever fails, the table is at the version it had or at a whole new one: to run again goes on from there.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from lakehouse.errors import (
    EngineLostError,
    ExecutorLostError,
    LakehouseError,
    StoreRefusedError,
    StoreUnreachableError,
    TableDamagedError,
    TableError,
)
from lakehouse.errors.causes import error_text
from lakehouse.errors.troubles import Trouble, telling_line, trouble_of

_LONGEST = 400  # characters of somebody else's sentence
_FROM_BACKUP = (
    "Bring it back from a backup. A table that is made anew instead holds what its sources still hold, and a topic"
    " does not hold its oldest records for ever."
)
_UNDO = "Undo that, or RESTORE the table to a version before it; then run it again."
_ACCESS = "Correct the permissions, or renew the credentials of the store, and run it again: the table is as it was."
_LATER = "Run it again when the store answers, or correct its address: this says nothing of the table."
_SEE = "See what it says, and that LAKEHOUSE_TABLES names the right place; then run it again."

# what it means and what to do, the first that fits: a disk or a store that fails makes many other things fail
_TOLD: dict[Trouble, tuple[type[LakehouseError], str, str]] = {
    Trouble.ENGINE_LOST: (
        EngineLostError,
        "The engine or Spark Connect server has ended, is silent, or gave up this session",
        "Run it again: it goes on from the version the table has, and lakehouse up starts its engine again. Where that"
        " says its memory was full, raise LAKEHOUSE_SPARK_DRIVER_MEMORY.",
    ),
    Trouble.INTERRUPTED: (EngineLostError, "The statement was interrupted on the engine", "Run it again."),
    Trouble.DISK_FULL: (
        TableError,
        "No space left on device",
        "Make space and run it again: it goes on from the version the table has.",
    ),
    Trouble.FILES_OPEN: (
        TableError,
        "Too many files are open",
        "Raise the limit of open files (ulimit -n), or close what holds them, and run it again.",
    ),
    Trouble.READ_ONLY: (TableError, "The table is on a read-only file system", "Make it writable and run it again."),
    Trouble.REFUSED: (StoreRefusedError, "The table's files may not be read or written", _ACCESS),
    Trouble.UNREACHABLE: (StoreUnreachableError, "The store of the table cannot be reached", _LATER),
    Trouble.NO_FOLDER: (
        TableError,
        "The table's folder cannot be made",
        "See that its parent is a folder that can be written, or correct LAKEHOUSE_TABLES.",
    ),
    Trouble.RAN_AGAIN: (
        ExecutorLostError,
        "An executor died, and rows held or counted there would be read or counted twice",
        "Nothing was committed: run it again, with executors that last longer.",
    ),
    Trouble.DAMAGED_LOG: (TableDamagedError, "The table's log cannot be read, it is damaged", _FROM_BACKUP),
    Trouble.NO_TABLE: (TableError, "The table is not there", "Run what makes it first."),
    Trouble.CONSTRAINT: (TableError, "A constraint refuses the rows", _UNDO),
    Trouble.DOUBLED_KEY: (TableError, "A key of the batch stands in more than one row", _UNDO),
    Trouble.APPEND_ONLY: (TableError, "The table was made append-only", _UNDO),
    Trouble.NEWER_DELTA: (TableError, "The table needs a newer Delta than this one", _UNDO),
    Trouble.DAMAGED_FILE: (TableDamagedError, "A file is missing or damaged", _FROM_BACKUP),
    Trouble.NOT_COMPUTED: (
        TableError,
        "SQL of the declaration cannot be computed for some rows",
        "Nothing was written. Have it give NULL there, as try_sum(), try_cast(), try_divide() and get() do.",
    ),
    Trouble.NOT_WRITTEN: (TableError, "The rows could not be written", "Look after the disk and run it again."),
}


def disk_failure(error: OSError, uri: str) -> LakehouseError:
    """What the disk refused, as an error that names the table and the way on."""
    action = "See that the folder of the tables can be written, or correct LAKEHOUSE_TABLES."
    return explained(error, uri) or TableError(str(error.strerror), where=uri, action=action)


@contextmanager
def log_failures(uri: str) -> Iterator[None]:
    """Turn what a table's log cannot be read for into ``TableError``; that there is no table passes."""
    try:
        yield
    except TableNotFoundError:
        raise
    except (DeltaError, OSError, ValueError) as error:
        unknown = TableError(f"The table's log cannot be read: {_one_line(error_text(error))}", where=uri, action=_SEE)
        raise (explained(error, uri) or unknown) from error


@contextmanager
def write_failures(uri: str) -> Iterator[None]:
    """Turn what deltalake cannot write a table for into ``TableError``; a commit that others made first passes."""
    try:
        yield
    except CommitFailedError:
        raise
    except (DeltaError, OSError, ValueError) as error:
        _, what, action = _TOLD[Trouble.NOT_WRITTEN]
        unknown = TableError(f"{what}: {_one_line(error_text(error))}", where=uri, action=action)
        raise (explained(error, uri, but=Trouble.DAMAGED_LOG) or unknown) from error


def damaged_log(said: str, uri: str) -> LakehouseError:
    """The error of a log of which a file cannot be what was written."""
    kind, what, action = _TOLD[Trouble.DAMAGED_LOG]
    return kind(f"{what}: {said}", where=uri, action=action)


def explained(error: Exception, uri: str, but: Trouble | None = None) -> LakehouseError | None:
    """What an error of Spark, deltalake or the disk means for a table, as ours; ``None`` where nobody knows."""
    trouble = trouble_of(error, [each for each in _TOLD if each is not but], uri)
    if trouble is None:
        return None
    kind, what, action = _TOLD[trouble]
    of_deltalake = isinstance(error, (DeltaError, OSError))
    said = _one_line(error_text(error)) if of_deltalake else _cause(telling_line(error, trouble))
    return kind(what if said == what else f"{what}: {said}", where=uri, action=action)


def _cause(line: str) -> str:
    """A line of Spark's trace without the names of Java's exceptions."""
    return _short(re.sub(r"^(Caused by: |: )?([\w.$]+(Exception|Error): )*", "", line))


def _one_line(text: str) -> str:
    """What deltalake says, a sentence and its causes below each other.

    Without its trace, what a URL asks for, and how long it took: that is never twice the same.
    """
    lines = [re.sub(r"\x1b\[\d*m|↳", "", line).strip() for line in text.splitlines()]
    trace = next((number for number, line in enumerate(lines) if re.match(r"\d+: ", line)), len(lines))
    said = re.sub(r"^((Generic delta )?[Kk]ernel error(:| ->) )*", "", ": ".join(filter(None, lines[:trace])))
    said = re.sub(r"(\b\w+://[^\s?]+)\?\S+", r"\1", said)
    return _short(re.sub(r" in [\d.]+[nµm]?s\b", "", said))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
