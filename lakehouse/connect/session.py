"""A session on the engine of a home, of its own for each caller."""

import atexit
import os
import time
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import cast

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession as ConnectSession

from lakehouse.connect.channel import EngineChannel, open_channel
from lakehouse.errors import SetupError
from lakehouse.local.engine import lives, read_address

_LIMIT = 90.0  # seconds for an engine that is being started
_ANSWER = 30.0  # seconds for the first answer of one that takes connections
_POLL = 0.1
_TOUCH = 60.0  # seconds between two signs of life: the engine gives up a session that has given none for five minutes
_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"  # by which PySpark's functions tell which kind of session there is
_RESTART = "Start lakehouse up again."


class _WhileItLives(DefaultPolicy):
    """Ask an engine again for some seconds, and not where it is dead: PySpark itself would go on for ten minutes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(max_retries=4, initial_backoff=100, max_backoff=1000)
        self._folder, self._address = folder, read_address(folder)

    def can_retry(self, e: BaseException) -> bool:
        return lives(self._folder) and read_address(self._folder) == self._address and super().can_retry(e)


def attach(folder: Path, fingerprint: str) -> SparkSession | None:
    """Open a session on the engine of this folder; ``None`` where none lives, or it ends meanwhile.

    Raises ``SetupError`` where it was started with other packages, jars or settings than those of the fingerprint, or
    does not answer.
    """
    deadline = time.monotonic() + _LIMIT
    while lives(folder):
        channel = open_channel(folder)
        if channel is not None:
            _require_fit(folder, fingerprint)
            session = _open(channel, folder)
            if session is not None:
                return session
        if time.monotonic() > deadline:
            raise _silent(folder, _LIMIT)
        time.sleep(_POLL)
    return None


def _require_fit(folder: Path, fingerprint: str) -> None:
    address = read_address(folder)
    if address is not None and address.fingerprint != fingerprint:
        fact = "The engine of this home was started with other packages, jars or settings"
        raise SetupError(fact, where=str(folder), action=_RESTART)


def _open(channel: EngineChannel, folder: Path) -> SparkSession | None:
    """Open a session; ``None`` where the engine ended meanwhile, also where another one was started since."""
    os.environ[_CONNECT_MODE] = "1"
    address = read_address(folder)
    session = ConnectSession(connection=channel)  # type: ignore[arg-type]  # so it is nobody else's default
    session.client.set_retry_policies([_WhileItLives(folder)])
    # a client that is open when Python ends sends one command more, and then the process hangs (seen)
    atexit.register(session.client.close)
    try:
        _require_answer(session, folder)
    except PySparkException as error:
        if read_address(folder) != address:
            return None
        fact = "The engine of this home refuses a session"
        raise SetupError(fact, where=str(folder / "log"), action=_RESTART) from error
    Thread(target=_stay, args=(session,), daemon=True).start()
    return cast(SparkSession, session)


def _require_answer(session: ConnectSession, folder: Path) -> None:
    """Wait for the first answer, which also proves the token; an engine that hangs takes connections, and is silent."""
    failed: list[Exception | None] = []
    asking = Thread(target=lambda: failed.append(_ask(session)), daemon=True)
    asking.start()
    asking.join(_ANSWER)
    if not failed:
        raise _silent(folder, _ANSWER)
    if failed[0] is not None:
        raise failed[0]


def _ask(session: ConnectSession) -> Exception | None:
    try:
        session.version  # noqa: B018 - asked for, that is all
    except Exception as error:
        return error
    return None


def _silent(folder: Path, limit: float) -> SetupError:
    fact = f"The engine of this home does not answer within {limit:.0f} seconds"
    return SetupError(fact, where=str(folder / "log"), action=_RESTART)


def _stay(session: ConnectSession) -> None:
    """Keep the session as long as its process lives, though it may wait for a turn, or for a person."""
    while not session.is_stopped:
        with suppress(Exception):
            session.conf.get("spark.sql.session.timeZone")
        Event().wait(_TOUCH)
