"""The parts a verb works with: settings, a broker, a Spark session; what it started, it stops."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.cli.output import complain
from lakehouse.cli.phases import busy, phases
from lakehouse.cli.stopping import stops_soon

_SHORT = 1.0  # seconds: whoever looks whether an engine lives holds its lock for a moment
_STOPPED = 30.0  # seconds for Spark to stop by itself
_HURRIED = 2.0  # the same, for a person who waits

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
def broker(settings: "Settings", *, with_registry: bool = False) -> Iterator[str]:
    """The broker of the settings, and the schema registry where it is needed too.

    What is embedded and not up is started, and stopped afterwards.
    """
    from lakehouse.local.broker import running_broker

    own = registry(settings, needed=with_registry)
    with busy("Looking for the broker") as status, running_broker(settings) as address, own:
        status.stop()
        yield address


@contextmanager
def registry(settings: "Settings", *, needed: bool) -> Iterator[None]:
    """The schema registry of the settings where it is needed, as the broker."""
    from lakehouse.local.registry import running_registry

    with running_registry(settings) if needed else nullcontext():
        yield


@contextmanager
def warm(settings: "Settings") -> Iterator[None]:
    """The engine of the home for several runs; where none is up, it is started, and stopped afterwards.

    Where it cannot be had, each run has a Spark of its own.
    """
    from lakehouse.errors import SetupError
    from lakehouse.spark.engine import EngineProcess, engine_folder, lives
    from lakehouse.spark.sessions import engine_conf, fingerprint

    if settings.spark_remote or lives(engine_folder(settings)):
        yield
        return
    engine = EngineProcess(settings, engine_conf(settings), fingerprint(settings))
    try:
        with suppress(SetupError):  # what keeps a run from a Spark of its own too, it tells itself
            engine.start(_SHORT)
        yield
    finally:
        engine.stop()


@contextmanager
def spark(settings: "Settings") -> "Iterator[SparkSession]":
    """A Spark session, stopped afterwards. What Java says goes to a log in the home."""
    from lakehouse.spark.engine import engine_folder, lives
    from lakehouse.spark.sessions import build_session, stop_session

    warm = not settings.spark_remote and lives(engine_folder(settings))
    complain("Attaching to the engine ..." if warm else "Starting Spark ...")
    patience = _STOPPED
    with stops_soon(), phases():
        with _output_to(settings.log_file("spark.log")):
            session = build_session(settings)
        _silence_query_logs()
        try:
            yield session
        except KeyboardInterrupt:
            patience = _HURRIED
            raise
        finally:
            stop_session(session, patience)


def _silence_query_logs() -> None:
    """Keep PySpark from printing a refused statement as JSON with a trace of Java: its error says it in a sentence."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


@contextmanager
def table_context(settings: "Settings", table: "StreamTable") -> "Iterator[TableContext]":
    """What a verb works with on a table: a Spark session, stopped afterwards, the settings and the table."""
    from lakehouse.storage.table_context import TableContext

    with spark(settings) as session:
        yield TableContext(session, settings, table)


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Give processes that are started meanwhile a file for what they say: VACUUM prints its figures."""
    kept = {stream: os.dup(stream) for stream in (1, 2)}
    with log.open("wb") as file:
        for stream in kept:
            os.dup2(file.fileno(), stream)
    try:
        yield
    finally:
        for stream, copy in kept.items():
            os.dup2(copy, stream)
            os.close(copy)
