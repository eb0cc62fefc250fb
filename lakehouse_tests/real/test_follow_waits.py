"""Follow mode counts as idle only the time in which the broker answered, and ends where waiting cannot help."""

import time
from dataclasses import replace
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
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse_tests.helpers.brokers.sockets import free_address

IDLE = 0.5  # seconds


class Working:
    """What follow works with, on an empty topic; the broker is away between two moments after the first look."""

    def __init__(self, broker: Settings, home: Path, away: float = 0.0) -> None:
        self.table = replace(temperatures, topic=f"follow-{uuid4().hex[:12]}")
        self.there = Settings(home=home, kafka_bootstrap_servers=bootstrap_servers(broker), _env_file=None)
        self.gone = self.there.model_copy(update={"kafka_bootstrap_servers": free_address()})
        self.away = away
        self.looks = 0
        self.back_at = 0.0
        create_topic(self.there, self.table)

    @property
    def settings(self) -> Settings:
        self.looks += 1
        if self.looks == 2:
            self.back_at = time.monotonic() + self.away
        return self.gone if self.looks > 1 and time.monotonic() < self.back_at else self.there


@pytest.mark.parametrize("embedded", [False, True], ids=["a broker elsewhere", "a broker of this home"])
def test_the_time_in_which_the_broker_is_away_is_not_idle(
    broker: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    embedded: bool,
) -> None:
    monkeypatch.setattr(following, "_POLL", 0.05)
    working: Any = Working(broker, tmp_path, away=4 * IDLE)
    if embedded:
        working.gone = working.there.model_copy(update={"kafka_bootstrap_servers": None})
    _Follower(working, None).follow(IDLE)
    told = capfd.readouterr().err
    assert "Waiting until it answers" in told
    assert ("nothing restarts it" in told) is embedded
    assert "answers again" in told


def test_a_topic_that_is_deleted_ends_it(broker: Settings, tmp_path: Path) -> None:
    working: Any = Working(broker, tmp_path)

    class Follower(_Follower):
        def _merge(self) -> None:
            delete_topic(working.there, working.table.topic)
            super()._merge()

    with pytest.raises(TopicError, match="does not exist"):
        Follower(working, None).follow(30.0)
