"""One statement that writes, run so that its end is known, whatever ends the wait for it."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Event, Thread
from types import MappingProxyType

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse.errors import EngineLostError
from lakehouse.errors.troubles import Trouble, means
from lakehouse.ledger.table_failures import disk_failure
from lakehouse.settings.store import Store
from lakehouse.spark.engine import ENGINE
from lakehouse.spark.own_session import activate, is_classic
from lakehouse.storage.writer_note import Writer, java_lock, note_writer

_PATIENCE = 5.0  # seconds for a statement that was interrupted to end
_POLL = 0.5
_log = logging.getLogger(__name__)


def run_statement(
    spark: SparkSession,
    uri: str,
    statement: Callable[[], object],
    settings: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run a statement that writes a table, with these settings of the session, for who holds the table's lock.

    It runs in a thread of its own. What ends the wait for it (Ctrl-C, a run that is cancelled) then does not end the
    talk with Spark: the statement is interrupted, and its end is waited for. Where it may run on all the same, its
    session is left behind with its settings, and the next writer of the table waits for its end. Raises
    ``EngineLostError`` in a session that was left behind, ``TableError`` where the disk refuses the note of who writes.
    """
    lock, own = Store(uri).lock, is_classic(spark)
    engine = None if own else spark.conf.get(ENGINE, None)
    note = _noted(lock, Writer.now(engine, spark.session_id), uri) if lock and engine else None  # type: ignore[attr-defined]
    running = _Running(spark, statement, settings, lock if own else None)
    try:
        running.wait(uri)
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


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set these for one statement; left behind they could drop later writes, or put our name on them.

    In a session in which a statement may still run, they are left to that. Raises ``EngineLostError`` for the next one.
    """
    if is_left(spark):
        raise EngineLostError("A statement may still run in this Spark session", action="Run it again.")
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in () if is_left(spark) else settings:
            with suppress(PySparkException):
                spark.conf.unset(key)


def is_left(spark: SparkSession) -> bool:
    """Whether a statement may still run in this session, for which nobody waits.

    It reads the settings of its session when it commits, so they stay as they are. A session of an engine is not
    released: the next writer of the table ends both, or the engine does when nobody has used the session for some
    minutes. A Spark of this process's own ends when the session is stopped.
    """
    return not getattr(spark, "release_session_on_close", True)


def _leave(spark: SparkSession) -> None:
    spark.release_session_on_close = False  # type: ignore[attr-defined]  # it is stopped on this side alone


def _ask_to_end(spark: SparkSession) -> None:
    with suppress(BaseException):
        spark.interruptAll()


class _Running:
    """A statement in a thread of its own, and how it ended. ``lock`` is what a Java of our own holds meanwhile."""

    def __init__(
        self,
        spark: SparkSession,
        statement: Callable[[], object],
        settings: Mapping[str, str],
        lock: Path | None,
    ) -> None:
        self._spark, self._statement, self._settings, self._lock = spark, statement, settings, lock
        self._ended = Event()  # a thread whose join was broken off is taken for one that has ended (seen)
        self.error: Exception | None = None

    def wait(self, uri: str) -> None:
        """Run it and wait for its end; where the wait is broken off, interrupt it and wait for its end all the same."""
        try:
            Thread(target=self._run, daemon=True).start()
            self._ended.wait()
        except BaseException:
            self._interrupt(uri)
            raise

    def _interrupt(self, uri: str) -> None:
        """Interrupt until it has ended; whoever asks again meanwhile, or an engine that refuses, does not end this."""
        deadline = time.monotonic() + _PATIENCE
        asking: Thread | None = None
        told = False
        while not self._ended.is_set() and time.monotonic() < deadline:
            with suppress(BaseException):
                if asking is None or not asking.is_alive():  # an engine that hangs never answers
                    asking = Thread(target=_ask_to_end, args=(self._spark,), daemon=True)
                    asking.start()
                if not told:
                    _log.warning("Stopping what writes %s, within %.0f seconds ...", uri, _PATIENCE)
                    told = True
                self._ended.wait(_POLL)

    @property
    def answered(self) -> bool:
        """Whether Spark said how it ended: what only says that the connection broke does not tell that."""
        if self.error is None:
            return self._ended.is_set()
        return _is_answer(self.error, is_classic(self._spark))

    def _run(self) -> None:
        try:
            activate(self._spark)
            with java_lock(self._spark, self._lock) if self._lock else nullcontext():
                self._run_with_settings()
        except Exception as error:
            self.error = self.error or error
        finally:
            self._ended.set()

    def _run_with_settings(self) -> None:
        with session_settings(self._spark, self._settings):
            try:
                self._statement()
            except Exception as error:
                self.error = error
                if not self.answered:
                    _leave(self._spark)
                raise


def _is_answer(error: Exception, own: bool) -> bool:
    if own:
        return isinstance(error, Py4JJavaError) or not isinstance(error, Py4JError)
    from pyspark.errors.exceptions.connect import SparkConnectException, SparkConnectGrpcException  # noqa: PLC0415

    told = isinstance(error, SparkConnectException) and type(error) is not SparkConnectGrpcException
    return told and not means(error, Trouble.ENGINE_LOST)
