"""One statement that writes, run so that its end is known, over an engine too."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from pyspark.sql import SparkSession

from lakehouse.delta.failures import disk_failure
from lakehouse.delta.lock import lock_file
from lakehouse.delta.writer import Writer, note_writer
from lakehouse.errors.troubles import Trouble, means
from lakehouse.local.engine import ENGINE

_PATIENCE = 60.0  # seconds for a statement that was interrupted to end
_POLL = 0.5


def run_statement(spark: SparkSession, uri: str, statement: Callable[[], object]) -> None:
    """Run a statement that writes a table, for who holds the table's lock.

    Over an engine it runs in a thread of its own. What ends the wait for it (Ctrl-C, a run that is cancelled) then does
    not end the talk with the engine: the statement is interrupted, and its end is waited for. Where it may run on all
    the same, its session is left behind. Raises ``TableError`` where the disk refuses the note of who writes.
    """
    engine, lock = spark.conf.get(ENGINE, None), lock_file(uri)
    if engine is None:
        statement()
        return
    note = _noted(lock, Writer.now(engine, spark.session_id), uri) if lock else None  # type: ignore[attr-defined]
    running = _Running(statement)
    try:
        running.wait(spark)
    finally:
        if not running.answered:
            _leave(spark)
        elif note:
            note.unlink(missing_ok=True)
    if running.error:
        raise running.error


def _noted(lock: Path, writer: Writer, uri: str) -> Path:
    try:
        return note_writer(lock, writer)
    except OSError as error:
        raise disk_failure(error, uri) from error


def is_left(spark: SparkSession) -> bool:
    """Whether a statement may still run in this session of an engine, for which nobody waits.

    It reads the settings of its session when it commits, so they stay as they are, and the session is not released:
    the next writer of the table ends both, or the engine does when nobody has used the session for some minutes.
    """
    return not getattr(spark, "release_session_on_close", True)


def _leave(spark: SparkSession) -> None:
    spark.release_session_on_close = False  # type: ignore[attr-defined]  # it is stopped on this side alone


def _ask_to_end(spark: SparkSession) -> None:
    with suppress(BaseException):
        spark.interruptAll()


class _Running:
    """A statement in a thread of its own, and how it ended."""

    def __init__(self, statement: Callable[[], object]) -> None:
        self._statement = statement
        self._ended = Event()  # a thread whose join was broken off is taken for one that has ended (seen)
        self.error: Exception | None = None

    def wait(self, spark: SparkSession) -> None:
        """Run it and wait for its end; where the wait is broken off, interrupt it and wait for its end all the same."""
        try:
            Thread(target=self._run, daemon=True).start()
            self._ended.wait()
        except BaseException:
            self._interrupt(spark)
            raise

    def _interrupt(self, spark: SparkSession) -> None:
        """Interrupt until it has ended; whoever asks again meanwhile, or an engine that refuses, does not end this."""
        deadline = time.monotonic() + _PATIENCE
        asking: Thread | None = None
        while not self._ended.is_set() and time.monotonic() < deadline:
            with suppress(BaseException):
                if asking is None or not asking.is_alive():  # an engine that hangs never answers
                    asking = Thread(target=_ask_to_end, args=(spark,), daemon=True)
                    asking.start()
                self._ended.wait(_POLL)

    @property
    def answered(self) -> bool:
        """Whether the engine said how it ended: what only says that the connection broke does not tell that."""
        from pyspark.errors.exceptions.connect import SparkConnectException, SparkConnectGrpcException  # noqa: PLC0415

        if self.error is None:
            return self._ended.is_set()
        told = isinstance(self.error, SparkConnectException) and type(self.error) is not SparkConnectGrpcException
        return told and not means(self.error, Trouble.ENGINE_LOST)

    def _run(self) -> None:
        try:
            self._statement()
        except Exception as error:
            self.error = error
        finally:
            self._ended.set()
