"""A Spark started by this process, whose Java inherits a lock: the lock is free when that Java is dead."""

import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Thread, current_thread, main_thread
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lakehouse.errors import EngineLostError, SetupError
from lakehouse.errors.causes import causes_of
from lakehouse.local.java import OUT_OF_MEMORY
from lakehouse.settings.spark_conf import DELTA
from lakehouse.spark.own_session import is_classic, set_connect_mode, stop

# what has to be known before Java runs; the rest, which may hold secrets, stands on no command line
_OF_JAVA = ("spark.driver.", "spark.jars", "spark.kubernetes.", "spark.master", "spark.submit.", "spark.yarn.")


def start_spark(
    conf: Mapping[str, str], lock: int, ask_java: Callable[[Any], Mapping[str, str]] = lambda _: {}
) -> SparkSession:
    """Start a Spark with these settings, or return the one that this process has, with them.

    ``lock`` is a descriptor; ``ask_java`` gets Java's classes before Spark starts there, and returns settings that go
    before the others. Raises ``SetupError`` where Spark does not start, without the values of its settings.
    """
    set_connect_mode(None)  # left by a session over a server
    try:
        if SparkContext._gateway is None:  # the only way to hand the JVM a lock
            given = SparkConf(loadDefaults=False)
            given.setAll([(name, value) for name, value in conf.items() if name.startswith(_OF_JAVA)])
            gateway = launch_gateway(given, {"pass_fds": (lock,)})  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway)
        builder: SparkSession.Builder = SparkSession.builder
        for name, value in {**conf, **ask_java(SparkContext._jvm)}.items():
            builder = builder.config(name, value)
        with _signals_kept():
            return builder.getOrCreate()
    except (PySparkException, Py4JJavaError) as error:
        said = causes_of(error)[-1].line or "it says nothing"
        raise SetupError(
            f"Spark does not start: {_without_values(said, conf)}",
            where=f"{conf['spark.master']}, driver {conf['spark.driver.memory']}",
            action="Check LAKEHOUSE_SPARK_MASTER, LAKEHOUSE_SPARK_DRIVER_MEMORY, LAKEHOUSE_SPARK_CONF and Java.",
        ) from None


def _without_values(text: str, conf: Mapping[str, str]) -> str:
    """Leave out of a text the values of settings, which may be secret, but for those that say what is wrong."""
    told = {*DELTA.values(), conf["spark.master"], "true", "false"}
    for value in sorted({*conf.values()} - told, key=len, reverse=True):
        if len(value) > 2:
            text = text.replace(value, "...")
    return text


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Leave Ctrl-C to who had it: PySpark's handler talks to Java in the middle of another talk, which it waits for."""
    here = current_thread() is main_thread()
    before = signal.getsignal(signal.SIGINT) if here else None
    yield
    if before is not None:
        signal.signal(signal.SIGINT, before)


def break_talk() -> None:
    """Break off the talk with Java that this thread may be in, for a signal: else the next one waits for its answer."""
    client = getattr(SparkContext._gateway, "_gateway_client", None)
    connection_of_thread = getattr(client, "get_thread_connection", None)
    connection = connection_of_thread() if connection_of_thread else None
    if connection is not None:
        connection.close()


def stop_spark(spark: SparkSession, patience: float) -> None:
    """Stop a session; a Java of our own in which that takes longer, or a statement was left behind, is ended instead.

    The talk with Java is one of its own: one that was broken off would answer first. Over a server it is this thread
    whose session ends.
    """
    if not is_classic(spark):
        _stop(spark)
        return
    stopping = Thread(target=_stop, args=(spark,), daemon=True)
    if getattr(spark, "release_session_on_close", True):
        stopping.start()
        stopping.join(patience)
        if not stopping.is_alive() and _exit_code() is None:
            return
    end_java()


def _stop(spark: SparkSession) -> None:
    with suppress(Exception):  # what is dead has stopped
        stop(spark)


def _exit_code() -> int | None:
    """How the Java that PySpark started has ended; ``None`` while it lives."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return process.poll() if process else None


def lost_java() -> EngineLostError:
    """The error of a talk with a Java of our own that broke off, with its cause where its exit code tells it."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    with suppress(subprocess.TimeoutExpired):
        if process:
            process.wait(2)
    full = _exit_code() == OUT_OF_MEMORY
    fact = "The Java of this Spark has ended" + (": its memory was full" if full else "")
    more = "Raise LAKEHOUSE_SPARK_DRIVER_MEMORY, then run" if full else "Run"
    return EngineLostError(fact, action=f"{more} it again: it goes on from the version the table has.")


def end_java(patience: float = 2.0) -> None:
    """End the Java that PySpark started for us, by force after so many seconds; a second call does nothing."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
