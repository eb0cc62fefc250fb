"""Our own session on a running Spark, and settings and rows of statements over few rows in it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from lakehouse.errors import SetupError
from lakehouse.errors.troubles import Trouble, has_trouble
from lakehouse.settings.spark_conf import DELTA, EXACT, affects_rows

if TYPE_CHECKING:
    import pyarrow as pa

_ZONE = "spark.sql.session.timeZone"
_UTC = {"UTC", "UCT", "GMT", "GMT0", "Z", "Zulu", "Universal", "Greenwich"}
_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"  # PySpark reads the kind of its sessions from this variable
_ACTION = "Start the Spark of this session with it, or let lakehouse start the first Spark of the process."
_REQUIRED_CONF: WeakKeyDictionary[SparkSession, Mapping[str, str]] = WeakKeyDictionary()
# for few rows, one task is faster than adaptive execution stage by stage
_ONE_TASK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
FEW_ROWS = 50_000
# for very few rows, interpretation is faster than generating and compiling code
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
VERY_FEW_ROWS = 10_000
_MAX_SCANNED_ROWS = 1_000_000  # rows of a table that one task scans


class ActiveState(NamedTuple):
    """The active session of a thread, PySpark's kind of sessions, and the Spark of this process."""

    session: SparkSession | None
    connect_mode: str | None
    spark: SparkContext | None


def running_session() -> SparkSession | None:
    """Return the active session of this process, else any session on its Spark; ``None`` if it has neither."""
    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None and not is_remote():
        return SparkSession.builder.getOrCreate()
    return active


def is_classic(session: SparkSession) -> bool:
    """Whether the Spark of a session is in this process, not on a server."""
    return hasattr(session, "_jsparkSession")


def make_exact(session: SparkSession, required_conf: Mapping[str, str]) -> None:
    """Set the required settings and those of ``EXACT``, and unset all others that rows may depend on.

    Raises ``SetupError`` if a setting has no effect, or Spark was started without Delta or in another time zone.
    """
    required_conf = {**required_conf, **EXACT}
    _require_utc(session)
    session_conf = session.conf.getAll
    for name, value in DELTA.items():
        if value not in session_conf.get(name, "").split(","):
            raise SetupError("Spark was started without Delta", where=f"{name}={value}", action=_ACTION)
    for name in _extra_settings(session_conf, required_conf):
        if session.conf.isModifiable(name):
            session.conf.unset(name)
    for name, value in required_conf.items():
        if session_conf.get(name) != value:
            _set_conf(session, name, value)
    new_conf = session.conf.getAll
    wrong_settings = [name for name, value in EXACT.items() if new_conf.get(name) != value]
    if wrong_settings:
        message = "A Spark session does not accept a setting that it needs"
        raise SetupError(message, where=wrong_settings[0], action=_ACTION)
    _REQUIRED_CONF[session] = required_conf


def keep_exact(session: SparkSession) -> bool:
    """Make a session exact again if a setting that rows depend on was changed; return whether one was.

    If none was changed, this takes one request.
    """
    required_conf, session_conf = _REQUIRED_CONF[session], session.conf.getAll
    is_changed = any(session_conf.get(name) != value for name, value in required_conf.items() if affects_rows(name))
    if is_changed or any(session.conf.isModifiable(name) for name in _extra_settings(session_conf, required_conf)):
        make_exact(session, required_conf)
        return True
    return False


def _set_conf(session: SparkSession, name: str, value: str) -> None:
    try:
        session.conf.set(name, value)
    except PySparkException:  # its text may contain the value, which may be secret
        raise SetupError("A Spark session does not accept a setting", where=name, action=_ACTION) from None


def _extra_settings(session_conf: Mapping[str, str], required_conf: Mapping[str, str]) -> list[str]:
    return [name for name in session_conf if name not in required_conf and name not in DELTA and affects_rows(name)]


def _require_utc(session: SparkSession) -> None:
    """Check the time zone of the session's Java, which a session without its own setting uses."""
    session.conf.unset(_ZONE)
    zone = session.conf.get(_ZONE) or ""
    if zone.removeprefix("Etc/") not in _UTC:
        message = f"Spark runs in the time zone {zone}, but lakehouse needs UTC"
        raise SetupError(message, where="-Duser.timezone=UTC in spark.driver.extraJavaOptions", action=_ACTION)


def activate(session: SparkSession) -> None:
    """Make a session the active one of this thread: Spark itself uses the active session while we work."""
    set_connect_mode(None if is_classic(session) else "1")
    if is_classic(session):
        SparkSession._activeSession = session
        SparkSession._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
    else:
        _connect_session_class()._active_session.session = session


def set_connect_mode(mode: str | None) -> None:
    """Set PySpark's kind of sessions: "1" for Spark Connect, ``None`` for a Spark of this process.

    PySpark's builder reads this too: as long as it is "1", no code of this process can start its own Spark.
    """
    if mode is None:
        os.environ.pop(_CONNECT_MODE, None)
    else:
        os.environ[_CONNECT_MODE] = mode


def read_active_state() -> ActiveState:
    """Return what is active now, for ``activate_former``."""
    return ActiveState(
        SparkSession.getActiveSession(), os.environ.get(_CONNECT_MODE), SparkContext._active_spark_context
    )


@contextmanager
def restore_active_state() -> Iterator[None]:
    """Restore at the end what was active before, or activate the first session of a Spark that started meanwhile."""
    before = read_active_state()
    try:
        yield
    finally:
        activate_former(before)


def activate_former(before: ActiveState) -> None:
    """Restore what was active before if it still runs, else activate the first session of the Spark of this process."""
    former_session = before.session
    if is_remote():
        _connect_session_class()._active_session.session = (
            None if former_session is None or is_classic(former_session) else former_session
        )
    if SparkContext._active_spark_context in (None, before.spark):
        set_connect_mode(before.connect_mode)
    if is_remote():
        return
    for session in (former_session, SparkSession._instantiatedSession):
        if session is not None and is_classic(session) and session._sc._jsc is not None:
            activate(session)
            return


def _connect_session_class() -> Any:
    from pyspark.sql.connect.session import SparkSession as ConnectSession  # noqa: PLC0415 - it loads gRPC

    return ConnectSession


def stop(session: SparkSession) -> None:
    """Stop a session. In this process, this stops its Spark; on a server, it interrupts the work of the session.

    A server that PySpark started in this process keeps running: PySpark would stop it with any of its sessions.
    """
    if is_classic(session) or "SPARK_LOCAL_REMOTE" not in os.environ:
        session.stop()
        return
    for end_session in (session.client.release_session, session.client.close):
        with suppress(Exception):
            end_session()


@contextmanager
def rows_expected(spark: SparkSession, rows: int | None, joined_rows: int = 0) -> Iterator[None]:
    """Use the fastest settings for statements over this many rows (``None`` if the number is unknown).

    ``joined_rows`` is the number of rows of the table that the rows are joined with.
    """
    is_small = rows is not None and rows <= FEW_ROWS and joined_rows <= _MAX_SCANNED_ROWS
    is_very_small = rows is not None and rows + joined_rows <= VERY_FEW_ROWS
    temporary_conf = (_ONE_TASK if is_small else {}) | (_INTERPRETED if is_small and is_very_small else {})
    previous_conf = {name: spark.conf.get(name) or "" for name in temporary_conf}
    try:
        for name, value in temporary_conf.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in previous_conf.items():
            with suppress(Exception):  # a lost session needs no restoring, and its first error matters more
                spark.conf.set(name, value)


def compute_once(spark: SparkSession, rows: DataFrame, expected: int | None) -> DataFrame:
    """Return the rows computed once: very few are kept in the plans that use them, others by the executors."""
    local_rows = collect_rows(rows) if expected is not None and expected <= VERY_FEW_ROWS else None
    return rows.localCheckpoint() if local_rows is None else spark.createDataFrame(local_rows, rows.schema)


def collect_rows(rows: DataFrame) -> "pa.Table | None":
    """Return the rows in this process; ``None`` if they exceed the maximum that Spark returns (1 GiB by default)."""
    try:
        return rows.toArrow()
    except Exception as error:
        if has_trouble(error, Trouble.TOO_LARGE):
            return None
        raise
