"""A topic for one test."""

from dataclasses import replace
from uuid import uuid4

import pytest

from lakehouse.declaration import StreamTable
from lakehouse.settings import Settings
from lakehouse.tables.temperatures import temperatures
from lakehouse.topic import create_topic


@pytest.fixture
def table() -> StreamTable:
    """The temperatures with a topic that no other test uses."""
    return replace(temperatures, topic=f"t-{uuid4().hex[:12]}")


@pytest.fixture
def topic(broker: Settings, table: StreamTable) -> str:
    assert create_topic(broker, table)
    return table.topic
