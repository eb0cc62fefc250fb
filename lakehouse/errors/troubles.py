"""What errors of other programs mean: Spark, Delta, deltalake, Kafka's client in Spark, the operating system.

The one place for the signs by which such an error is known. Spark names a condition; a Java error that it passes
on, the disk and deltalake have none and are known by what they say.
"""

import errno
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto


class Trouble(Enum):
    """A kind of failure."""

    CONFLICT = auto()  # another writer committed first
    ENGINE_LOST = auto()  # the Spark Connect server does not answer, or knows our session no more
    INTERRUPTED = auto()  # a statement, by somebody else who wants to write
    RAN_AGAIN = auto()  # tasks whose executor died, or rows held there are gone
    OTHER_COLUMNS = auto()  # a range of changes lies before or over a change of the columns
    GONE = auto()  # a version of a table, or what changed in it, can no longer be read
    DISK_FULL = auto()
    FILES_OPEN = auto()  # too many of them, for the process or the machine
    READ_ONLY = auto()
    REFUSED = auto()  # no permission, no credentials, or such as have expired
    UNREACHABLE = auto()  # the store does not answer
    NO_FOLDER = auto()
    DAMAGED_LOG = auto()
    NO_TABLE = auto()
    CONSTRAINT = auto()
    DOUBLED_KEY = auto()  # a row of a MERGE meets more than one of the table, or the other way round
    APPEND_ONLY = auto()
    NEWER_DELTA = auto()
    DAMAGED_FILE = auto()  # a file of rows
    NOT_WRITTEN = auto()
    NOT_COMPUTED = auto()  # SQL of a declaration, for some row
    TOO_LARGE = auto()  # rows for this process to hold
    RECORDS_GONE = auto()  # records of a topic
    NO_SUCH_TIME = auto()  # of a record, as its producer set it
    BROKER = auto()  # the broker does not give them


# what may be otherwise the next time: where it is told, nothing else is
PASSING = (
    Trouble.ENGINE_LOST,
    Trouble.INTERRUPTED,
    Trouble.DISK_FULL,
    Trouble.FILES_OPEN,
    Trouble.READ_ONLY,
    Trouble.REFUSED,
    Trouble.UNREACHABLE,
    Trouble.RAN_AGAIN,
)


ANOTHER_ROW = "the row is no longer the one that was compared"  # said by our own MERGE


@dataclass(frozen=True)
class _Signs:
    """Spark's conditions (a name stands for all that begin with it), numbers of the system, patterns in the text."""

    conditions: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    patterns: tuple[str, ...] = ()

    def are_in(self, text: str) -> bool:
        """Whether one of the patterns stands in a text."""
        return any(re.search(pattern, text) for pattern in self.patterns)


# Java says it also of a file that cannot be opened now, for a reason in brackets, and of what an executor held
_FOR_NOW = "Permission|Too many|No space|Disk quota|Read-only|Input/output|Stale"
_NO_FILE = rf"FileNotFoundException(?!.*(?:/blockmgr-|\((?:{_FOR_NOW})))"
_SIGNS = {
    Trouble.CONFLICT: _Signs(
        conditions=("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"),
        patterns=(r"io\.delta\.exceptions\.Concurrent", ANOTHER_ROW),
    ),
    Trouble.ENGINE_LOST: _Signs(
        conditions=("INVALID_HANDLE", "RESPONSE_ALREADY_RECEIVED", "NO_ACTIVE_SESSION"),
        patterns=(r"StatusCode\.UNAVAILABLE",),
    ),
    Trouble.INTERRUPTED: _Signs(conditions=("OPERATION_CANCELED",)),
    Trouble.RAN_AGAIN: _Signs(
        conditions=(
            "DELTA_COMMAND_INVARIANT_VIOLATION",
            "DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY",
            "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND",
        ),
        patterns=("the source dataset is not deterministic", r"FileNotFoundException: .*/blockmgr-.*\(No such file"),
    ),
    Trouble.OTHER_COLUMNS: _Signs(
        conditions=(
            "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE",
            "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH",
            "PARQUET_CONVERSION_FAILURE",
        )
    ),
    Trouble.GONE: _Signs(
        conditions=(
            "DELTA_CHANGE_DATA_FILE_NOT_FOUND",
            "DELTA_MISSING_CHANGE_DATA",
            "DELTA_FILE_NOT_FOUND",
            "DELTA_VERSION_NOT_FOUND",
            "DELTA_VERSION_INVALID",
            "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND",
            "DELTA_LOG_FILE_NOT_FOUND",
            "DELTA_TRUNCATED_TRANSACTION_LOG",
            "FAILED_READ_FILE.FILE_NOT_EXIST",
        ),
        patterns=("Could not find any delta files for version", _NO_FILE),
    ),
    Trouble.DISK_FULL: _Signs(
        numbers=(errno.ENOSPC, errno.EDQUOT), patterns=("No space left on device", "Disk quota exceeded")
    ),
    Trouble.FILES_OPEN: _Signs(numbers=(errno.EMFILE, errno.ENFILE), patterns=("Too many open files",)),
    Trouble.READ_ONLY: _Signs(numbers=(errno.EROFS,), patterns=("Read-only file system",)),
    Trouble.REFUSED: _Signs(
        numbers=(errno.EACCES, errno.EPERM),
        patterns=(
            "Permission denied",
            "Access ?Denied",
            "AccessControlException",
            "40[13] (Unauthorized|Forbidden)",
            "lacked (the necessary privileges|valid authentication)",
            "Expired ?Token|TokenRefreshRequired",
            "InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|RequestTimeTooSkewed",
            "AuthenticationFailed|AuthorizationFailure|AuthorizationPermissionMismatch",
            "(loading|Unable to load) credentials|NoAuthWithAWS|NoAwsCredentials",
        ),
    ),
    Trouble.UNREACHABLE: _Signs(
        numbers=(errno.ECONNREFUSED, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ECONNRESET),
        patterns=(
            r"error sending request|tcp connect error|dns error|operation timed out|\(os error 11[01]\)",
            "(429|50[0234]) (Too Many|Internal Server|Bad Gateway|Service Unavailable|Gateway Time)",
            r"java\.net\.(Connect|UnknownHost|NoRouteToHost|SocketTimeout)Exception",
            "ApiCall(Attempt)?Timeout|AWSServiceIOException|AWSServiceThrottled|AWSStatus500|AWSServiceUnavailable",
        ),
    ),
    Trouble.NO_FOLDER: _Signs(conditions=("DELTA_CANNOT_CREATE_LOG_PATH",)),
    Trouble.DAMAGED_LOG: _Signs(
        conditions=(
            "DELTA_VERSIONS_NOT_CONTIGUOUS",
            "DELTA_STATE_RECOVER_ERROR",
            "DELTA_LOG_FILE",
            "DELTA_TRUNCATED_TRANSACTION_LOG",
            "DELTA_MISSING_PART_FILES",
        ),
        patterns=(
            r"FAILED_READ_FILE.*_delta_log/",
            "Json error|Parquet error|Invalid Checkpoint|found gap",
            "No table metadata or protocol found",
            r"_delta_log.*\s.*Not a directory",
        ),
    ),
    Trouble.NO_TABLE: _Signs(
        conditions=(
            "DELTA_TABLE_NOT_FOUND",
            "DELTA_MISSING_DELTA_TABLE",
            "DELTA_PATH_DOES_NOT_EXIST",
            "PATH_NOT_FOUND",
        )
    ),
    Trouble.CONSTRAINT: _Signs(conditions=("DELTA_VIOLATE_CONSTRAINT", "DELTA_NOT_NULL")),
    Trouble.DOUBLED_KEY: _Signs(conditions=("DELTA_MULTIPLE_SOURCE_ROW_MATCHING",)),
    Trouble.APPEND_ONLY: _Signs(conditions=("DELTA_CANNOT_MODIFY_APPEND_ONLY",)),
    Trouble.NEWER_DELTA: _Signs(
        conditions=("DELTA_UNSUPPORTED_FEATURES", "DELTA_INVALID_PROTOCOL_VERSION"),
        patterns=("Kernel error: Unsupported",),
    ),
    Trouble.DAMAGED_FILE: _Signs(conditions=("FAILED_READ_FILE",), patterns=(_NO_FILE, "ChecksumException")),
    Trouble.NOT_WRITTEN: _Signs(conditions=("TASK_WRITE_FAILED",)),
    Trouble.NOT_COMPUTED: _Signs(
        conditions=(
            "ARITHMETIC_OVERFLOW",
            "CAST_INVALID_INPUT",
            "CAST_OVERFLOW",
            "DATETIME_",
            "DIVIDE_BY_ZERO",
            "INVALID_ARRAY_INDEX",
            "INVALID_INDEX_OF_ZERO",
            "NUMERIC_VALUE_OUT_OF_RANGE",
            "REMAINDER_BY_ZERO",
        )
    ),
    Trouble.TOO_LARGE: _Signs(patterns=(r"spark\.driver\.maxResultSize",)),
    Trouble.RECORDS_GONE: _Signs(
        conditions=("KAFKA_DATA_LOSS",), patterns=("OffsetOutOfRange", "Some data may have been lost")
    ),
    Trouble.NO_SUCH_TIME: _Signs(patterns=(r"partition \d+ offset \d+ has timestamp value \d+ that overflows",)),
    Trouble.BROKER: _Signs(
        patterns=(r"org\.apache\.kafka\.common\.errors", "KafkaException", "Cannot fetch record for offset")
    ),
}
# in brackets before what Spark says, or in quotes where Delta's own sentence could not be made
_CONDITION = re.compile(r"\[([A-Z0-9]+(?:_[A-Z0-9]+)+(?:\.[A-Z0-9_]+)?)\]|error class '([A-Z0-9_.]+)'")


def error_text(error: Exception) -> str:
    """Return all that an error of Spark says: Delta's own errors fail while their message is made."""
    try:
        return str(error)
    except Exception as cause:
        return str(cause)


def means(error: Exception, trouble: Trouble) -> bool:
    """Whether an error means this trouble."""
    return trouble_of(error, (trouble,)) is not None


def is_gone(error: Exception) -> bool:
    """Whether a version of a table, or what changed in it, can no longer be read, now and later."""
    return trouble_of(error, (*PASSING, Trouble.GONE)) is Trouble.GONE


def trouble_of(error: Exception, among: Iterable[Trouble]) -> Trouble | None:
    """Return the first of these troubles that an error means, ``None`` where it means none of them."""
    text = error_text(error)
    named = _conditions(error, text)
    number = error.errno if isinstance(error, OSError) else None
    for trouble in among:
        signs = _SIGNS[trouble]
        if any(name.startswith(signs.conditions) for name in named) or number in signs.numbers or signs.are_in(text):
            return trouble
    return None


def _conditions(error: Exception, text: str) -> set[str]:
    """Spark's names for an error and its causes: asked of it, and read in its text, where Java's errors have them."""
    names = {bracketed or quoted for bracketed, quoted in _CONDITION.findall(text)}
    with suppress(Exception):  # a session that has ended cannot be asked
        names.add(getattr(error, "getCondition", str)() or "")
    return names - {""}


def telling_line(error: Exception, trouble: Trouble) -> str:
    """Return the line of an error's text that tells this trouble, else its first."""
    signs = _SIGNS[trouble]
    lines = [line.strip() for line in error_text(error).splitlines() if line.strip()] or [type(error).__name__]
    told = (line for line in lines if any(name in line for name in signs.conditions) or signs.are_in(line))
    return next(told, lines[0])
