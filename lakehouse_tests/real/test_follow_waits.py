"""Follow mode counts only the time in which the broker answers as idle, and ends if waiting cannot help."""

import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lakehouse.cli import following
from lakehouse.cli.following import _Follower
from lakehouse.errors import TopicError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import create_topic, delete_topic
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.brokers.sockets import free_address
from lakehouse_tests.helpers.tables.tables import redeclare

pytestmark = pytest.mark.invariant("12.3")

IDLE_SECONDS = 0.5  # seconds


class OutageContext:
    """The context of follow mode on an empty topic; the broker is unreachable for a while after the first read."""

    def __init__(self, broker: Settings, home: Path, outage_seconds: float = 0.0) -> None:
        self.table = redeclare(temperatures, topic=f"follow-{uuid4().hex[:12]}")
        self.reachable = Settings(home=home, kafka_bootstrap_servers=bootstrap_servers(broker), _env_file=None)
        self.unreachable = self.reachable.model_copy(update={"kafka_bootstrap_servers": free_address()})
        self.outage_seconds = outage_seconds
        self.read_count = 0
        self.outage_end = 0.0
        create_topic(self.reachable, self.table)

    @property
    def settings(self) -> Settings:
        self.read_count += 1
        if self.read_count == 2:
            self.outage_end = time.monotonic() + self.outage_seconds
        return self.unreachable if self.read_count > 1 and time.monotonic() < self.outage_end else self.reachable


@pytest.mark.parametrize("embedded", [False, True], ids=["a broker elsewhere", "a broker of this home"])
def test_the_time_in_which_the_broker_is_unreachable_is_not_idle(
    broker: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    embedded: bool,
) -> None:
    monkeypatch.setattr(following, "_POLL", 0.05)
    context: Any = OutageContext(broker, tmp_path, outage_seconds=4 * IDLE_SECONDS)
    if embedded:
        context.unreachable = context.reachable.model_copy(update={"kafka_bootstrap_servers": None})
    _Follower(context, None).follow(IDLE_SECONDS)
    output = capfd.readouterr().err
    assert "Waiting until it answers" in output
    assert ("nothing restarts it" in output) is embedded
    assert "answers again" in output


def test_follow_ends_if_the_topic_is_deleted(broker: Settings, tmp_path: Path) -> None:
    context: Any = OutageContext(broker, tmp_path)

    class Follower(_Follower):
        def _merge(self) -> None:
            delete_topic(context.reachable, context.table.topic)
            super()._merge()

    with pytest.raises(TopicError, match="does not exist"):
        Follower(context, None).follow(30.0)
