"""Brokers and a registry that the tests harm, each started once, and a stream to harm."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakehouse.local.servers import EmbeddedBroker, EmbeddedRegistry
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.deleting_streams import DeletingStream
from lakehouse_tests.helpers.attacks.first_records import merge_first_records
from lakehouse_tests.helpers.brokers.brokers import Cluster
from lakehouse_tests.helpers.brokers.servers import OneServer


@pytest.fixture(scope="session")
def fragile_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneServer]:
    """One broker that tests kill, freeze and restart."""
    settings = Settings(home=tmp_path_factory.mktemp("one"), _env_file=None)
    server = OneServer(settings, EmbeddedBroker(settings))
    with server.embedded.run_if_needed():
        yield server


@pytest.fixture(scope="session")
def fragile_registry(broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneServer]:
    """One schema registry next to the shared broker; tests kill, freeze and recreate it."""
    settings = Settings(home=tmp_path_factory.mktemp("registry"), _env_file=None)
    server = OneServer(settings, EmbeddedRegistry(settings))
    with server.embedded.run_if_needed():
        yield server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers; tests kill one at a time."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def stream(spark: SparkSession, broker: Settings) -> DeletingStream:
    """A stream of which some records are merged; a file that harms another stream defines its own."""
    return merge_first_records(DeletingStream.create(spark, broker))
