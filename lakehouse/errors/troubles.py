"""What errors of other programs mean: Spark, Delta, deltalake, Kafka's client in Spark, the operating system.

The one place for the signs by which such an error is known. Spark names a condition, Java a class, the system a
number: where there is one, it decides. What has none of them is known by its own words, never by those it quotes.
"""

import errno
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from lakehouse.errors.causes import Cause, causes_of, masked


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
    """Of a trouble; a name stands for all that begin with it."""

    conditions: tuple[str, ...] = ()
    worded: tuple[tuple[str, str], ...] = ()
    """Conditions that tell it only where their first line holds such words."""
    classes: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    """Of gRPC, where the server itself says nothing."""
    numbers: tuple[int, ...] = ()
    patterns: tuple[str, ...] = ()
    """In the first line of what has neither a condition nor a class that is known, after its class."""


def _of_system(text: str) -> str:
    """What the system says, as Java tells it: at the end, alone or behind a path."""
    return rf"(^|: |\(){text}\)?$"


_JAVA_IO = r"^java\.io\.FileNotFoundException: "
# Java says it also of a file that cannot be opened now, for a reason in brackets, and of what an executor held
_FOR_NOW = "Permission|Too many|No space|Disk quota|Read-only|Input/output|Stale"
_HELD = r"/blockmgr-[0-9a-f-]+/[0-9a-f]{2}/\w+ \(No such file"
_NO_FILE = rf"{_JAVA_IO}(?!.*{_HELD})(?!.*\(({_FOR_NOW})[^()]*\)$)"
_SIGNS = {
    Trouble.CONFLICT: _Signs(
        conditions=("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"),
        worded=(("USER_RAISED_EXCEPTION", f"^{ANOTHER_ROW}"),),
        classes=("io.delta.exceptions.Concurrent",),
    ),
    Trouble.ENGINE_LOST: _Signs(
        conditions=("INVALID_HANDLE", "RESPONSE_ALREADY_RECEIVED", "NO_ACTIVE_SESSION"),
        codes=("UNAVAILABLE", "CANCELLED"),
    ),
    Trouble.INTERRUPTED: _Signs(conditions=("OPERATION_CANCELED",)),
    Trouble.RAN_AGAIN: _Signs(
        conditions=(
            "DELTA_COMMAND_INVARIANT_VIOLATION",
            "DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY",
            "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND",
        ),
        patterns=("the source dataset is not deterministic", rf"{_JAVA_IO}.*{_HELD}"),
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
        numbers=(errno.ENOSPC, errno.EDQUOT), patterns=(_of_system("(No space left on device|Disk quota exceeded)"),)
    ),
    Trouble.FILES_OPEN: _Signs(numbers=(errno.EMFILE, errno.ENFILE), patterns=(_of_system("Too many open files"),)),
    Trouble.READ_ONLY: _Signs(numbers=(errno.EROFS,), patterns=(_of_system("Read-only file system"),)),
    Trouble.REFUSED: _Signs(
        numbers=(errno.EACCES, errno.EPERM),
        classes=(
            "java.nio.file.AccessDeniedException",
            "org.apache.hadoop.security.AccessControlException",
            "org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException",
            "org.apache.hadoop.fs.s3a.auth.NoAwsCredentialsException",
        ),
        patterns=(
            _of_system("(Permission denied|Operation not permitted)"),
            "Access ?Denied",
            r"40[13] (Unauthorized|Forbidden)|Status Code: 40[13]\b",
            "lacked (the necessary privileges|valid authentication)",
            "Expired ?Token|TokenRefreshRequired",
            "InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|RequestTimeTooSkewed",
            "AuthenticationFailed|AuthorizationFailure|AuthorizationPermissionMismatch",
            "(loading|Unable to load) credentials",
        ),
    ),
    Trouble.UNREACHABLE: _Signs(
        numbers=(errno.ECONNREFUSED, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ECONNRESET),
        classes=(
            *(f"java.net.{name}Exception" for name in ("Connect", "UnknownHost", "NoRouteToHost", "SocketTimeout")),
            "software.amazon.awssdk.core.exception.ApiCall",
            *(f"org.apache.hadoop.fs.s3a.AWS{name}" for name in ("ServiceIO", "ServiceThrottled", "Status500")),
        ),
        patterns=(
            "error sending request|tcp connect error|dns error|operation timed out",
            "(429|50[0234]) (Too Many|Internal Server|Bad Gateway|Service Unavailable|Gateway Time)",
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
        worded=(("FAILED_READ_FILE", r"/_delta_log/(_\w+/)?[^/]*$"),),
        patterns=(
            "Json error|Parquet error|Invalid Checkpoint|found gap",
            "No table metadata or protocol found",
            r"_delta_log.*\s.*Not a directory",
        ),
    ),
    Trouble.NO_TABLE: _Signs(
        conditions=("DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "DELTA_PATH_DOES_NOT_EXIST", "PATH_NOT_FOUND")
    ),
    Trouble.CONSTRAINT: _Signs(conditions=("DELTA_VIOLATE_CONSTRAINT", "DELTA_NOT_NULL")),
    Trouble.DOUBLED_KEY: _Signs(conditions=("DELTA_MULTIPLE_SOURCE_ROW_MATCHING",)),
    Trouble.APPEND_ONLY: _Signs(conditions=("DELTA_CANNOT_MODIFY_APPEND_ONLY",)),
    Trouble.NEWER_DELTA: _Signs(
        conditions=("DELTA_UNSUPPORTED_FEATURES", "DELTA_INVALID_PROTOCOL_VERSION"),
        patterns=("Kernel error: Unsupported",),
    ),
    Trouble.DAMAGED_FILE: _Signs(
        conditions=("FAILED_READ_FILE",), classes=("org.apache.hadoop.fs.ChecksumException",), patterns=(_NO_FILE,)
    ),
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
    Trouble.TOO_LARGE: _Signs(patterns=("Total size of serialized results of .* is bigger than ",)),
    Trouble.RECORDS_GONE: _Signs(
        conditions=("KAFKA_DATA_LOSS",),
        classes=("org.apache.kafka.clients.consumer.OffsetOutOfRangeException",),
        patterns=("Some data may have been lost because they are not available in Kafka",),
    ),
    # of the last second before the least timestamp, Spark names nothing
    Trouble.NO_SUCH_TIME: _Signs(
        conditions=("KAFKA_MALFORMED_RECORD_TIMESTAMP",),
        patterns=(
            r"partition \d+ offset \d+ has timestamp value -?\d+ that overflows",
            r"java\.lang\.ArithmeticException: long overflow",
        ),
    ),
    Trouble.BROKER: _Signs(
        classes=("org.apache.kafka.",), patterns=(r"^java\.util\.concurrent\.TimeoutException: Cannot fetch record",)
    ),
}
# known, and no sign of a trouble of ours: what they say is a name, or somebody else's text
_NO_SIGN = (
    "org.apache.spark.api.python.PythonException",
    *(f"java.nio.file.{name}" for name in ("NoSuch", "FileAlready", "DirectoryNot", "NotDirectory", "InvalidPath")),
    "java.lang.NumberFormatException",
    "pyarrow.lib.",
    "deltalake.exceptions.SchemaMismatchError",
)
_KNOWN = (*_NO_SIGN, *(name for signs in _SIGNS.values() for name in signs.classes))
_LONGEST = 16 * 1024  # of what is searched for words
_NUMBERS = {number for signs in _SIGNS.values() for number in signs.numbers}


def means(error: Exception, trouble: Trouble) -> bool:
    """Whether an error means this trouble."""
    return trouble_of(error, (trouble,)) is not None


def is_gone(error: Exception) -> bool:
    """Whether a version of a table, or what changed in it, can no longer be read, now and later."""
    return trouble_of(error, (*PASSING, Trouble.GONE)) is Trouble.GONE


def trouble_of(error: Exception, among: Iterable[Trouble], place: str = "") -> Trouble | None:
    """Return the first of these troubles that an error or a cause of it means, ``None`` where none does.

    ``place`` is the folder or address of a table, whose name may read like anything.
    """
    heard = [(cause, _words(cause, place)) for cause in causes_of(error)]
    return next((each for each in among if any(_tells(*one, _SIGNS[each]) for one in heard)), None)


def telling_line(error: Exception, trouble: Trouble) -> str:
    """Return the first line of the cause that tells this trouble, else of the error itself, without its class."""
    causes = causes_of(error)
    telling = next((cause for cause in causes if _tells(cause, _words(cause), _SIGNS[trouble])), causes[0])
    return telling.line or telling.condition or telling.kind.rpartition(".")[2]


def _words(cause: Cause, place: str = "") -> str | None:
    """What a cause says at its beginning, without what it quotes; ``None`` where something else decides."""
    if cause.number in _NUMBERS or cause.condition or cause.code or cause.kind.startswith(_KNOWN):
        return None
    return f"{cause.kind}: {masked(cause.said, place)[:_LONGEST]}"


def _tells(cause: Cause, words: str | None, signs: _Signs) -> bool:
    """A condition, a number or a class decides where it is known; only what has none is known by its words."""
    if cause.number in _NUMBERS:
        return cause.number in signs.numbers
    if cause.condition.startswith(signs.conditions) or cause.code in signs.codes:
        return True
    if any(cause.condition.startswith(name) and re.search(said, cause.line) for name, said in signs.worded):
        return True
    if words is None:
        return cause.kind.startswith(signs.classes)
    return any(re.search(pattern, words, re.MULTILINE) for pattern in signs.patterns)
