"""What errors of other programs mean: Spark, Delta, deltalake, Kafka's client in Spark, the operating system.

All signs of such errors are listed here. Spark names a condition, Java a class, the system an errno: if there is one,
it decides. Otherwise the words of the message decide, but never the words that it quotes.
"""

import errno
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from lakehouse.errors.causes import Cause, causes_of, mask_text


@dataclass(frozen=True)
class Signs:
    """The signs of a trouble; each name matches all names that begin with it."""

    conditions: tuple[str, ...] = ()
    conditions_with_pattern: tuple[tuple[str, str], ...] = ()
    """Conditions that count only if their first line matches the pattern."""
    classes: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    """gRPC status codes, for errors in which the server sent nothing else."""
    numbers: tuple[int, ...] = ()
    patterns: tuple[str, ...] = ()
    """Matched against the class and the message if neither a condition nor a known class decides."""


def of_system(text: str) -> str:
    """Return a pattern for a message of the system as Java quotes it: at the end, alone or after a path."""
    return rf"(^|: |\(){text}\)?$"


class Trouble(Enum):
    """A kind of failure."""

    CONFLICT = auto()  # another writer committed first
    ENGINE_LOST = auto()  # the Spark Connect server does not respond, or has closed our session
    INTERRUPTED = auto()  # another writer interrupted a statement
    RAN_AGAIN = auto()  # tasks are repeated because their executor died, or its rows are gone
    OTHER_COLUMNS = auto()  # a range of changes begins before a change of the columns
    GONE = auto()  # a version of a table, or its changes, can no longer be read
    DISK_FULL = auto()
    FILES_OPEN = auto()  # the process or the machine has too many open files
    READ_ONLY = auto()
    REFUSED = auto()  # permissions or credentials are missing, or have expired
    UNREACHABLE = auto()  # the store does not respond
    NO_FOLDER = auto()
    DAMAGED_LOG = auto()
    NO_TABLE = auto()
    CONSTRAINT = auto()
    DOUBLED_KEY = auto()  # a row of a MERGE matches several rows of the table, or the other way round
    APPEND_ONLY = auto()
    NEWER_DELTA = auto()
    DAMAGED_FILE = auto()  # a data file
    NOT_WRITTEN = auto()
    NOT_COMPUTED = auto()  # SQL of a declaration fails for some row
    TOO_LARGE = auto()  # this process cannot hold the rows in memory
    RECORDS_GONE = auto()  # records of a topic are gone
    NO_SUCH_TIME = auto()  # the timestamp that a producer set is out of range
    BROKER = auto()  # the broker does not return records


# transient troubles, which a later attempt may not meet; they take precedence over all others
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

ANOTHER_ROW = "the row is no longer the one that was compared"  # raised by our own MERGE


_JAVA_IO = r"^java\.io\.FileNotFoundException: "
# Java also raises it if a file cannot be opened now (reason in brackets), or if a file of an executor is gone
_TRANSIENT_REASONS = "Permission|Too many|No space|Disk quota|Read-only|Input/output|Stale"
_EXECUTOR_FILE = r"/blockmgr-[0-9a-f-]+/[0-9a-f]{2}/\w+ \(No such file"
_NO_FILE = rf"{_JAVA_IO}(?!.*{_EXECUTOR_FILE})(?!.*\(({_TRANSIENT_REASONS})[^()]*\)$)"
_SIGNS = {
    Trouble.CONFLICT: Signs(
        conditions=("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"),
        conditions_with_pattern=(("USER_RAISED_EXCEPTION", f"^{ANOTHER_ROW}"),),
        classes=("io.delta.exceptions.Concurrent",),
    ),
    Trouble.ENGINE_LOST: Signs(
        conditions=("INVALID_HANDLE", "RESPONSE_ALREADY_RECEIVED", "NO_ACTIVE_SESSION"),
        codes=("UNAVAILABLE", "CANCELLED"),
    ),
    Trouble.INTERRUPTED: Signs(conditions=("OPERATION_CANCELED",)),
    Trouble.RAN_AGAIN: Signs(
        conditions=(
            "DELTA_COMMAND_INVARIANT_VIOLATION",
            "DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY",
            "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND",
        ),
        patterns=("the source dataset is not deterministic", rf"{_JAVA_IO}.*{_EXECUTOR_FILE}"),
    ),
    Trouble.OTHER_COLUMNS: Signs(
        conditions=(
            "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE",
            "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH",
            "PARQUET_CONVERSION_FAILURE",
        )
    ),
    Trouble.GONE: Signs(
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
    Trouble.DISK_FULL: Signs(
        numbers=(errno.ENOSPC, errno.EDQUOT), patterns=(of_system("(No space left on device|Disk quota exceeded)"),)
    ),
    Trouble.FILES_OPEN: Signs(numbers=(errno.EMFILE, errno.ENFILE), patterns=(of_system("Too many open files"),)),
    Trouble.READ_ONLY: Signs(numbers=(errno.EROFS,), patterns=(of_system("Read-only file system"),)),
    Trouble.REFUSED: Signs(
        numbers=(errno.EACCES, errno.EPERM),
        classes=(
            "java.nio.file.AccessDeniedException",
            "org.apache.hadoop.security.AccessControlException",
            "org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException",
            "org.apache.hadoop.fs.s3a.auth.NoAwsCredentialsException",
            "org.apache.hadoop.fs.s3a.CredentialInitializationException",
        ),
        patterns=(
            of_system("(Permission denied|Operation not permitted)"),
            "Access ?Denied",
            r"40[13] (Unauthorized|Forbidden)|Status Code: 40[13]\b",
            "lacked (the necessary privileges|valid authentication)",
            "Expired ?Token|TokenRefreshRequired",
            "InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|RequestTimeTooSkewed",
            "AuthenticationFailed|AuthorizationFailure|AuthorizationPermissionMismatch",
            "(loading|Unable to load) credentials",
        ),
    ),
    Trouble.UNREACHABLE: Signs(
        numbers=(errno.ECONNREFUSED, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ECONNRESET),
        classes=(
            *(
                f"java.net.{name}Exception"
                for name in ("Connect", "UnknownHost", "NoRouteToHost", "Socket", "SocketTimeout")
            ),
            "software.amazon.awssdk.core.exception.ApiCall",
            *(
                f"org.apache.hadoop.fs.s3a.AWS{name}"
                for name in ("ServiceIO", "ServiceThrottled", "Status500", "NoResponse")
            ),
            *(f"org.apache.hadoop.fs.s3a.{name}" for name in ("AWSApiCallTimeout", "AWSClientIO", "HttpChannelEOF")),
        ),
        patterns=(
            "error sending request|tcp connect error|dns error|operation timed out",
            "(429|50[0234]) (Too Many|Internal Server|Bad Gateway|Service Unavailable|Gateway Time)",
            "AWS Error (NETWORK_CONNECTION|INTERNAL_FAILURE|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING|REQUEST_TIMEOUT) ",
        ),
    ),
    Trouble.NO_FOLDER: Signs(conditions=("DELTA_CANNOT_CREATE_LOG_PATH",)),
    Trouble.DAMAGED_LOG: Signs(
        conditions=(
            "DELTA_VERSIONS_NOT_CONTIGUOUS",
            "DELTA_STATE_RECOVER_ERROR",
            "DELTA_LOG_FILE",
            "DELTA_TRUNCATED_TRANSACTION_LOG",
            "DELTA_MISSING_PART_FILES",
        ),
        conditions_with_pattern=(("FAILED_READ_FILE", r"/_delta_log/(_\w+/)?[^/]*$"),),
        patterns=(
            "Json error|Parquet error|Invalid Checkpoint|found gap",
            "No table metadata or protocol found",
            r"_delta_log.*\s.*Not a directory",
        ),
    ),
    Trouble.NO_TABLE: Signs(
        conditions=("DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "DELTA_PATH_DOES_NOT_EXIST", "PATH_NOT_FOUND")
    ),
    Trouble.CONSTRAINT: Signs(conditions=("DELTA_VIOLATE_CONSTRAINT", "DELTA_NOT_NULL")),
    Trouble.DOUBLED_KEY: Signs(conditions=("DELTA_MULTIPLE_SOURCE_ROW_MATCHING",)),
    Trouble.APPEND_ONLY: Signs(conditions=("DELTA_CANNOT_MODIFY_APPEND_ONLY",)),
    Trouble.NEWER_DELTA: Signs(
        conditions=("DELTA_UNSUPPORTED_FEATURES", "DELTA_INVALID_PROTOCOL_VERSION"),
        patterns=("Kernel error: Unsupported", "Unsupported table features required"),
    ),
    Trouble.DAMAGED_FILE: Signs(
        conditions=("FAILED_READ_FILE",), classes=("org.apache.hadoop.fs.ChecksumException",), patterns=(_NO_FILE,)
    ),
    Trouble.NOT_WRITTEN: Signs(conditions=("TASK_WRITE_FAILED",)),
    Trouble.NOT_COMPUTED: Signs(
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
    Trouble.TOO_LARGE: Signs(patterns=("Total size of serialized results of .* is bigger than ",)),
    Trouble.RECORDS_GONE: Signs(
        conditions=("KAFKA_DATA_LOSS",),
        classes=("org.apache.kafka.clients.consumer.OffsetOutOfRangeException",),
        patterns=("Some data may have been lost because they are not available in Kafka",),
    ),
    # for the last second before the minimum timestamp, Spark names no condition
    Trouble.NO_SUCH_TIME: Signs(
        conditions=("KAFKA_MALFORMED_RECORD_TIMESTAMP",),
        patterns=(
            r"partition \d+ offset \d+ has timestamp value -?\d+ that overflows",
            r"java\.lang\.ArithmeticException: long overflow",
        ),
    ),
    Trouble.BROKER: Signs(
        classes=("org.apache.kafka.",), patterns=(r"^java\.util\.concurrent\.TimeoutException: Cannot fetch record",)
    ),
}
# known classes that do not show a trouble: their message is a name, or somebody else's text
_NEUTRAL_CLASSES = (
    "org.apache.spark.api.python.PythonException",
    *(f"java.nio.file.{name}" for name in ("NoSuch", "FileAlready", "DirectoryNot", "NotDirectory", "InvalidPath")),
    "java.lang.NumberFormatException",
    "pyarrow.lib.",
    "deltalake.exceptions.SchemaMismatchError",
)
_KNOWN_CLASSES = (*_NEUTRAL_CLASSES, *(name for signs in _SIGNS.values() for name in signs.classes))
_MAX_SEARCHED = 16 * 1024  # characters of a message that patterns search
_KNOWN_NUMBERS = {number for signs in _SIGNS.values() for number in signs.numbers}


def has_trouble(error: Exception, trouble: Trouble) -> bool:
    """Whether an error means this trouble."""
    return find_trouble(error, (trouble,)) is not None


def is_version_gone(error: Exception) -> bool:
    """Whether a version of a table, or its changes, can never be read again."""
    return find_trouble(error, (*PASSING, Trouble.GONE)) is Trouble.GONE


def find_trouble(error: Exception, troubles: Iterable[Trouble], place: str = "") -> Trouble | None:
    """Return the first of these troubles that an error or one of its causes means; ``None`` if there is none.

    ``place`` is the folder or address of a table; its name may contain any words.
    """
    causes = [(cause, _searched_text(cause, place)) for cause in causes_of(error)]
    return next((trouble for trouble in troubles if any(_matches(*cause, _SIGNS[trouble]) for cause in causes)), None)


def matching_line(error: Exception, trouble: Trouble) -> str:
    """Return the first line of the cause that means this trouble, else of the error itself, without its class."""
    causes = causes_of(error)
    cause = next((c for c in causes if _matches(c, _searched_text(c), _SIGNS[trouble])), causes[0])
    return cause.line or cause.condition or cause.kind.rpartition(".")[2]


def _searched_text(cause: Cause, place: str = "") -> str | None:
    """Return the beginning of a cause with quoted parts mask_text; ``None`` if its text does not decide."""
    if cause.number in _KNOWN_NUMBERS or cause.condition or cause.code or cause.kind.startswith(_KNOWN_CLASSES):
        return None
    return f"{cause.kind}: {mask_text(cause.message, place)[:_MAX_SEARCHED]}"


def _matches(cause: Cause, text: str | None, signs: Signs) -> bool:
    """A number, a condition or a class decides if it is known; the text decides only if there is none of them."""
    if cause.number in _KNOWN_NUMBERS:
        return cause.number in signs.numbers
    if cause.condition.startswith(signs.conditions) or cause.code in signs.codes:
        return True
    if any(cause.condition.startswith(name) and re.search(p, cause.line) for name, p in signs.conditions_with_pattern):
        return True
    if text is None:
        return cause.kind.startswith(signs.classes)
    return any(re.search(pattern, text, re.MULTILINE) for pattern in signs.patterns)
