"""A session on the Spark Connect server of the settings or of another session, with the same limits as an engine."""

import copy
from collections.abc import Callable, Mapping
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
from lakehouse.spark.connect import client
from lakehouse.spark.connect.client import open_session, require_answer

_CORRECT_SETTING = "Start the server or correct LAKEHOUSE_SPARK_REMOTE."
_RESTART_SERVER = "Start the server again, or stop the session that this process has on it."
_REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


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
    session = _open(channel)

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
    session = _open(channel)
    return _require_session(
        session, lambda: session.conf.getAll, f"Spark Connect at {running_session.client.host}", _RESTART_SERVER
    )


def _open(channel: ChannelBuilder) -> ConnectSession:
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
