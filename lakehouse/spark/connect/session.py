"""Sessions on a server of Spark Connect: the engine of a home, the server of the settings, or another session's."""

import copy
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import grpc
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import ChannelBuilder, DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession as ConnectSession

from lakehouse.errors import SetupError
from lakehouse.local.ports import accepts_connection
from lakehouse.settings import Settings
from lakehouse.settings.addresses import LOOPBACK
from lakehouse.spark.connect import client
from lakehouse.spark.connect.client import open_session, require_answer
from lakehouse.spark.engine import Address, is_engine_running, read_address, read_token

_USER = "lakehouse"  # the same for all clients: the session id alone identifies a session
_LIMIT = 90.0  # seconds to wait for an engine that starts
_POLL = 0.1
_RESTART = "Start lakehouse up again."
_CORRECT_SETTING = "Start the server or correct LAKEHOUSE_SPARK_REMOTE."
_RESTART_SERVER = "Start the server again, or stop the session that this process has on it."
_REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


class EngineChannel(ChannelBuilder):
    """The connection of a client to an engine. It uses 127.0.0.1, so that no other program receives the token.

    PySpark itself sends a token without TLS only to ``localhost``, which may resolve to another address.
    """

    def __init__(self, address: Address, token: str, session: str | None = None) -> None:
        params = {self.PARAM_USER_ID: _USER} | ({self.PARAM_SESSION_ID: session} if session else {})
        super().__init__(params=params)
        self._port = address.port
        self._credentials = grpc.composite_channel_credentials(
            grpc.local_channel_credentials(), grpc.access_token_call_credentials(token)
        )

    @property
    def host(self) -> str:
        """The address that PySpark shows."""
        return LOOPBACK

    def toChannel(self) -> grpc.Channel:  # noqa: N802 - PySpark's name
        """Open the connection."""
        return self._secure_channel(f"{LOOPBACK}:{self._port}", self._credentials)


def open_channel(folder: Path, session: str | None = None) -> EngineChannel | None:
    """Return the connection to the engine of this folder; ``None`` if nothing listens there (yet).

    Raises ``SetupError`` if another user owns the engine.
    """
    address = read_address(folder)
    if address is None or not accepts_connection(LOOPBACK, address.port):
        return None
    return EngineChannel(address, read_token(folder), session)


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


def join(settings: Settings, conf: Mapping[str, str]) -> SparkSession:
    """Open a session with these settings on the server of ``LAKEHOUSE_SPARK_REMOTE``.

    Raises ``SetupError`` if no server answers in time, or it refuses the session. PySpark's message is not shown: it
    may contain parameters, which may be secret.
    """
    remote = settings.remote_address
    if remote is None or not accepts_connection(remote.host.strip("[]"), remote.port):
        raise SetupError("No Spark Connect server answers", where=settings.spark_place, action=_CORRECT_SETTING)
    channel = DefaultChannelBuilder(f"sc://{remote.host}:{remote.port}")
    for name, value in remote.parameters.items():
        channel.set(name, value)
    session = _open_session(channel)

    def set_conf() -> None:
        for name, value in conf.items():
            session.conf.set(name, value)

    return _require_session(session, set_conf, settings.spark_place, _CORRECT_SETTING)


def join_same_server(running_session: SparkSession) -> SparkSession:
    """Open another session on the server of a running one, which may belong to other code and stays unchanged.

    Each call opens a new session. Raises ``SetupError`` if the server does not answer in time, or refuses the session.
    """
    channel = copy.copy(running_session.client._builder)
    channel._params = {name: value for name, value in channel._params.items() if name != channel.PARAM_SESSION_ID}
    session = _open_session(channel)
    return _require_session(
        session, lambda: session.conf.getAll, f"Spark Connect at {running_session.client.host}", _RESTART_SERVER
    )


def _open_session(channel: ChannelBuilder) -> ConnectSession:
    return open_session(channel, DefaultPolicy(max_retries=7, initial_backoff=100, max_backoff=10_000))


def _require_session(
    session: ConnectSession, first_request: Callable[[], object], place: str, advice: str
) -> SparkSession:
    """Return the session once its server has answered the first request."""
    try:
        require_answer(session, first_request)
    except TimeoutError:
        message = f"The server does not answer as a Spark Connect server within {client.FIRST_ANSWER:.0f} seconds"
        action = f"Check whether it is busy, and whether it needs TLS (use_ssl=true). {advice}"
        raise SetupError(message, where=place, action=action) from None
    except PySparkException as error:
        raise _setup_error(place, error, advice) from None
    return cast(SparkSession, session)


def _setup_error(place: str, error: PySparkException, advice: str) -> SetupError:
    code = error.getGrpcStatusCode() if isinstance(error, SparkConnectGrpcException) else grpc.StatusCode.UNKNOWN
    if code in _REFUSALS:
        action = "Correct the token in LAKEHOUSE_SPARK_REMOTE." if advice == _CORRECT_SETTING else advice
        return SetupError("The Spark Connect server refuses access", where=place, action=action)
    message = f"The server does not open a Spark Connect session: {error.getCondition() or code.name}"
    return SetupError(message, where=place, action=f"Check its log. {advice}")
