"""Each of these tests starts without a Spark session, whatever ran in this process before, and leaves none active."""

import sys
from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def _no_session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PySpark keeps what is active for the whole process: a stand-in of one test would be found by the next."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED")
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    for name in ("_instantiatedSession", "_activeSession"):
        monkeypatch.setattr(SparkSession, name, None)
    _forget_connect()
    yield
    _forget_connect()


def _forget_connect() -> None:
    connect = sys.modules.get("pyspark.sql.connect.session")  # its import is slow, and needs a client
    if connect:
        connect.SparkSession._default_session = None
        connect.SparkSession._active_session.session = None
