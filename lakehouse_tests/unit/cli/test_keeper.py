"""The engine as a service of ``up``. A program that ends at once stands for the server."""

import os
from pathlib import Path

import pytest

from lakehouse.cli import keeper
from lakehouse.cli.keeper import EngineKeeper
from lakehouse.settings import Settings
from lakehouse.spark import engine, sessions
from lakehouse.spark.engine import engine_folder, lives, share_lock
from lakehouse_tests.helpers.waiting import wait_until
from lakehouse_tests.unit.storage.test_writer_note import living


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]) -> EngineKeeper:
    monkeypatch.setattr(engine, "_SERVER", "lakehouse_tests.helpers.attacks.ending_engine")
    monkeypatch.setattr(engine, "find_java", lambda: None)
    monkeypatch.setattr(sessions, "engine_conf", lambda _: {})
    return EngineKeeper(Settings(home=tmp_path / "home", _env_file=None), told.append)


def looked(kept: EngineKeeper, told: list[str], what: str) -> bool:
    """Look, and see whether it has told so."""
    kept.look()
    return any(what in line for line in told)


def test_an_engine_that_ends_is_started_again_so_often_and_then_left_alone_for_a_while(
    kept: EngineKeeper, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.start()
    try:
        assert wait_until(lambda: looked(kept, told, "left alone"), 60)
        again = [line for line in told if "started again" in line]
        full = "its memory was full: raise LAKEHOUSE_SPARK_DRIVER_MEMORY"
        assert again == [
            f"ended with code 3 ({full}), number {n} within an hour; it is started again" for n in range(1, 6)
        ]
        for _ in range(3):
            kept.look()
        assert sum("left alone" in line for line in told) == 1
        assert kept.exit_code is None, "the stack goes on without it"
        told.clear()
        monkeypatch.setattr(keeper, "_SPAN", 0.0)
        assert wait_until(lambda: looked(kept, told, "started again"), 30)
    finally:
        kept.stop()


def test_it_is_started_again_when_the_command_has_ended_that_uses_a_spark_of_its_own(
    kept: EngineKeeper, told: list[str], tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path / "home", _env_file=None)
    kept.start()
    try:
        assert wait_until(lambda: not lives(engine_folder(settings)))
        own = share_lock(settings)
        for _ in range(10):
            kept.look()
        assert sum("is using a Spark of its own" in line for line in told) == 1
        assert own is not None
        os.close(own)
        assert wait_until(lambda: looked(kept, told, "number 2 within an hour"), 30)
    finally:
        kept.stop()


def test_it_waits_to_be_started_until_the_command_has_ended_that_uses_a_spark_of_its_own(
    kept: EngineKeeper, told: list[str], tmp_path: Path
) -> None:
    own = share_lock(Settings(home=tmp_path / "home", _env_file=None))
    assert own is not None
    kept.start()
    try:
        for _ in range(3):
            kept.look()
        assert [line for line in told if "is using a Spark of its own" not in line] == []
        assert len(told) == 1
        os.close(own)
        assert wait_until(lambda: looked(kept, told, "number 1 within an hour"), 30)
    finally:
        kept.stop()


def test_another_engine_of_the_home_as_one_that_is_just_ending_is_waited_for(
    kept: EngineKeeper, told: list[str], tmp_path: Path
) -> None:
    folder = engine_folder(Settings(home=tmp_path / "home", _env_file=None))
    folder.mkdir(parents=True)
    try:
        with living(folder):
            kept.start()
            kept.look()
            assert told == ["not started yet: Another engine of this home runs. It starts when that has ended."]
        assert wait_until(lambda: looked(kept, told, "number 1 within an hour"), 30)
    finally:
        kept.stop()
