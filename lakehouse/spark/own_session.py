"""A session of our own on a Spark that runs: nobody's settings and views are used in it, and nobody's are changed."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from lakehouse.errors import SetupError
from lakehouse.settings.spark_conf import DELTA, EXACT, is_of_rows

_ZONE = "spark.sql.session.timeZone"
_UTC = {"UTC", "UCT", "GMT", "GMT0", "Z", "Zulu", "Universal", "Greenwich"}
_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"  # by which PySpark tells which kind of session there is
_ACTION = "Start the Spark of this session with it, or let lakehouse start the first one of the process."
_WANTED: WeakKeyDictionary[SparkSession, Mapping[str, str]] = WeakKeyDictionary()  # what each was given


class Active(NamedTuple):
    """What is active in a thread: a session, the kind of sessions for PySpark, and the Spark of this process."""

    session: SparkSession | None
    connect_mode: str | None
    spark: SparkContext | None


def running_session() -> SparkSession | None:
    """The session of this process that is active, else any on its Spark; ``None`` where it has neither."""
    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None and not is_remote():
        return SparkSession.builder.getOrCreate()
    return active


def is_classic(session: SparkSession) -> bool:
    """Whether a session has its Spark in this process, and not on a server."""
    return hasattr(session, "_jsparkSession")


def make_exact(session: SparkSession, wanted: Mapping[str, str]) -> None:
    """Give a session the wanted settings and those that exactness needs, and nobody else's on which rows may depend.

    Raises ``SetupError`` where it does not take them, or its Spark was started without Delta or in another time zone.
    """
    wanted = {**wanted, **EXACT}
    _require_zone(session)
    found = session.conf.getAll
    _require_delta(found)
    for name in _foreign(found, wanted):
        if session.conf.isModifiable(name):
            session.conf.unset(name)
    for name, value in wanted.items():
        if found.get(name) != value:
            _set(session, name, value)
    stand = session.conf.getAll
    wrong = [name for name, value in EXACT.items() if stand.get(name) != value]
    if wrong:
        raise SetupError("A Spark session does not take a setting that it needs", where=wrong[0], action=_ACTION)
    _WANTED[session] = wanted


def keep_exact(session: SparkSession) -> bool:
    """Make a session exact again where somebody has changed a setting of it on which rows depend; tell whether.

    Where nobody has, that is one question.
    """
    wanted, found = _WANTED[session], session.conf.getAll
    changed = any(found.get(name) != value for name, value in wanted.items() if is_of_rows(name))
    if changed or any(session.conf.isModifiable(name) for name in _foreign(found, wanted)):
        make_exact(session, wanted)
        return True
    return False


def _set(session: SparkSession, name: str, value: str) -> None:
    try:
        session.conf.set(name, value)
    except PySparkException:  # whose text may show the value, which may be secret
        raise SetupError("A Spark session does not take a setting", where=name, action=_ACTION) from None


def _foreign(found: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    return [name for name in found if name not in wanted and name not in DELTA and is_of_rows(name)]


def _require_zone(session: SparkSession) -> None:
    """Look at the zone of its Java, which is that of a session for which none is set."""
    session.conf.unset(_ZONE)
    zone = session.conf.get(_ZONE) or ""
    if zone.removeprefix("Etc/") not in _UTC:
        fact = f"Spark runs in the time zone {zone}, and times are UTC everywhere"
        raise SetupError(fact, where="-Duser.timezone=UTC in spark.driver.extraJavaOptions", action=_ACTION)


def _require_delta(found: Mapping[str, str]) -> None:
    for name, value in DELTA.items():
        if value not in found.get(name, "").split(","):
            raise SetupError("Spark was started without Delta", where=f"{name}={value}", action=_ACTION)


def activate(session: SparkSession) -> None:
    """Make a session the active one of this thread: what Spark looks up by itself while we work, it finds there."""
    set_connect_mode(None if is_classic(session) else "1")
    if is_classic(session):
        SparkSession._activeSession = session
        SparkSession._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
    else:
        _over_connect()._active_session.session = session


def set_connect_mode(mode: str | None) -> None:
    """Have PySpark take the sessions of this process for such over Spark Connect; ``None``: for those of a Spark here.

    Its builder too asks this: left set, it starts nobody a Spark of his own.
    """
    if mode is None:
        os.environ.pop(_CONNECT_MODE, None)
    else:
        os.environ[_CONNECT_MODE] = mode


def find_active() -> Active:
    """What is active now, for ``activate_again``."""
    return Active(SparkSession.getActiveSession(), os.environ.get(_CONNECT_MODE), SparkContext._active_spark_context)


@contextmanager
def others_active() -> Iterator[None]:
    """Leave active what was so before, or the first session of a Spark that was started meanwhile."""
    before = find_active()
    try:
        yield
    finally:
        activate_again(before)


def activate_again(before: Active) -> None:
    """Make active what was so before, where it still runs, else the first session of the Spark of this process."""
    former = before.session
    if is_remote():
        _over_connect()._active_session.session = None if former is None or is_classic(former) else former
    if SparkContext._active_spark_context in (None, before.spark):
        set_connect_mode(before.connect_mode)
    if is_remote():
        return
    for session in (former, SparkSession._instantiatedSession):
        if session is not None and is_classic(session) and session._sc._jsc is not None:
            activate(session)
            return


def _over_connect() -> Any:
    from pyspark.sql.connect.session import SparkSession as ConnectSession  # noqa: PLC0415 - needs a client

    return ConnectSession


def stop(session: SparkSession) -> None:
    """Stop a session, in this process with its Spark; on a server, what still runs in it is interrupted.

    A server that PySpark started in this process goes on: it would stop with any of its sessions.
    """
    if is_classic(session) or "SPARK_LOCAL_REMOTE" not in os.environ:
        session.stop()
        return
    for close in (session.client.release_session, session.client.close):
        with suppress(Exception):
            close()
