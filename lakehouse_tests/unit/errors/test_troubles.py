"""What errors of other programs mean, by Spark's conditions where there are such; the texts are real ones."""

from functools import partial

import pytest
from pyspark.errors import PySparkException

from lakehouse.errors import (
    ConflictError,
    ExecutorLostError,
    StoreRefusedError,
    StoreUnreachableError,
    TableDamagedError,
    TableError,
)
from lakehouse.errors.troubles import Trouble, means, telling_line, trouble_of
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.table_context import again

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
UNNAMED = "[INTERNAL_ERROR] Cannot find main error class 'DELTA_CONCURRENT_APPEND.WITHOUT_HINT' SQLSTATE: XX000"
OVER_CONNECT = "(io.delta.exceptions.ConcurrentTransactionException) [DELTA_CONCURRENT_TRANSACTION] This error occurs"
NAMENODE = (
    "An error occurred while calling o150.load.\n: java.net.ConnectException: Call From vm/127.0.0.1 to localhost:1"
    " failed on connection exception: java.net.ConnectException: Connection refused" + TRACE
)
DENIED = (
    "java.nio.file.AccessDeniedException: s3a://bucket/t/_delta_log: getFileStatus on s3a://bucket/t/_delta_log:"
    " software.amazon.awssdk.services.s3.model.S3Exception: null (Service: S3, Status Code: 403)" + TRACE
)
NO_DESCRIPTOR = f"{LOST_FILE}\nCaused by: java.io.FileNotFoundException: /t/x.parquet (Too many open files){TRACE}"
LOST_BLOCK = f"java.io.FileNotFoundException: /spark/blockmgr-7/11/rdd_5_0 (No such file or directory){TRACE}"
NO_SERVER = "<_InactiveRpcError: status = UNAVAILABLE details = failed to connect to all addresses: Connection refused>"


class Named(PySparkException):
    """An error that names its condition and says nothing of it: Delta's own sentences cannot be made."""

    def getCondition(self) -> str:  # noqa: N802 - Spark's name
        return "DELTA_METADATA_CHANGED"

    def __str__(self) -> str:
        raise RuntimeError("no such sentence")


@pytest.mark.parametrize(
    "said",
    [
        "[DELTA_COMMAND_INVARIANT_VIOLATION] Please contact your support. Operation: MERGE",
        "[INTERNAL_ERROR] Cannot find main error class 'DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY'",
        "java.lang.RuntimeException: the source dataset is not deterministic",
        "org.apache.spark.SparkException: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_50_0 not found!",
    ],
)
@pytest.mark.invariant(7)
def test_where_rows_went_with_their_executor_the_batch_is_planned_again(said: str) -> None:
    tried = []

    def step() -> str:
        tried.append(said)
        if len(tried) == 1:
            raise PySparkException(said)
        return "done"

    assert again(step) == "done"
    with pytest.raises(ExecutorLostError, match="Nothing was committed"):
        again(partial(throw, PySparkException(said)))


def throw(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        (UNNAMED, Trouble.CONFLICT),
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
def test_an_error_means_what_its_condition_names(said: str, trouble: Trouble) -> None:
    assert means(PySparkException(said), trouble)


def test_a_condition_counts_where_it_is_named_and_not_where_a_value_holds_its_name() -> None:
    assert means(Named("it cannot say"), Trouble.CONFLICT)
    computed = "org.apache.spark.SparkArithmeticException: [ARITHMETIC_OVERFLOW] long overflow. SQLSTATE: 22003"
    assert not means(PySparkException(computed), Trouble.NO_SUCH_TIME)
    assert not means(PySparkException("[CAST_INVALID_INPUT] 'DELTA_CONCURRENT' cannot be cast"), Trouble.CONFLICT)


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        (CUT_LOG, TableDamagedError, "log cannot be read, it is damaged.*00000000000000000003.json.*backup"),
        ("[DELTA_VERSIONS_NOT_CONTIGUOUS] Versions (0, 1, 3) are not contiguous.", TableDamagedError, "0, 1, 3"),
        ("[DELTA_MISSING_PART_FILES] Couldn't find all part files", TableDamagedError, "part files"),
        (LOST_FILE, TableDamagedError, "A file is missing or damaged.*part-00000"),
        (NAMENODE, StoreUnreachableError, "cannot be reached.*Run it again"),
        (DENIED, StoreRefusedError, "may not be read or written.*credentials"),
        (NO_DESCRIPTOR, TableError, "Too many files are open.*run it again"),
        ("java.io.FileNotFoundException: /t/x.parquet (Permission denied)", StoreRefusedError, "may not be read"),
        ("java.io.FileNotFoundException: /t/x.parquet (No such file or directory)", TableDamagedError, "backup"),
        ("java.nio.file.FileSystemException: /t/x: No space left on device", TableError, "^No space left on device"),
        ("java.nio.file.FileSystemException: /t/x: Read-only file system", TableError, "read-only file system"),
        ("java.nio.file.AccessDeniedException: /t/x", StoreRefusedError, "may not be read"),
        ("org.apache.hadoop.fs.ChecksumException: Checksum error: /t/x at 0", TableDamagedError, "missing or damaged"),
        ("java.io.IOException: No space left on device", TableError, "^No space left on device \\(/t\\)"),
        ("[PATH_NOT_FOUND] Path does not exist: /tables/t.", TableError, "The table is not there"),
        ("[DELTA_UNSUPPORTED_FEATURES_FOR_READ] Unsupported", TableError, "newer Delta"),
    ],
)
def test_what_spark_says_of_a_table_becomes_the_error_with_the_way_on(
    said: str, kind: type[TableError], told: str
) -> None:
    with pytest.raises(TableError, match=told) as caught, spark_failures("/t"):
        raise PySparkException(said)
    assert type(caught.value) is kind
    assert "at org.apache" not in str(caught.value) and "move" not in str(caught.value)


def test_a_file_that_an_executor_held_is_none_of_the_table() -> None:
    with pytest.raises(ExecutorLostError, match="run it again"), spark_failures("/t"):
        raise PySparkException(LOST_BLOCK)


def test_a_spark_server_that_is_gone_is_no_store_that_cannot_be_reached() -> None:
    with pytest.raises(PySparkException, match="UNAVAILABLE"), spark_failures("/t"):
        raise PySparkException(NO_SERVER)


def test_the_line_that_tells_is_found_among_the_others() -> None:
    last = PySparkException(f"java.lang.RuntimeException: first{TRACE}\nCaused by: {CUT_LOG.partition(': ')[2]}")
    assert telling_line(last, Trouble.DAMAGED_LOG).startswith("Encountered error while reading file")
    assert telling_line(PySparkException("only"), Trouble.CONFLICT) == "only"


def test_other_errors_mean_no_trouble() -> None:
    assert trouble_of(ValueError("a bug of ours"), Trouble) is None
    assert not issubclass(ConflictError, TableError)
