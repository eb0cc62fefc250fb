"""Failures of a table, of its log and of the disk below it, as errors that name the table and the way on.

Whatever fails, the table is at the version it had or at a whole new one: to run again goes on from there.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from lakehouse.errors import TableError

_LOG = "_delta_log"
_LONGEST = 400  # characters of somebody else's sentence
_FROM_BACKUP = (
    "Bring it back from a backup, or move the table's folder away: the next run makes the table anew from what"
    " its sources still hold."
)
_AWAY = "Move it away, or correct LAKEHOUSE_TABLES."
_RESTORE = "Undo that, or RESTORE the table to a version before it; then run it again."


@dataclass(frozen=True)
class _Trouble:
    """A kind of failure: marks in what Spark says, what it means, and what to do."""

    marks: tuple[str, ...]
    what: str
    action: str


_TROUBLES = (
    _Trouble(
        ("No space left on device", "Disk quota exceeded"),
        "No space left on device",
        "Make space and run it again: it goes on from the version the table has.",
    ),
    _Trouble(
        ("Read-only file system",), "The table is on a read-only file system", "Make it writable and run it again."
    ),
    _Trouble(
        ("Permission denied", "AccessDenied", "AccessControlException"),
        "The table's files may not be read or written",
        "Correct their permissions and run it again.",
    ),
    _Trouble(
        ("DELTA_CANNOT_CREATE_LOG_PATH",),
        "The table's folder cannot be made",
        "See that its parent is a folder that can be written, or correct LAKEHOUSE_TABLES.",
    ),
    _Trouble(
        ("DELTA_VERSIONS_NOT_CONTIGUOUS", "DELTA_STATE_RECOVER_ERROR", "DELTA_LOG_FILE", "_delta_log/"),
        "The table's log is damaged",
        _FROM_BACKUP,
    ),
    _Trouble(
        ("DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "DELTA_PATH_DOES_NOT_EXIST", "[PATH_NOT_FOUND]"),
        "The table is not there",
        "Run what makes it first.",
    ),
    _Trouble(("DELTA_VIOLATE_CONSTRAINT", "DELTA_NOT_NULL"), "A constraint refuses the rows", _RESTORE),
    _Trouble(("DELTA_MULTIPLE_SOURCE_ROW_MATCHING",), "A key of the batch stands in more than one row", _RESTORE),
    _Trouble(("DELTA_CANNOT_MODIFY_APPEND_ONLY",), "The table was made append-only", _RESTORE),
    _Trouble(
        ("DELTA_UNSUPPORTED_FEATURES", "DELTA_INVALID_PROTOCOL_VERSION"),
        "The table needs a newer Delta than this one",
        _RESTORE,
    ),
    _Trouble(
        ("FAILED_READ_FILE", "FileNotFoundException", "ChecksumException"), "A file is missing or damaged", _FROM_BACKUP
    ),
    _Trouble(("TASK_WRITE_FAILED",), "The rows could not be written", "Look after the disk and run it again."),
)


@contextmanager
def table_failures(uri: str = "") -> Iterator[None]:
    """Turn what Spark says of a table it cannot read or write into ``TableError``; other errors pass."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - what only looks at tables needs no Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from lakehouse.spark import error_text  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        told = _explained(error_text(error), uri)
        if told is None:
            raise
        raise told from error


def disk_failure(error: OSError, uri: str) -> TableError:
    """What the disk refused, as an error that names the table and the way on."""
    action = "See that the folder of the tables can be written, or correct LAKEHOUSE_TABLES."
    return _explained(str(error), uri) or TableError(str(error.strerror), where=uri, action=action)


def _explained(said: str, uri: str) -> TableError | None:
    for trouble in _TROUBLES:
        if any(mark in said for mark in trouble.marks):
            return TableError(_told(trouble, said), where=uri, action=trouble.action)
    return None


def _told(trouble: _Trouble, said: str) -> str:
    """What happened, with the line that says it."""
    lines = [line for line in said.splitlines() if any(mark in line for mark in trouble.marks)]
    line = re.sub(r"^(Caused by: |: )?([\w.$]+(Exception|Error): )*", "", lines[0].strip())
    return trouble.what if line == trouble.what else f"{trouble.what}: {_short(line)}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


@contextmanager
def log_failures(uri: str) -> Iterator[None]:
    """Turn what a table's log cannot be read for into ``TableError``; that there is no table passes."""
    try:
        yield
    except TableNotFoundError:
        raise
    except (DeltaError, OSError, ValueError) as error:
        first = re.sub(r"^((Generic delta )?[Kk]ernel error(:| ->) )*", "", str(error).strip().splitlines()[0])
        raise TableError(f"The table's log cannot be read: {_short(first)}", where=uri, action=_FROM_BACKUP) from error


def open_table(uri: str) -> DeltaTable | None:
    """Open a table without a JVM; ``None`` where there is none and the place is free.

    A folder in which a creation was cut off is free. Raises ``TableError`` where something else stands there.
    """
    names = {_LOG} if "://" in uri else _names_in(Path(uri))
    if _LOG in names:
        with log_failures(uri), suppress(TableNotFoundError):
            return DeltaTable(uri)
    strangers = sorted(names - {_LOG})
    if strangers:
        what = f"The folder is not a Delta table: it holds {strangers[0]}, but no log"
        raise TableError(what, where=uri, action=_AWAY)
    return None


def _names_in(folder: Path) -> set[str]:
    """What a folder holds; nothing where there is none."""
    try:
        return {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return set()
    except NotADirectoryError as error:
        raise TableError("A file stands where the table's folder belongs", where=str(folder), action=_AWAY) from error
    except OSError as error:
        action = "Correct its permissions."
        raise TableError(f"The folder cannot be read: {error.strerror}", where=str(folder), action=action) from error
