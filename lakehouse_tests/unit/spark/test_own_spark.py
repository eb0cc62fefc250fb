"""Our own Java: how it is stopped, and the error if it has ended."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from lakehouse.errors import EngineLostError
from lakehouse.spark.own_spark import stop_spark
from lakehouse.storage.spark_failures import spark_failures


@contextmanager
def java(program: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process that replaces the Java that PySpark started."""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (3, "has ended: its memory was full. Raise LAKEHOUSE_SPARK_DRIVER_MEMORY, then run it again"),
        (9, "has ended. Run it again"),
    ],
)
def test_the_error_of_a_java_that_ended_has_the_cause_and_the_setting_to_change(
    code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        java(f"raise SystemExit({code})", monkeypatch),
        pytest.raises(EngineLostError, match=message),
        spark_failures("t"),
    ):
        raise Py4JNetworkError("Answer from Java side is empty")


class Session:
    """A fake session in a Java of this process."""

    _jsparkSession: Any = None  # noqa: N815 - PySpark's name

    def __init__(self, stop: Callable[[], object], has_left_statement: bool = False) -> None:
        self.stop = stop
        self.release_session_on_close = not has_left_statement


_IGNORES_SIGTERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(1, flush=True)
time.sleep(600)
"""


@pytest.mark.timeout(60)
def test_a_java_that_does_not_stop_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    never_set: Any = Event()
    with java(_IGNORES_SIGTERM, monkeypatch) as process:
        assert process.stdout and process.stdout.readline()
        stop_spark(Session(never_set.wait), 0.1)  # type: ignore[arg-type]
        assert process.poll() is not None
        assert SparkContext._gateway is None, "the next session starts another Java"
    never_set.set()


def test_a_java_with_a_statement_left_behind_is_ended_without_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    with java("import time; time.sleep(600)", monkeypatch) as process:
        stop_spark(Session(lambda: pytest.fail("stop was called"), has_left_statement=True), 60)  # type: ignore[arg-type]
        assert process.poll() is not None


def test_the_java_of_a_stopped_session_keeps_running_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with java("import time; time.sleep(600)", monkeypatch) as process:
        stop_spark(Session(lambda: None), 60)  # type: ignore[arg-type]
        assert process.poll() is None
