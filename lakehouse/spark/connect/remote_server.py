"""A session on the Spark Connect server of the settings, or of another session, with the care that an engine gets."""

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
from lakehouse.local.ports import accepts
from lakehouse.settings import Settings
from lakehouse.spark.connect import client
from lakehouse.spark.connect.client import open_session, require_answer

_START = "Start it or correct LAKEHOUSE_SPARK_REMOTE."
_ITS_OWNER = "Start it again, or stop the session that this process has on it."
_REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


def join(settings: Settings, conf: Mapping[str, str]) -> SparkSession:
    """Open a session with these settings on the server of ``LAKEHOUSE_SPARK_REMOTE``.

    Raises ``SetupError`` where none answers in time, or it refuses us. What PySpark says of it is not shown: it may
    hold parameters, and those may be secret.
    """
    remote = settings.remote_address
    if remote is None or not accepts(remote.host.strip("[]"), remote.port):
        raise SetupError("No Spark Connect server answers", where=settings.spark_place, action=_START)
    channel = DefaultChannelBuilder(f"sc://{remote.host}:{remote.port}")
    for name, value in remote.parameters.items():
        channel.set(name, value)
    session = _open(channel)

    def settle() -> None:
        for name, value in conf.items():
            session.conf.set(name, value)

    return _answering(session, settle, settings.spark_place, _START)


def join_beside(running: SparkSession) -> SparkSession:
    """Open another session on the server of one that runs, which may be somebody else's and stays as it is.

    A second call opens another one. Raises ``SetupError`` where the server does not answer in time, or refuses us.
    """
    channel = copy.copy(running.client._builder)
    channel._params = {name: value for name, value in channel._params.items() if name != channel.PARAM_SESSION_ID}
    session = _open(channel)
    return _answering(session, lambda: session.conf.getAll, f"Spark Connect at {running.client.host}", _ITS_OWNER)


def _open(channel: ChannelBuilder) -> ConnectSession:
    return open_session(channel, DefaultPolicy(max_retries=7, initial_backoff=100, max_backoff=10_000))


def _answering(session: ConnectSession, question: Callable[[], object], place: str, start: str) -> SparkSession:
    """The session once its server has answered this question."""
    try:
        require_answer(session, question)
    except TimeoutError:
        fact = f"What listens there does not answer as a Spark Connect server in {client.FIRST_ANSWER:.0f} seconds"
        action = f"See whether it is busy, and whether it speaks TLS (use_ssl=true). {start}"
        raise SetupError(fact, where=place, action=action) from None
    except PySparkException as error:
        raise _explained(place, error, start) from None
    return cast(SparkSession, session)


def _explained(place: str, error: PySparkException, start: str) -> SetupError:
    code = error.getGrpcStatusCode() if isinstance(error, SparkConnectGrpcException) else grpc.StatusCode.UNKNOWN
    if code in _REFUSALS:
        action = "Correct the token in LAKEHOUSE_SPARK_REMOTE." if start == _START else start
        return SetupError("The Spark Connect server refuses us", where=place, action=action)
    fact = f"What listens there is no Spark Connect server that gives us a session: {error.getCondition() or code.name}"
    return SetupError(fact, where=place, action=f"See what its log says. {start}")
