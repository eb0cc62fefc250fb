"""One table as Dagster sees it, for the tests of its sensor and checks."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.kafka import create_topic
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse_tests.helpers.sensors import World


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance of Dagster that keeps nothing."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def world(broker: Settings, tmp_path: Path, instance: dg.DagsterInstance) -> World:
    """A table with a topic and tables of its own."""
    made = World(Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker)), instance)
    create_topic(made.settings, made.table)
    return made
