"""What a command works with: settings, a broker, a Spark session. A command stops what it started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.cli.output import print_notice
from lakehouse.cli.phases import spinner, track_phases
from lakehouse.cli.stopping import stops_soon

_LOCK_WAIT = 1.0  # seconds: a process that checks for a running engine holds its lock for a moment
_STOP_SECONDS = 30.0  # for Spark to stop by itself
_INTERRUPTED_STOP_SECONDS = 2.0  # the same after Ctrl-C, when a person waits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.declaration import StreamTable
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
    if table and table.source:
        yield ""
        return
    from lakehouse.local.broker import running_broker

    schema_registry = registry(settings, needed=with_registry)
    with spinner("Looking for the broker") as status, running_broker(settings) as address, schema_registry:
        status.stop()
        yield address


@contextmanager
def registry(settings: "Settings", *, needed: bool) -> Iterator[None]:
    """The schema registry of the settings if it is needed; started and stopped as the broker is."""
    from lakehouse.local.registry import running_registry

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
    from lakehouse.storage.table_context import TableContext

    with spark(settings) as session:
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
