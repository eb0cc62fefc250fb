"""The meaning of errors of other programs, by Spark's conditions if there are any; the texts are real ones."""

from functools import partial

import grpc
import pytest
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException, SparkException

from lakehouse.errors import (
    ConflictError,
    EngineLostError,
    ExecutorLostError,
    StoreRefusedError,
    StoreUnreachableError,
    TableDamagedError,
    TableError,
)
from lakehouse.errors.troubles import Trouble, find_trouble, has_trouble, is_version_gone, matching_line
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.table_context import retry_on_conflict

TRACE = "\n\tat org.apache.spark.sql.delta.Snapshot.init(Snapshot.scala:1)"
CUT_LOG = (
    "An error occurred while calling o75.load.\n: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT]"
    " Encountered error while reading file file:///tables/t/_delta_log/00000000000000000003.json.  SQLSTATE: KD001"
    + TRACE
)
LOST_FILE = (
    "org.apache.spark.SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file"
    " file:/tables/t/part-00000.snappy.parquet. File does not exist." + TRACE
)
UNFORMATTED = "[INTERNAL_ERROR] Cannot find main error class 'DELTA_CONCURRENT_APPEND.WITHOUT_HINT' SQLSTATE: XX000"
OVER_CONNECT = "(io.delta.exceptions.ConcurrentTransactionException) [DELTA_CONCURRENT_TRANSACTION] This error occurs"
NAMENODE = (
    "An error occurred while calling o150.load.\n: java.net.ConnectException: Call From vm/127.0.0.1 to localhost:1"
    " failed on connection exception: java.net.ConnectException: Connection refused" + TRACE
)
DENIED_MESSAGES = (
    "java.nio.file.AccessDeniedException: s3a://bucket/t/_delta_log: getFileStatus on s3a://bucket/t/_delta_log:"
    " software.amazon.awssdk.services.s3.model.S3Exception: null (Service: S3, Status Code: 403)" + TRACE
)
NO_DESCRIPTOR = f"{LOST_FILE}\nCaused by: java.io.FileNotFoundException: /t/x.parquet (Too many open files){TRACE}"
LOST_BLOCK = f"java.io.FileNotFoundException: /spark/blockmgr-7/11/rdd_5_0 (No such file or directory){TRACE}"
NO_SERVER = "<_InactiveRpcError: status = UNAVAILABLE details = failed to connect to all addresses: Connection refused>"


class WithoutMessage(PySparkException):
    """An error with a condition whose message cannot be formatted, as for errors of Delta."""

    def getCondition(self) -> str:  # noqa: N802 - Spark's name
        return "DELTA_METADATA_CHANGED"

    def __str__(self) -> str:
        raise RuntimeError("no such message")


@pytest.mark.invariant("7.3")
@pytest.mark.parametrize(
    "message",
    [
        "[DELTA_COMMAND_INVARIANT_VIOLATION] Please contact your support. Operation: MERGE",
        "[INTERNAL_ERROR] Cannot find main error class 'DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY'",
        "java.lang.RuntimeException: the source dataset is not deterministic",
        "org.apache.spark.SparkException: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_50_0 not found!",
    ],
)
def test_a_batch_whose_rows_were_lost_with_an_executor_is_planned_again(message: str) -> None:
    attempts = []

    def step() -> str:
        attempts.append(message)
        if len(attempts) == 1:
            raise PySparkException(message)
        return "done"

    assert retry_on_conflict(step) == "done"
    with pytest.raises(ExecutorLostError, match="Nothing was committed"):
        retry_on_conflict(partial(throw, PySparkException(message)))


def throw(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("message", "trouble"),
    [
        (UNFORMATTED, Trouble.CONFLICT),
        (OVER_CONNECT, Trouble.CONFLICT),
        (LOST_FILE, Trouble.GONE),
        ("[DELTA_MISSING_CHANGE_DATA] Error getting change data for range [0 , 3]", Trouble.GONE),
        ("[DELTA_VERSION_NOT_FOUND] Cannot time travel Delta table to version 99.", Trouble.GONE),
        (f"Record at topic t partition 0 offset 7 has timestamp value -{2**63} that overflows", Trouble.NO_SUCH_TIME),
        ("[KAFKA_MALFORMED_RECORD_TIMESTAMP] Record at topic t", Trouble.NO_SUCH_TIME),
        ("stage 7.0 (TID 9) (h executor driver): java.lang.ArithmeticException: long overflow", Trouble.NO_SUCH_TIME),
        ("[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost", Trouble.RECORDS_GONE),
    ],
)
def test_a_condition_decides_what_an_error_means(message: str, trouble: Trouble) -> None:
    assert has_trouble(PySparkException(message), trouble)


def test_the_name_of_a_condition_within_a_value_decides_nothing() -> None:
    assert has_trouble(WithoutMessage("not used"), Trouble.CONFLICT)
    overflow = "org.apache.spark.SparkArithmeticException: [ARITHMETIC_OVERFLOW] long overflow. SQLSTATE: 22003"
    assert not has_trouble(PySparkException(overflow), Trouble.NO_SUCH_TIME)
    assert not has_trouble(PySparkException("[CAST_INVALID_INPUT] 'DELTA_CONCURRENT' cannot be cast"), Trouble.CONFLICT)


@pytest.mark.parametrize(
    ("message", "error_type", "pattern"),
    [
        (CUT_LOG, TableDamagedError, "log is damaged and cannot be read.*00000000000000000003.json.*backup"),
        ("[DELTA_VERSIONS_NOT_CONTIGUOUS] Versions (0, 1, 3) are not contiguous.", TableDamagedError, "0, 1, 3"),
        ("[DELTA_MISSING_PART_FILES] Couldn't find all part files", TableDamagedError, "part files"),
        (LOST_FILE, TableDamagedError, "A file is missing or damaged.*part-00000"),
        (NAMENODE, StoreUnreachableError, "cannot be reached.*Run it again"),
        (DENIED_MESSAGES, StoreRefusedError, "Access to the table's files is denied.*credentials"),
        (NO_DESCRIPTOR, TableError, "Too many files are open.*run it again"),
        ("java.io.FileNotFoundException: /t/x.parquet (Permission denied)", StoreRefusedError, "is denied"),
        ("java.io.FileNotFoundException: /t/x.parquet (No such file or directory)", TableDamagedError, "backup"),
        ("java.nio.file.FileSystemException: /t/x: No space left on device", TableError, "^No space left on device"),
        ("java.nio.file.FileSystemException: /t/x: Read-only file system", TableError, "read-only file system"),
        ("java.nio.file.AccessDeniedException: /t/x", StoreRefusedError, "is denied"),
        ("org.apache.hadoop.fs.ChecksumException: Checksum error: /t/x at 0", TableDamagedError, "missing or damaged"),
        ("java.io.IOException: No space left on device", TableError, "^No space left on device \\(/t\\)"),
        ("[PATH_NOT_FOUND] Path does not exist: /tables/t.", TableError, "The table does not exist"),
        ("[DELTA_UNSUPPORTED_FEATURES_FOR_READ] Unsupported", TableError, "newer version of Delta"),
    ],
)
def test_an_error_of_spark_about_a_table_becomes_an_error_with_a_remedy(
    message: str, error_type: type[TableError], pattern: str
) -> None:
    with pytest.raises(TableError, match=pattern) as raised, spark_failures("/t"):
        raise PySparkException(message)
    assert type(raised.value) is error_type
    assert "at org.apache" not in str(raised.value) and "move" not in str(raised.value)


def test_a_missing_file_of_an_executor_is_not_a_missing_file_of_the_table() -> None:
    with pytest.raises(ExecutorLostError, match="run it again"), spark_failures("/t"):
        raise PySparkException(LOST_BLOCK)


def test_a_lost_spark_server_is_not_an_unreachable_store() -> None:
    with pytest.raises(PySparkException, match="UNAVAILABLE"), spark_failures("/t"):
        raise PySparkException(NO_SERVER)


def test_the_line_of_the_decisive_cause_is_returned() -> None:
    last = PySparkException(f"java.lang.RuntimeException: first{TRACE}\nCaused by: {CUT_LOG.partition(': ')[2]}")
    assert matching_line(last, Trouble.DAMAGED_LOG).startswith("Encountered error while reading file")
    assert matching_line(PySparkException("only"), Trouble.CONFLICT) == "only"


def test_unknown_errors_mean_no_trouble() -> None:
    assert find_trouble(ValueError("a lakehouse bug"), Trouble) is None
    assert not issubclass(ConflictError, TableError)


NO_ENGINE = (
    "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = Socket closed>"
)


@pytest.mark.parametrize(
    "error",
    [
        SparkConnectGrpcException(NO_ENGINE, grpc_status_code=grpc.StatusCode.UNAVAILABLE),
        SparkException("[INVALID_HANDLE.SESSION_CLOSED] The handle 9e10 is invalid. Session was closed."),
        SparkException("[INVALID_HANDLE.SESSION_CHANGED] The existing Spark server driver instance has restarted."),
        SparkException("[INVALID_HANDLE.OPERATION_ABANDONED] Operation was considered abandoned."),
        SparkException("[OPERATION_CANCELED] Operation has been canceled."),
    ],
    ids=["dead", "expired", "restarted", "abandoned", "interrupted"],
)
def test_a_lost_engine_or_session_has_its_own_error_and_is_no_sign_of_lost_tables(error: Exception) -> None:
    attempts = []

    def step() -> None:
        attempts.append(error)
        raise error

    with pytest.raises(EngineLostError, match="engine.*Run it again"), spark_failures("/t"):
        raise error
    with pytest.raises(EngineLostError):
        retry_on_conflict(step)
    assert len(attempts) == 1, "a retry in a closed session is useless"
    assert not is_version_gone(error)
