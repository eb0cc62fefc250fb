"""Runs a statement that writes so that its end is known, even if the wait for it is interrupted."""

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
from lakehouse.errors.troubles import Trouble, has_trouble
from lakehouse.ledger.log_copies import look_again
from lakehouse.ledger.table_failures import disk_failure
from lakehouse.settings.store import Store
from lakehouse.spark.engine import ENGINE
from lakehouse.spark.own_session import activate, is_classic
from lakehouse.storage.lock import Writer, java_lock, note_writer

_PATIENCE = 5.0  # seconds for an interrupted statement to end
_POLL = 0.5
_log = logging.getLogger(__name__)


def run_statement(
    spark: SparkSession,
    uri: str,
    statement: Callable[[], object],
    settings: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run a statement that writes a table with these session settings; the caller must hold the table's lock.

    The statement runs in its own thread, so Ctrl-C or a cancelled run does not break the connection to Spark: the
    statement is interrupted, and this waits for its end. If the statement may still run after that, its session is
    abandoned with its settings, and the next writer of the table waits for its end. Raises ``EngineLostError`` in an
    abandoned session, ``TableError`` if the disk refuses the note of the writer.
    """
    lock, is_own = Store(uri).lock, is_classic(spark)
    engine = None if is_own else spark.conf.get(ENGINE, None)
    note = _note_writer(lock, Writer.now(engine, spark.session_id), uri) if lock and engine else None  # type: ignore[attr-defined]
    running_statement = _RunningStatement(spark, statement, settings, lock if is_own else None)
    try:
        running_statement.wait(uri)
    finally:
        look_again()
        if not running_statement.is_answered:
            _abandon_session(spark)
        elif note:
            note.unlink(missing_ok=True)
    if running_statement.error:
        raise running_statement.error


def _note_writer(lock: Path, writer: Writer, uri: str) -> Path:
    try:
        return note_writer(lock, writer)
    except OSError as error:
        raise disk_failure(error, uri) from error


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Apply session settings to one statement; later statements could otherwise be skipped, or be recorded as ours.

    In a session in which a statement may still run, its settings remain. Raises ``EngineLostError`` for the next one.
    """
    if is_abandoned(spark):
        raise EngineLostError("A statement may still run in this Spark session", action="Run it again.")
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in () if is_abandoned(spark) else settings:
            with suppress(PySparkException):
                spark.conf.unset(key)


def is_abandoned(spark: SparkSession) -> bool:
    """Whether a statement may still run in this session although nobody waits for it.

    The statement reads the session settings when it commits, so they must not change. A session of an engine is not
    released: the next writer of the table ends the statement and the session, or the engine does after some minutes
    without use. The Spark process of this process ends when the session is stopped.
    """
    return not getattr(spark, "release_session_on_close", True)


def _abandon_session(spark: SparkSession) -> None:
    spark.release_session_on_close = False  # type: ignore[attr-defined]  # only the client closes


def _interrupt_all(spark: SparkSession) -> None:
    with suppress(BaseException):
        spark.interruptAll()


class _RunningStatement:
    """A statement in its own thread, and its result. ``lock`` is the lock that our own Java process holds meanwhile."""

    def __init__(
        self,
        spark: SparkSession,
        statement: Callable[[], object],
        settings: Mapping[str, str],
        lock: Path | None,
    ) -> None:
        self._spark, self._statement, self._settings, self._lock = spark, statement, settings, lock
        self._has_ended = Event()  # not Thread.join: after an interrupted join, the thread counts as ended (seen)
        self.error: BaseException | None = None

    def wait(self, uri: str) -> None:
        """Run the statement and wait for its end; if the wait is interrupted, interrupt it and wait again."""
        try:
            Thread(target=self._run, daemon=True).start()
            self._has_ended.wait()
        except BaseException:
            self._interrupt(uri)
            raise

    def _interrupt(self, uri: str) -> None:
        """Interrupt until the statement ends or time is up; another Ctrl-C or a failing engine does not stop this."""
        deadline = time.monotonic() + _PATIENCE
        interrupting: Thread | None = None
        is_logged = False
        while not self._has_ended.is_set() and time.monotonic() < deadline:
            with suppress(BaseException):
                if interrupting is None or not interrupting.is_alive():  # an engine that hangs never answers
                    interrupting = Thread(target=_interrupt_all, args=(self._spark,), daemon=True)
                    interrupting.start()
                if not is_logged:
                    _log.warning("Stopping the statement that writes %s, within %.0f seconds ...", uri, _PATIENCE)
                    is_logged = True
                self._has_ended.wait(_POLL)

    @property
    def is_answered(self) -> bool:
        """Whether Spark reported the result: an error of the connection alone leaves it unknown."""
        if self.error is None:
            return self._has_ended.is_set()
        return _is_answer(self.error, is_classic(self._spark))

    def _run(self) -> None:
        try:
            activate(self._spark)
            with java_lock(self._spark, self._lock) if self._lock else nullcontext():
                self._run_with_settings()
        except BaseException as error:
            self.error = self.error or error
        finally:
            self._has_ended.set()

    def _run_with_settings(self) -> None:
        with session_settings(self._spark, self._settings):
            try:
                self._statement()
            except BaseException as error:
                self.error = error
                if not self.is_answered:
                    _abandon_session(self._spark)
                raise


def _is_answer(error: BaseException, is_own: bool) -> bool:
    if not isinstance(error, Exception):  # it ended this thread, perhaps while Spark still worked
        return False
    if is_own:
        return isinstance(error, Py4JJavaError) or not isinstance(error, Py4JError)
    from pyspark.errors.exceptions.connect import SparkConnectException, SparkConnectGrpcException  # noqa: PLC0415

    is_reported = isinstance(error, SparkConnectException) and type(error) is not SparkConnectGrpcException
    return is_reported and not has_trouble(error, Trouble.ENGINE_LOST)
