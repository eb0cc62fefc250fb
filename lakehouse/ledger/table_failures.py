"""Turns failures of a table, of its log and of the table store into errors that name the table and the remedy.

After any failure the table is at its previous version or at a complete new one, so the next run can continue.
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
    restore_advice,
)
from lakehouse.errors.causes import error_text
from lakehouse.errors.troubles import Trouble, find_trouble, matching_line

_MAX_QUOTED = 400  # characters of another program's message
_USE_BACKUP = (
    "Restore the table from a backup. A recreated table holds only what its sources still hold, and a topic does not"
    " keep its oldest records forever."
)
_UNDO = (
    "Another program changed the table in this way. Undo that change, or restore the version before it, then run it"
    " again. {restore}"
)
_DROP_FEATURE = (
    "Another program turned on a feature of Delta that this version does not know. Drop it with that program (ALTER"
    " TABLE ... DROP FEATURE), or restore the table from a backup. Then run it again."
)
_FIX_ACCESS = (
    "Correct the permissions or renew the credentials of the store, then run it again. The table is unchanged."
)
_WAIT_FOR_STORE = (
    "Run it again when the store responds, or correct its address. This error does not mean that the table is damaged."
)
_READ_MESSAGE = "Read the message, and check that LAKEHOUSE_TABLES names the right place. Then run it again."

# each trouble with its error, its meaning and its remedy; the first match wins, since a full disk causes other failures
_EXPLANATIONS: dict[Trouble, tuple[type[LakehouseError], str, str]] = {
    Trouble.ENGINE_LOST: (
        EngineLostError,
        "The engine or Spark Connect server has ended, does not respond, or closed this session",
        "Run it again: it continues from the current version of the table, and lakehouse up restarts its engine. If"
        " lakehouse up reports that the memory was full, raise LAKEHOUSE_SPARK_DRIVER_MEMORY.",
    ),
    Trouble.INTERRUPTED: (EngineLostError, "The statement was interrupted on the engine", "Run it again."),
    Trouble.DISK_FULL: (
        TableError,
        "No space left on device",
        "Free some space and run it again: it continues from the current version of the table.",
    ),
    Trouble.FILES_OPEN: (
        TableError,
        "Too many files are open",
        "Raise the limit of open files (ulimit -n), or stop the processes that hold them open, and run it again.",
    ),
    Trouble.READ_ONLY: (TableError, "The table is on a read-only file system", "Make it writable and run it again."),
    Trouble.REFUSED: (StoreRefusedError, "Access to the table's files is denied", _FIX_ACCESS),
    Trouble.UNREACHABLE: (StoreUnreachableError, "The table store cannot be reached", _WAIT_FOR_STORE),
    Trouble.NO_FOLDER: (
        TableError,
        "The table's folder cannot be created",
        "Check that its parent is a writable folder, or correct LAKEHOUSE_TABLES.",
    ),
    Trouble.RAN_AGAIN: (
        ExecutorLostError,
        "An executor died, and the rows that it held or counted would be read or counted twice",
        "Nothing was committed. Find out why the cluster ended it (memory, preemption), then run it again.",
    ),
    Trouble.DAMAGED_LOG: (TableDamagedError, "The table's log is damaged and cannot be read", _USE_BACKUP),
    Trouble.NO_TABLE: (TableError, "The table does not exist", "First run the job or command that creates it."),
    Trouble.CONSTRAINT: (TableError, "The rows violate a constraint of the table", _UNDO),
    Trouble.DOUBLED_KEY: (TableError, "A key of the batch matches more than one row", _UNDO),
    Trouble.APPEND_ONLY: (TableError, "The table was made append-only", _UNDO),
    Trouble.NEWER_DELTA: (TableError, "The table needs a newer version of Delta", _DROP_FEATURE),
    Trouble.DAMAGED_FILE: (TableDamagedError, "A file is missing or damaged", _USE_BACKUP),
    Trouble.NOT_COMPUTED: (
        TableError,
        "SQL of the declaration cannot be computed for some rows",
        "Nothing was written. Make it return NULL for such rows, as try_sum(), try_cast(), try_divide() and get() do.",
    ),
    Trouble.NOT_WRITTEN: (TableError, "The rows could not be written", "Check the disk and run it again."),
}


def disk_failure(error: OSError, uri: str) -> LakehouseError:
    """Return an error of the disk as an error that names the table and the remedy."""
    action = "Make the folder of the tables writable, or correct LAKEHOUSE_TABLES."
    return explain_error(error, uri) or TableError(str(error.strerror), where=uri, action=action)


@contextmanager
def log_failures(uri: str) -> Iterator[None]:
    """Raise failures to read a table's log as ``TableError``; ``TableNotFoundError`` passes unchanged."""
    try:
        yield
    except TableNotFoundError:
        raise
    except (DeltaError, OSError, ValueError) as error:
        message = f"The table's log cannot be read: {_one_line(error_text(error))}"
        unknown = TableError(message, where=uri, action=_READ_MESSAGE)
        raise (explain_error(error, uri) or unknown) from error


@contextmanager
def write_failures(uri: str) -> Iterator[None]:
    """Raise failures of deltalake to write a table as ``TableError``; a conflicting commit passes unchanged."""
    try:
        yield
    except CommitFailedError:
        raise
    except (DeltaError, OSError, ValueError) as error:
        _, meaning, action = _EXPLANATIONS[Trouble.NOT_WRITTEN]
        unknown = TableError(f"{meaning}: {_one_line(error_text(error))}", where=uri, action=action)
        raise (explain_error(error, uri, excluded_trouble=Trouble.DAMAGED_LOG) or unknown) from error


def damaged_log_error(detail: str, uri: str) -> LakehouseError:
    """Return the error for a log with a file whose contents are not what was written."""
    error_type, meaning, action = _EXPLANATIONS[Trouble.DAMAGED_LOG]
    return error_type(f"{meaning}: {detail}", where=uri, action=action)


def explain_error(error: Exception, uri: str, excluded_trouble: Trouble | None = None) -> LakehouseError | None:
    """Return what an error of Spark, deltalake or the disk means for a table; ``None`` if it is unknown."""
    trouble = find_trouble(error, [trouble for trouble in _EXPLANATIONS if trouble is not excluded_trouble], uri)
    if trouble is None:
        return None
    error_type, meaning, action = _EXPLANATIONS[trouble]
    has_short_message = isinstance(error, (DeltaError, OSError))
    message = _one_line(error_text(error)) if has_short_message else _strip_classes(matching_line(error, trouble))
    advice = action.format(restore=restore_advice(uri))
    return error_type(meaning if message == meaning else f"{meaning}: {message}", where=uri, action=advice)


def _strip_classes(line: str) -> str:
    """Return a line of Spark's trace without the names of Java's exceptions."""
    return _shorten(re.sub(r"^(Caused by: |: )?([\w.$]+(Exception|Error): )*", "", line))


def _one_line(text: str) -> str:
    """Join the lines of a message of deltalake: a sentence and its causes.

    Leaves out the trace, the query of a URL, the elapsed time, which differs each time, and the XML of a store.
    """
    lines = [re.sub(r"\x1b\[\d*m|↳", "", line).strip() for line in text.splitlines()]
    trace = next((number for number, line in enumerate(lines) if re.match(r"\d+: ", line)), len(lines))
    message = re.sub(r"^((Generic delta )?[Kk]ernel error(:| ->) )*", "", ": ".join(filter(None, lines[:trace])))
    message = re.sub(r"(\b\w+://[^\s?]+)\?\S+", r"\1", message)
    message = re.sub(r"<\?xml.*?<Code>(\w+)</Code>.*?<Message>(.*?)\.?</Message>.*", r"\1, \2", message)
    return _shorten(re.sub(r" in [\d.]+[nµm]?s\b", "", message))


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]} ..."
