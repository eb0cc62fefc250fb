"""What a command works with: settings, a broker, a Spark session. A command stops what it started."""

import atexit
import gc
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer, get_ident
from typing import TYPE_CHECKING, NoReturn

from lakehouse.cli.output import print_notice, spinner, track_phases

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED = 130
_LIMIT = 9.0  # seconds from the first signal
_REPEAT_DELAY = 0.05
_exit_timers: list[Timer] = []  # end the process if Spark does not stop in time
_LOCK_WAIT = 1.0  # seconds: a process that checks for a running engine holds its lock for a moment
_STOP_SECONDS = 30.0  # for Spark to stop by itself
_INTERRUPTED_STOP_SECONDS = 2.0  # the same after Ctrl-C, when a person waits


@dataclass
class _StopState:
    """Whether Spark is in use and no signal has come yet, and whether a signal has come.

    Not an ``Event``: that takes a lock, and a signal that arrives meanwhile would wait for the lock forever.
    """

    uses_spark: bool = False
    is_signaled: bool = False


_STATE = _StopState()


def interrupt(_number: int, _frame: object) -> NoReturn:
    """End as Ctrl-C does, so that what was started is stopped; if Spark prevents that, a timer ends the process."""
    _STATE.is_signaled = True
    if _STATE.uses_spark:
        _STATE.uses_spark = False
        timer = Timer(_LIMIT, _abandon_spark)
        timer.daemon = True
        _exit_timers.append(timer)
        timer.start()
        with suppress(Exception):
            if "pyspark" in sys.modules:
                from lakehouse.spark.own_spark import abort_java_call

                abort_java_call()
    raise KeyboardInterrupt


def interrupt_again(unraisable: "UnraisableHookArgs") -> None:
    """Repeat an interrupt that Python lost, as in a destructor; other errors of destructors are not shown.

    A thread repeats it a moment later: at once, it would break off this function and be lost too.
    """
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            Timer(_REPEAT_DELAY, signal.pthread_kill, [get_ident(), signal.SIGINT]).start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def end_process(code: int) -> NoReturn:
    """End the process; after a signal, do not wait for threads of libraries: one may wait for a silent server."""
    gc.freeze()  # otherwise Python searches all modules for garbage before it ends
    if not _STATE.is_signaled:
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


@contextmanager
def stops_soon() -> Iterator[None]:
    """A signal during the body ends the process within seconds, even if Spark does not answer."""
    _STATE.uses_spark = True
    try:
        yield
    finally:
        _STATE.uses_spark = False
        while _exit_timers:  # Spark has stopped; everything else has its own time to stop
            _exit_timers.pop().cancel()


def _abandon_spark() -> NoReturn:
    from lakehouse.cli.output import print_notice
    from lakehouse.spark.own_spark import end_java

    with suppress(Exception):
        print_notice("Spark does not stop and is abandoned. The next merge includes what was not committed.")
        end_java(0.0)
    os._exit(INTERRUPTED)


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.declaration import StreamTable
    from lakehouse.declaration.sink import Outlet
    from lakehouse.settings import Settings
    from lakehouse.storage.table_context import TableContext


def load_settings() -> "Settings":
    """Read the settings from the environment and ``.env``."""
    from lakehouse.settings import Settings

    return Settings.load()


@contextmanager
def broker(settings: "Settings", table: "StreamTable | None" = None, *, with_registry: bool = False) -> Iterator[str]:
    """The broker of the settings, and the schema registry if it is needed too; none for a table that reads no topic.

    An embedded one that does not run is started, and stopped at the end.
    """
    if table and not table.has_topics:
        yield ""
        return
    from lakehouse.local.servers import running_broker

    schema_registry = registry(settings, needed=with_registry)
    with spinner("Looking for the broker") as status, running_broker(settings) as address, schema_registry:
        status.stop()
        yield address


def broker_of(settings: "Settings", outlets: "Iterable[Outlet]") -> AbstractContextManager[object]:
    """The broker of the settings, as ``broker`` gives it, if one of these sinks sends to a topic."""
    from lakehouse.declaration import ChangesTopic

    needs_broker = any(isinstance(getattr(outlet, "to", None), ChangesTopic) and outlet.enabled for outlet in outlets)
    return broker(settings) if needs_broker else nullcontext()


@contextmanager
def registry(settings: "Settings", *, needed: bool) -> Iterator[None]:
    """The schema registry of the settings if it is needed; started and stopped as the broker is."""
    from lakehouse.local.servers import running_registry

    with running_registry(settings) if needed else nullcontext():
        yield


@contextmanager
def warm_engine(settings: "Settings") -> Iterator[None]:
    """The engine of the home, for several runs; if none runs, it is started, and stopped at the end.

    If the engine cannot be started, each run starts its own Spark.
    """
    from lakehouse.errors import SetupError
    from lakehouse.spark.engine import EngineProcess, engine_folder, is_engine_running
    from lakehouse.spark.sessions import engine_conf, fingerprint

    if settings.spark_remote or is_engine_running(engine_folder(settings)):
        yield
        return
    engine = EngineProcess(settings, engine_conf(settings), fingerprint(settings))
    try:
        with suppress(SetupError):  # if a run cannot start its own Spark either, it reports the reason
            engine.start(_LOCK_WAIT)
        yield
    finally:
        engine.stop()


@contextmanager
def spark(settings: "Settings") -> "Iterator[SparkSession]":
    """A Spark session, stopped at the end. The output of Java goes to a log in the home."""
    from lakehouse.spark.engine import engine_folder, is_engine_running
    from lakehouse.spark.sessions import build_session, stop_session

    has_engine = not settings.spark_remote and is_engine_running(engine_folder(settings))
    print_notice("Attaching to the engine ..." if has_engine else "Starting Spark ...")
    stop_seconds = _STOP_SECONDS
    with stops_soon(), track_phases():
        with _redirect_output(settings.log_file("spark.log")):
            session = build_session(settings)
        _silence_query_logs()
        try:
            yield session
        except KeyboardInterrupt:
            stop_seconds = _INTERRUPTED_STOP_SECONDS
            raise
        finally:
            stop_session(session, stop_seconds)


def _silence_query_logs() -> None:
    """Keep PySpark from printing a refused statement as JSON with a Java stack trace: our error has one line."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


@contextmanager
def table_context(settings: "Settings", table: "StreamTable") -> "Iterator[TableContext]":
    """The Spark session, settings and declaration for work on a table; the session is stopped at the end."""
    from lakehouse.ledger.log_copies import look_once
    from lakehouse.storage.table_context import TableContext

    with look_once(), spark(settings) as session:
        yield TableContext(session, settings, table)


@contextmanager
def _redirect_output(log: Path) -> Iterator[None]:
    """Send the output of processes that are started meanwhile to a file: VACUUM prints its counts."""
    original_streams = {stream: os.dup(stream) for stream in (1, 2)}
    with log.open("wb") as file:
        for stream in original_streams:
            os.dup2(file.fileno(), stream)
    try:
        yield
    finally:
        for stream, copy in original_streams.items():
            os.dup2(copy, stream)
            os.close(copy)
