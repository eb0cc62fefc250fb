"""Brokers and a registry of the tests' own, which they harm: started once, where a test asks for them."""

from collections.abc import Iterator

import pytest

from lakehouse.local.broker import EmbeddedBroker
from lakehouse.local.registry import EmbeddedRegistry
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.brokers import Cluster
from lakehouse_tests.helpers.brokers.servers import OneServer


@pytest.fixture(scope="session")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneServer]:
    """One broker, which is killed, frozen and restarted."""
    settings = Settings(home=tmp_path_factory.mktemp("one"), _env_file=None)
    one = OneServer(settings, EmbeddedBroker(settings))
    with one.embedded.running():
        yield one


@pytest.fixture(scope="session")
def one_registry(broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneServer]:
    """One schema registry beside the broker of all tests, which is killed, frozen and made anew."""
    own = Settings(home=tmp_path_factory.mktemp("registry"), _env_file=None)
    one = OneServer(own, EmbeddedRegistry(own))
    with one.embedded.running():
        yield one


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers, of which one at a time is killed."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
