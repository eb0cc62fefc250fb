"""Fixtures for the tests of alerts."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from lakehouse_tests.helpers.alert_world import World
from lakehouse_tests.helpers.receivers import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def world(receiver: Receiver, tmp_path: Path) -> Iterator[World]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield World(instance, tmp_path, receiver.url)


@pytest.fixture
def watched(world: World) -> World:
    """A world after the first tick of the sensor."""
    world.tick()
    return world
