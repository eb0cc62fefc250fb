"""A session on the engine of a home; each caller gets its own."""

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
from lakehouse.spark.engine import is_engine_running, read_address

_LIMIT = 90.0  # seconds to wait for an engine that starts
_POLL = 0.1
_RESTART = "Start lakehouse up again."


class _RetryWhileEngineLives(DefaultPolicy):
    """Retry for some seconds, but not on a dead engine: PySpark's own policy retries for ten minutes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(max_retries=4, initial_backoff=100, max_backoff=1000)
        self._folder, self._address = folder, read_address(folder)

    def can_retry(self, e: BaseException) -> bool:
        return is_engine_running(self._folder) and read_address(self._folder) == self._address and super().can_retry(e)


def attach(folder: Path, fingerprint: str) -> SparkSession | None:
    """Open a session on the engine of this folder; ``None`` if no engine runs, or it ends meanwhile.

    Raises ``SetupError`` if it was started with other packages, jars or settings than those of the fingerprint, or
    does not answer.
    """
    deadline = time.monotonic() + _LIMIT
    while is_engine_running(folder):
        channel = open_channel(folder)
        if channel is not None:
            _require_fingerprint(folder, fingerprint)
            session = _open(channel, folder)
            if session is not None:
                return session
        if time.monotonic() > deadline:
            raise _timeout_error(folder, _LIMIT)
        time.sleep(_POLL)
    return None


def _require_fingerprint(folder: Path, fingerprint: str) -> None:
    address = read_address(folder)
    if address is not None and address.fingerprint != fingerprint:
        message = "The engine of this home was started with other packages, jars or settings"
        raise SetupError(message, where=str(folder), action=_RESTART)


def _open(channel: EngineChannel, folder: Path) -> SparkSession | None:
    """Open a session; ``None`` if the engine has ended meanwhile, also if another one has started since."""
    address = read_address(folder)
    session = open_session(channel, _RetryWhileEngineLives(folder))
    try:
        require_answer(session, lambda: session.version)
    except TimeoutError:
        raise _timeout_error(folder, client.FIRST_ANSWER) from None
    except PySparkException as error:
        if read_address(folder) != address:
            return None
        message = "The engine of this home refuses a session"
        raise SetupError(message, where=str(folder / "log"), action=_RESTART) from error
    return cast(SparkSession, session)


def _timeout_error(folder: Path, limit: float) -> SetupError:
    message = f"The engine of this home does not answer within {limit:.0f} seconds"
    return SetupError(message, where=str(folder / "log"), action=_RESTART)
