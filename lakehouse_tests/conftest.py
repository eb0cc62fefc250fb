"""Fixtures of all tests: a real broker and a Spark session, each started once."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from uuid import uuid4

import hypothesis
import pytest
from pyspark.sql import SparkSession

import lakehouse.query.connections
import lakehouse.spark.own_session
from lakehouse.declaration import StreamTable
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import create_topic
from lakehouse.local.servers import running_broker, running_registry
from lakehouse.settings import Settings
from lakehouse.spark.sessions import build_session, stop_session
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.brokers import Interference
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.databases.postgres import Postgres, program, running_postgres
from lakehouse_tests.helpers.engines import running_engine
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.log_tables import log_table
from lakehouse_tests.helpers.tables.tables import redeclare

# The imports and the collected tests are objects that live until the end. With Python's own thresholds, it searches for
# garbage among them again and again.
gc.set_threshold(50_000, 20, 20)

# Dagster leaves the connection of an instance in memory to the collector, and SQLAlchemy logs an error with it. If that
# happens while a source is parsed, the text of the error parses too, and Python 3.11 raises a SystemError.
logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)

hypothesis.settings.register_profile("without a clock", deadline=None)
hypothesis.settings.load_profile("without a clock")

# The default declaration of the tests; tests of the examples that need a schema registry set another.
DECLARATIONS = "LAKEHOUSE_DECLARATIONS"
os.environ[DECLARATIONS] = "lakehouse.examples.tables.temperatures"

SPARK_REMOTE = "TESTS_SPARK_REMOTE"  # URL of a Spark Connect server: run the same tests on it
ENGINE = "TESTS_ENGINE"  # if set, run the same tests on an engine in their home
PLANS = "TESTS_PLANS"  # a limit in spark.own_session; if named here, it becomes -1 and Spark writes everything
TABLES = "TESTS_TABLES"  # a root in an object store: run the same tests on tables there
# Tests start many short Java processes: full compilation and parallel garbage collection cost more than they save.
# Without Hadoop's own library, each commit of Spark starts some twenty processes, which VFORK does in half the time.
SHORT_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:MetaspaceSize=256m"
    " -Djdk.lang.Process.launchMechanism=VFORK"
)
# Spark's sizes are for large data: by default each sort and each aggregate takes a page of 32 MB, each stage blocks of
# 4 MB, and what the UI would show of a thousand statements fills the heap.
SMALL_SPARK = {
    "spark.buffer.pageSize": "1m",
    "spark.broadcast.blockSize": "64k",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
}
# A generated class serves many rows; for few, Spark interprets expressions in five sixths of the time. Spark promises
# the same rows. Tests at full scale, and the slow ones with them, run generated classes.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def pytest_collection_finish() -> None:
    """Leave what is loaded by now out of every later search for garbage, and keep no bytecode of modules of tests.

    A test may write a module twice within a second; with the same size, Python would take the bytecode of the first.
    """
    gc.freeze()
    sys.dont_write_bytecode = True


def java_options(tests: Iterable[pytest.Item]) -> str:
    """Return the options of Java for these tests."""
    full_scale = str(ROOT / "lakehouse_tests" / "full")
    conf = SMALL_SPARK if any(str(test.path).startswith(full_scale) for test in tests) else SMALL_SPARK | INTERPRETED
    return " ".join([SHORT_JAVA, *(f"-D{name}={value}" for name, value in conf.items())])


@pytest.fixture(scope="session", autouse=True)
def _ignore_settings_of_this_machine(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        preserved_names = ("LAKEHOUSE_JARS", DECLARATIONS)
        for name in [name for name in os.environ if name.startswith("LAKEHOUSE_") and name not in preserved_names]:
            patch.delenv(name)
        patch.setenv("LAKEHOUSE_REVIEWED", "true")  # most tests are about what follows an accepted declaration
        patch.setenv("JAVA_TOOL_OPTIONS", os.environ.get("JAVA_TOOL_OPTIONS", java_options(request.session.items)))
        if os.environ.get(PLANS):
            patch.setattr(lakehouse.spark.own_session, os.environ[PLANS], -1)
        with by_spark(PLANS in os.environ):
            yield


@pytest.fixture(scope="session", autouse=True)
def _trust_extension() -> Iterator[None]:
    """DuckDB hashes the 80 MB of its Delta extension at each connection, for a quarter of a second of CPU.

    Commands in processes of their own still check its signature.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(lakehouse.query.connections._OFFLINE, "allow_unsigned_extensions", "true")
        yield


@pytest.fixture(autouse=True)
def _restore_signal_handlers() -> Iterator[None]:
    """A child process inherits an ignored signal: if a test ignored SIGINT, a later test could not stop its process."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def home(_ignore_settings_of_this_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings with a new state folder and the machine's cache of jars."""
    folder: Path = tmp_path_factory.mktemp("home")
    root = f"{os.environ[TABLES]}/{folder.name}-{uuid4().hex[:8]}" if TABLES in os.environ else None
    return Settings(home=folder, tables=root, spark_master="local[2]", spark_remote=os.environ.get(SPARK_REMOTE))


@pytest.fixture(scope="session")
def broker(home: Settings) -> Iterator[Settings]:
    """Settings of a home with a running embedded broker."""
    with running_broker(home):
        yield home


@pytest.fixture(scope="session")
def registry(broker: Settings) -> Iterator[Settings]:
    """Settings of a home with a running embedded broker and schema registry."""
    with running_registry(broker):
        yield broker


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server; each test uses a database of its own."""
    if program("initdb") is None:
        pytest.skip("PostgreSQL is not installed on this machine")
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def spark(home: Settings) -> Iterator[SparkSession]:
    """The session that all tests share."""
    with running_engine(home) if os.environ.get(ENGINE) else nullcontext():
        session = build_session(home)
        yield session
        stop_session(session)


@pytest.fixture
def table() -> StreamTable:
    """The table temperatures with a topic that no other test uses."""
    return redeclare(temperatures, topic=f"t-{uuid4().hex[:12]}")


@pytest.fixture
def topic(broker: Settings, table: StreamTable) -> str:
    assert create_topic(broker, table)
    return table.topic


@pytest.fixture
def interference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Interference:
    """Runs an action once: between the plan and the read of the next batch, or during the read."""
    return Interference(monkeypatch, tmp_path)


@pytest.fixture
def log_stream(spark: SparkSession, broker: Settings) -> Stream:
    """A log table and its topic."""
    stream = Stream(spark, broker, log_table())
    create_topic(broker, stream.table)
    return stream
