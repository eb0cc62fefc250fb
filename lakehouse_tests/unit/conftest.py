"""Each of these tests starts without a Spark session, and some in a new home without the settings of this machine."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse_tests.helpers.tables.azurite import RUNNING, AnyStore
from lakehouse_tests.helpers.tables.store_proxy import StoreProxy, running_proxy

if TYPE_CHECKING:
    from dagster import DagsterInstance


@pytest.fixture(autouse=True)
def _no_session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PySpark stores active sessions for the whole process: the next test would find the stand-in of this one."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED")
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    for name in ("_instantiatedSession", "_activeSession"):
        monkeypatch.setattr(SparkSession, name, None)
    _reset_connect()
    yield
    _reset_connect()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that does not exist yet, in the working directory, and no settings in the environment."""
    kept_variables = ("LAKEHOUSE_JARS", "LAKEHOUSE_DECLARATIONS")
    for name in [name for name in os.environ if name.startswith("LAKEHOUSE_") and name not in kept_variables]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".lakehouse"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a new home; none of them comes from a file."""
    return Settings(home=tmp_path, sync=False, _env_file=None)


@pytest.fixture
def instance() -> "Iterator[DagsterInstance]":
    """A Dagster instance that stores nothing on disk."""
    from dagster import DagsterInstance

    with DagsterInstance.ephemeral() as instance:
        yield instance


def _reset_connect() -> None:
    connect = sys.modules.get("pyspark.sql.connect.session")  # importing it is slow, and needs a client
    if connect:
        connect.SparkSession._default_session = None
        connect.SparkSession._active_session.session = None


@pytest.fixture(scope="module", params=["s3", pytest.param("azure", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest) -> Iterator[AnyStore]:
    """A real object store with one bucket, whose address and keys are set."""
    with RUNNING[request.param]() as store:
        yield store


@pytest.fixture(scope="module")
def proxy(store: AnyStore) -> Iterator[StoreProxy]:
    """A proxy in front of the store, whose address is set instead."""
    with running_proxy(store) as proxy:
        yield proxy
