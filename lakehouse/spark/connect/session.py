"""A session on the engine of a home, of its own for each caller."""

import time
from pathlib import Path
from typing import cast

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy

from lakehouse.errors import SetupError
from lakehouse.spark.connect import client
from lakehouse.spark.connect.channel import EngineChannel, open_channel
from lakehouse.spark.connect.client import open_session, require_answer
from lakehouse.spark.engine import lives, read_address

_LIMIT = 90.0  # seconds for an engine that is being started
_POLL = 0.1
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
    address = read_address(folder)
    session = open_session(channel, _WhileItLives(folder))
    try:
        require_answer(session, lambda: session.version)
    except TimeoutError:
        raise _silent(folder, client.FIRST_ANSWER) from None
    except PySparkException as error:
        if read_address(folder) != address:
            return None
        fact = "The engine of this home refuses a session"
        raise SetupError(fact, where=str(folder / "log"), action=_RESTART) from error
    return cast(SparkSession, session)


def _silent(folder: Path, limit: float) -> SetupError:
    fact = f"The engine of this home does not answer within {limit:.0f} seconds"
    return SetupError(fact, where=str(folder / "log"), action=_RESTART)
