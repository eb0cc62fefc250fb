"""A session of our own on a Spark that runs: nobody's settings and views are used in it, and nobody's are changed."""

import copy
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from lakehouse.errors import SetupError
from lakehouse.settings.spark_conf import DELTA, EXACT, is_of_rows

_ZONE = "spark.sql.session.timeZone"
_UTC = {"UTC", "UCT", "GMT", "GMT0", "Z", "Zulu", "Universal", "Greenwich"}
_ACTION = "Start the Spark of this session with it, or let lakehouse start the first one of the process."


def running_session() -> SparkSession | None:
    """The session of this process that is active, else any on its Spark; ``None`` where it has neither."""
    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None and not is_remote():
        return SparkSession.builder.getOrCreate()
    return active


def is_classic(session: SparkSession) -> bool:
    """Whether a session has its Spark in this process, and not on a server."""
    return hasattr(session, "_jsparkSession")


def new_session(running: SparkSession) -> SparkSession:
    """Make a session on the Spark of one that runs. It has the settings with which that Spark was started.

    A second call makes another one.
    """
    if is_classic(running):
        return running.newSession()
    channel = copy.copy(running.client._builder)
    channel._params = {name: value for name, value in channel._params.items() if name != channel.PARAM_SESSION_ID}
    return new_client(channel)


def new_client(connection: Any) -> SparkSession:
    """Make a session on a Spark Connect server, which nobody else gets as the default of this process."""
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # by which PySpark's functions tell which kind of session there is
    made: SparkSession = _over_connect()(connection=connection)
    return made


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
    if is_classic(session):
        SparkSession._activeSession = session
        SparkSession._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
    else:
        _over_connect()._active_session.session = session


@contextmanager
def others_active() -> Iterator[None]:
    """Leave active what was so before, or the first session of a Spark that was started meanwhile."""
    before = SparkSession.getActiveSession()
    try:
        yield
    finally:
        activate_again(before)


def activate_again(before: SparkSession | None) -> None:
    """Make active what was so before, where it still runs, else the first session of the Spark of this process."""
    if is_remote():
        _over_connect()._active_session.session = None if before is None or is_classic(before) else before
        return
    for session in (before, SparkSession._instantiatedSession):
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
