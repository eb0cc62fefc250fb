"""A Spark that this process starts. Its Java inherits a lock, so the lock is free only when that Java is dead."""

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

# settings that Java needs before it starts; others may be secret, so they are on no command line
_LAUNCH_PREFIXES = ("spark.driver.", "spark.jars", "spark.kubernetes.", "spark.master", "spark.submit.", "spark.yarn.")


def start_spark(
    conf: Mapping[str, str], lock: int, ask_java: Callable[[Any], Mapping[str, str]] = lambda _: {}
) -> SparkSession:
    """Start a Spark with these settings, or apply them to the one that this process has and return it.

    ``lock`` is the descriptor of a lock that Java inherits. ``ask_java`` gets Java's classes before Spark starts, and
    returns settings that override the others. Raises ``SetupError``, without values of settings, if Spark does not
    start.
    """
    set_connect_mode(None)  # a session on a server may have set it
    try:
        if SparkContext._gateway is None:  # the only way to pass a lock to the JVM
            launch_conf = SparkConf(loadDefaults=False)
            launch_conf.setAll([(name, value) for name, value in conf.items() if name.startswith(_LAUNCH_PREFIXES)])
            gateway = launch_gateway(launch_conf, {"pass_fds": (lock,)})  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway)
        builder: SparkSession.Builder = SparkSession.builder
        for name, value in {**conf, **ask_java(SparkContext._jvm)}.items():
            builder = builder.config(name, value)
        with _keep_signal_handler():
            return builder.getOrCreate()
    except (PySparkException, Py4JJavaError) as error:
        cause = causes_of(error)[-1].line or "it reports no cause"
        raise SetupError(
            f"Spark does not start: {_hide_values(cause, conf)}",
            where=f"{conf['spark.master']}, driver {conf['spark.driver.memory']}",
            action="Check LAKEHOUSE_SPARK_MASTER, LAKEHOUSE_SPARK_DRIVER_MEMORY, LAKEHOUSE_SPARK_CONF and Java.",
        ) from None


def _hide_values(text: str, conf: Mapping[str, str]) -> str:
    """Replace the values of settings, which may be secret, except harmless ones that explain the error."""
    harmless_values = {*DELTA.values(), conf["spark.master"], "true", "false"}
    for value in sorted({*conf.values()} - harmless_values, key=len, reverse=True):
        if len(value) > 2:
            text = text.replace(value, "...")
    return text


@contextmanager
def _keep_signal_handler() -> Iterator[None]:
    """Restore the handler of Ctrl-C: PySpark's own calls Java during another call, and waits for that one."""
    is_main_thread = current_thread() is main_thread()
    handler = signal.getsignal(signal.SIGINT) if is_main_thread else None
    yield
    if handler is not None:
        signal.signal(signal.SIGINT, handler)


def abort_java_call() -> None:
    """Abort a running call of this thread to Java, after a signal: otherwise the next call waits for its answer."""
    client = getattr(SparkContext._gateway, "_gateway_client", None)
    get_connection = getattr(client, "get_thread_connection", None)
    connection = get_connection() if get_connection else None
    if connection is not None:
        connection.close()


def stop_spark(spark: SparkSession, patience: float) -> None:
    """Stop a session. If our own Java takes longer than ``patience`` seconds, or a statement is left there, end Java.

    Another thread stops Java, over its own connection: an aborted call on the connection of this thread would answer
    first. A session on a server is stopped in this thread.
    """
    if not is_classic(spark):
        _stop_quietly(spark)
        return
    thread = Thread(target=_stop_quietly, args=(spark,), daemon=True)
    if getattr(spark, "release_session_on_close", True):
        thread.start()
        thread.join(patience)
        if not thread.is_alive() and _exit_code() is None:
            return
    end_java()


def _stop_quietly(spark: SparkSession) -> None:
    with suppress(Exception):  # a dead Spark has stopped already
        stop(spark)


def _exit_code() -> int | None:
    """The exit code of the Java that PySpark started; ``None`` while it runs."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return process.poll() if process else None


def lost_java_error() -> EngineLostError:
    """Return the error for a lost connection to our own Java, with the cause if the exit code shows it."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    with suppress(subprocess.TimeoutExpired):
        if process:
            process.wait(2)
    is_out_of_memory = _exit_code() == OUT_OF_MEMORY
    message = "The Java of this Spark has ended" + (": its memory was full" if is_out_of_memory else "")
    command = "Raise LAKEHOUSE_SPARK_DRIVER_MEMORY, then run" if is_out_of_memory else "Run"
    return EngineLostError(message, action=f"{command} it again. It continues from the current version of the table.")


def end_java(patience: float = 2.0) -> None:
    """End the Java that PySpark started, by force after ``patience`` seconds. A second call does nothing."""
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
