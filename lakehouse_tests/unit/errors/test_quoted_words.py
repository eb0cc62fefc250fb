"""Quoted text decides nothing: values, tables and columns that contain the words of every trouble."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import grpc
import pyspark
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import convert_exception
from pyspark.sql.connect import proto

from lakehouse.errors import TableError
from lakehouse.errors.causes import SERVER_CAUSES
from lakehouse.errors.troubles import ANOTHER_ROW, Trouble, find_trouble
from lakehouse.spark.connect import served_causes
from lakehouse.storage.spark_failures import spark_failures

WORDS = [
    *("[DELTA_CONCURRENT_APPEND] x", "io.delta.exceptions.ConcurrentAppendException: x", ANOTHER_ROW),
    f"[USER_RAISED_EXCEPTION] {ANOTHER_ROW}",
    *("[INTERNAL_ERROR] Cannot find main error class 'DELTA_CONCURRENT_APPEND'", "status = StatusCode.UNAVAILABLE"),
    *("[INVALID_HANDLE.SESSION_CLOSED] gone", "[OPERATION_CANCELED] x", "the source dataset is not deterministic"),
    "java.io.FileNotFoundException: /a/blockmgr-7/11/rdd_5_0 (No such file or directory)",
    *("[DELTA_CHANGE_DATA_FEED_INCOMPATIBLE] x", "[DELTA_MISSING_CHANGE_DATA] x", "[DELTA_VERSION_NOT_FOUND] x"),
    *("Could not find any delta files for version", "java.io.FileNotFoundException: /a (No such file or directory)"),
    *("No space left on device", "java.io.IOException: No space left on device", "(os error 28)"),
    *("Disk quota exceeded", "Too many open files", "java.io.FileNotFoundException: /a (Too many open files)"),
    *("Read-only file system", "Permission denied", "Access Denied", "AccessDenied", "Status Code: 403"),
    *("403 Forbidden", "ExpiredToken", "InvalidAccessKeyId", "AuthenticationFailed", "Unable to load credentials"),
    *("java.net.ConnectException: refused", "tcp connect error", "503 Service Unavailable", "operation timed out"),
    *("software.amazon.awssdk.core.exception.ApiCallTimeoutException: x", "[DELTA_CANNOT_CREATE_LOG_PATH] x"),
    *("[DELTA_STATE_RECOVER_ERROR] x", "[FAILED_READ_FILE] /t/_delta_log/0.json", "Json error: x", "found gap"),
    *("[DELTA_TABLE_NOT_FOUND] x", "[PATH_NOT_FOUND] x", "[DELTA_VIOLATE_CONSTRAINT] x", "[DELTA_NOT_NULL] x"),
    *("[DELTA_MULTIPLE_SOURCE_ROW_MATCHING] x", "[DELTA_CANNOT_MODIFY_APPEND_ONLY] x", "Kernel error: Unsupported"),
    *("[DELTA_UNSUPPORTED_FEATURES_FOR_READ] x", "ChecksumException", "[TASK_WRITE_FAILED] x", "[DIVIDE_BY_ZERO] x"),
    "Total size of serialized results of 1 tasks is bigger than spark.driver.maxResultSize",
    *("[KAFKA_DATA_LOSS] x", "Some data may have been lost because they are not available in Kafka any more"),
    *("org.apache.kafka.clients.consumer.OffsetOutOfRangeException: x", "org.apache.kafka.common.KafkaException: x"),
    "partition 0 offset 1 has timestamp value 9 that overflows",
    *("SaslAuthenticationException", "PKIX path", "CERTIFICATE_VERIFY_FAILED", "certificate has expired"),
]
FORMS: dict[str, Callable[[str], str]] = {
    "alone": str,
    "on lines of their own": "a\n{}\n".format,
    "as a trace": "a\n\tat a.B(C.java:1)\nCaused by: {}\n\tat a.B(C.java:2)".format,
    "behind quotes": "a' \" ` {}".format,
}


HOSTILE = [pytest.param("\n".join(map(form, WORDS)), id=name) for name, form in FORMS.items()]


def conditions() -> dict[str, Any]:
    """Return Spark's messages by condition."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-common-utils_*.jar")
    with ZipFile(jar) as archive:
        messages: dict[str, Any] = json.loads(archive.read("error/error-conditions.json"))
    return messages


CONDITIONS = conditions()


def sentence(condition: str, **parameters: str) -> str:
    """Return Spark's message for a condition."""
    main, _, sub = condition.partition(".")
    lines = [*CONDITIONS[main]["message"], *(CONDITIONS[main]["subClass"][sub]["message"] if sub else ())]
    text = "\n".join(lines)
    for name, value in parameters.items():
        assert f"<{name}>" in text
        text = text.replace(f"<{name}>", value)
    return f"[{condition}] {text} SQLSTATE: 00000"


def quoted(value: str) -> str:
    """Quote a text as Spark quotes its literals."""
    escaped_value = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped_value}'"


Chain = list[tuple[str, str, str]]
JOB, RUNTIME = "org.apache.spark.SparkException", "org.apache.spark.SparkRuntimeException"
STAGE_FAILURE = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in stage"
    " 1.0 (TID 1) (vm executor driver): {}\n\tat a.B(C.java:1)\n\nDriver stacktrace:"
)


def of_task(kind: str, condition: str, message: str) -> Chain:
    return [(JOB, "", STAGE_FAILURE.format(f"{kind}: {message}")), (kind, condition, message)]


CHAINS: dict[str, tuple[Callable[[str], Chain], Trouble | None]] = {
    "a value that cannot be cast": (
        lambda text: of_task(
            "org.apache.spark.SparkNumberFormatException",
            "CAST_INVALID_INPUT",
            sentence("CAST_INVALID_INPUT", expression=quoted(text), sourceType='"STRING"', targetType='"INT"'),
        ),
        Trouble.NOT_COMPUTED,
    ),
    "a worker's value": (
        lambda text: of_task(
            "org.apache.spark.api.python.PythonException",
            "",
            f"Traceback (most recent call last):\n  File w.py, line 1, in f\nValueError: {text}\n",
        ),
        None,
    ),
    "a worker's value with a condition": (
        lambda text: of_task(
            "org.apache.spark.api.python.PythonException",
            "PYTHON_EXCEPTION",
            sentence("PYTHON_EXCEPTION", msg=text, traceback=text),
        ),
        None,
    ),
    "a column": (
        lambda text: [
            (
                "org.apache.spark.sql.AnalysisException",
                "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION",
                sentence("UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", objectName=f"`{text.replace('`', '``')}`"),
            )
        ],
        None,
    ),
    "a value of a constraint": (
        lambda text: of_task(
            "org.apache.spark.sql.delta.schema.DeltaInvariantViolationException",
            "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
            f"[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint c (a > 0) violated by row:\n - a : {text}",
        ),
        Trouble.CONSTRAINT,
    ),
    "a table's path": (
        lambda text: [
            (
                "org.apache.spark.sql.AnalysisException",
                "PATH_NOT_FOUND",
                sentence("PATH_NOT_FOUND", path=f"file:/tables/{text}/t"),
            )
        ],
        Trouble.NO_TABLE,
    ),
    "a function that failed": (
        lambda text: [
            (
                JOB,
                "FAILED_EXECUTE_UDF",
                sentence("FAILED_EXECUTE_UDF", functionName="f", signature="string", result="int", reason=text),
            ),
            ("java.lang.IllegalStateException", "", quoted(text)),
        ],
        None,
    ),
    "a topic": (
        lambda text: of_task(
            "org.apache.kafka.common.errors.TopicAuthorizationException", "", f"Not authorized: [{text}]"
        ),
        Trouble.BROKER,
    ),
    "a file of the system": (
        lambda text: of_task("java.nio.file.NoSuchFileException", "", f"/tables/{text}/t"),
        None,
    ),
}
ALL_TROUBLES = list(Trouble)


def error_details(chain: Chain) -> proto.FetchErrorDetailsResponse:
    response = proto.FetchErrorDetailsResponse(root_error_idx=0)
    for number, (kind, condition, message) in enumerate(chain):
        error = response.errors.add(error_type_hierarchy=[kind], message=message)
        error.stack_trace.add(declaring_class="a.B", method_name="c", file_name="B.scala", line_number=1)
        if condition:
            error.spark_throwable.error_class = condition
        if number + 1 < len(chain):
            error.cause_idx = number + 1
    return response


def over_connect(chain: Chain) -> Exception:
    """Return the error of PySpark, with the chain that our client adds."""
    error = as_text_over_connect(chain)
    setattr(error, SERVER_CAUSES, served_causes(error_details(chain)))
    return error


def as_text_over_connect(chain: Chain) -> Exception:
    kind, condition, message = chain[0]
    info = ErrorInfo(
        reason=kind, metadata={"classes": json.dumps([kind]), "errorClass": condition} if condition else {}
    )
    return convert_exception(info, message[:2048], error_details(chain), True, grpc.StatusCode.INTERNAL)


class JavaError:
    """A Java error as Py4J represents it."""

    def __init__(self, chain: Chain) -> None:
        (self._kind, self._condition, self._message), *self._inner = chain

    def getClass(self) -> "JavaError":  # noqa: N802 - Java's name
        return self

    def getName(self) -> str:  # noqa: N802
        return self._kind

    def getCondition(self) -> str:  # noqa: N802
        if not self._condition:
            raise AttributeError("getCondition does not exist")
        return self._condition

    def getMessage(self) -> str:  # noqa: N802
        return self._message

    def getCause(self) -> "JavaError | None":  # noqa: N802
        return JavaError(self._inner) if self._inner else None


def over_py4j(chain: Chain) -> Exception:
    error = PySparkException("not used")
    vars(error)["_origin"] = JavaError(chain)
    return error


def without_cause(chain: Chain) -> Exception:
    """Return a job's error that only quotes the error of its task, which could not be serialised."""
    return over_py4j(chain[:1])


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("case", CHAINS)
@pytest.mark.parametrize("raised", [over_connect, over_py4j])
def test_the_condition_or_class_decides_what_an_error_of_spark_means(
    raised: Callable[[Chain], Exception], case: str, text: str
) -> None:
    make, trouble = CHAINS[case]
    error = raised(make(text))
    assert find_trouble(error, ALL_TROUBLES) is trouble


@pytest.mark.parametrize("case", ["a value that cannot be cast", "a column", "a function that failed"])
@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("raised", [as_text_over_connect, without_cause])
def test_quoted_parts_are_ignored_if_there_is_only_text(
    raised: Callable[[Chain], Exception], case: str, text: str
) -> None:
    make, trouble = CHAINS[case]
    assert find_trouble(raised(make(text)), ALL_TROUBLES) in (trouble, None)


@pytest.mark.parametrize("word", WORDS)
def test_a_value_never_means_a_conflict_or_wrong_credentials(word: str) -> None:
    make, _ = CHAINS["a value that cannot be cast"]
    with pytest.raises(TableError, match="SQL of the declaration cannot be computed"), spark_failures("/t"):
        raise over_connect(make(word))


@pytest.mark.parametrize("message", [word for word in WORDS if word.startswith(("java.net", "[DELTA_CONC"))])
def test_the_same_words_outside_quotes_decide(message: str) -> None:
    assert find_trouble(PySparkException(message), ALL_TROUBLES) in (Trouble.UNREACHABLE, Trouble.CONFLICT)
