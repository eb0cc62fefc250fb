"""A session on the Spark Connect server that the settings name, with the care that the engine of a home gets."""

from collections.abc import Mapping
from typing import cast

import grpc
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy

from lakehouse.connect import client
from lakehouse.connect.client import open_session, require_answer
from lakehouse.errors import SetupError
from lakehouse.local.ports import accepts
from lakehouse.settings import Settings

_START = "Start it or correct LAKEHOUSE_SPARK_REMOTE."
_REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


def join(settings: Settings, conf: Mapping[str, str]) -> SparkSession:
    """Open a session with these settings on the server of ``LAKEHOUSE_SPARK_REMOTE``.

    Raises ``SetupError`` where none answers in time, or it refuses us. What PySpark says of it is not shown: it may
    hold parameters, and those may be secret.
    """
    remote = settings.remote_address
    if remote is None or not accepts(remote.host.strip("[]"), remote.port):
        raise _refused(settings, "No Spark Connect server answers", _START)
    channel = DefaultChannelBuilder(f"sc://{remote.host}:{remote.port}")
    for name, value in remote.parameters.items():
        channel.set(name, value)
    session = open_session(channel, DefaultPolicy(max_retries=7, initial_backoff=100, max_backoff=10_000))

    def settle() -> None:
        for name, value in conf.items():
            session.conf.set(name, value)

    try:
        require_answer(session, settle)
    except TimeoutError:
        fact = f"What listens there does not answer as a Spark Connect server in {client.FIRST_ANSWER:.0f} seconds"
        raise _refused(
            settings, fact, f"See whether it is busy, and whether it speaks TLS (use_ssl=true). {_START}"
        ) from None
    except PySparkException as error:
        raise _explained(settings, error) from None
    return cast(SparkSession, session)


def _explained(settings: Settings, error: PySparkException) -> SetupError:
    code = error.getGrpcStatusCode() if isinstance(error, SparkConnectGrpcException) else grpc.StatusCode.UNKNOWN
    if code in _REFUSALS:
        return _refused(settings, "The Spark Connect server refuses us", "Correct the token in LAKEHOUSE_SPARK_REMOTE.")
    fact = f"What listens there is no Spark Connect server that gives us a session: {error.getCondition() or code.name}"
    return _refused(settings, fact, f"See what its log says. {_START}")


def _refused(settings: Settings, fact: str, action: str) -> SetupError:
    return SetupError(fact, where=settings.spark_place, action=action)
