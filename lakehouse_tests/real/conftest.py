"""Fixtures for the tests of sensors and checks: one table in Dagster."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.kafka import create_topic
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.sensors import World


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """A Dagster instance that stores nothing on disk."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def world(broker: Settings, tmp_path: Path, instance: dg.DagsterInstance) -> World:
    """A table with its own topic and table folder."""
    world = World(Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker)), instance)
    create_topic(world.settings, world.table)
    return world
