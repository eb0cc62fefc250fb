"""When a sensor rests, and which edits end the rest of a code server."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from dagster._core.remote_origin import RemoteInstigatorOrigin
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, InstigatorType, SensorInstigatorData

from lakehouse.defs import daemon
from lakehouse.defs.build import build_defs
from lakehouse.defs.waiting import SensorCursor
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka.watch import WATCHED, TopicWatch
from lakehouse_tests.helpers.code_locations import repository_of

NOW = time.time()


class SeeingWatch(TopicWatch):
    """A watch that has just looked, and saw when each topic grew."""

    def __init__(self, growth: Mapping[str, float]) -> None:
        super().__init__()
        self._changed_at, self._looked_at = {**growth}, time.time()


def state_after(age: float, *, is_idle: bool = True, has_succeeded: bool = True) -> InstigatorState:
    """The state of a sensor whose last tick was this many seconds ago."""
    data = SensorInstigatorData(
        cursor=SensorCursor(is_idle=is_idle).text,
        last_tick_start_timestamp=time.time() - age,
        last_tick_success_timestamp=time.time() if has_succeeded else None,
    )
    origin = RemoteInstigatorOrigin(repository_of("here"), "prices_sensor")
    return InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, data)


def test_an_idle_sensor_rests_until_its_topic_grows() -> None:
    watch = SeeingWatch({"prices": time.time() - 60, "orders": time.time()})
    assert daemon.is_at_rest(watch, state_after(10), ["prices"])
    assert not daemon.is_at_rest(watch, state_after(10), ["orders"])
    assert not daemon.is_at_rest(watch, state_after(10), ["prices", "orders"])


def test_a_topic_that_was_never_watched_may_have_grown() -> None:
    watch = SeeingWatch({})
    assert not daemon.is_at_rest(watch, state_after(0.1), ["prices"])
    assert "prices" in watch._changed_at


@pytest.mark.parametrize(
    "state",
    [state_after(31), state_after(10, is_idle=False), state_after(10, has_succeeded=False)],
    ids=["half a minute", "something to do", "failed"],
)
def test_a_sensor_does_not_rest(state: InstigatorState) -> None:
    assert not daemon.is_at_rest(SeeingWatch({"prices": NOW - 60}), state, ["prices"])


def test_no_sensor_rests_while_the_broker_does_not_answer() -> None:
    assert not daemon.is_at_rest(TopicWatch(), state_after(10), ["prices"])


def test_a_cursor_of_a_tick_that_saw_no_topic_is_not_idle() -> None:
    assert not SensorCursor(is_idle=True).without_sight(NOW).is_idle


def test_the_sensor_of_a_table_names_its_topics() -> None:
    sensor = build_defs([temperatures]).resolve_sensor_def("temperatures_sensor")
    assert sensor.metadata[WATCHED].value == temperatures.topic


def test_edits_of_the_project_are_seen_and_others_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))
    declaration = tmp_path / "tables" / "prices.py"
    for file in (declaration, tmp_path / "home" / "a.py", tmp_path / ".venv" / "b.py", tmp_path / "notes.txt"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    edits = {*daemon._edits()}
    for file in (tmp_path / "home" / "a.py", tmp_path / ".venv" / "b.py", tmp_path / "notes.txt"):
        os.utime(file, (1, 1))
    assert {*daemon._edits()} == edits
    os.utime(declaration, (1, 1))
    assert {*daemon._edits()} != edits


def test_a_wrong_setting_does_not_end_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))
    assert daemon._read_edits() is not None
    monkeypatch.setenv("LAKEHOUSE_SPARK_DRIVER_MEMORY", "lots")
    assert daemon._read_edits() is None
