"""Brokers of the tests' own, which they harm: started once, where a test asks for them."""

from collections.abc import Iterator

import pytest

from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers import Cluster, OneBroker


@pytest.fixture(scope="session")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneBroker]:
    """One broker, which is killed, frozen and restarted."""
    one = OneBroker(Settings(home=tmp_path_factory.mktemp("one"), _env_file=None))
    one.embedded.start()
    yield one
    one.embedded.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers, of which one at a time is killed."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
