"""The engine as a service of ``up``. A program that ends at once stands for the server."""

import os
from pathlib import Path

import pytest

from lakehouse import spark
from lakehouse.cli.keeper import EngineKeeper
from lakehouse.errors import SetupError
from lakehouse.local import engine
from lakehouse.local.engine import engine_folder, lives, share_lock
from lakehouse.settings import Settings
from lakehouse_tests.helpers.waiting import wait_until
from lakehouse_tests.unit.delta.test_writer import living


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]) -> EngineKeeper:
    monkeypatch.setattr(engine, "_SERVER", "lakehouse_tests.helpers.ending_engine")
    monkeypatch.setattr(engine, "find_java", lambda: None)
    monkeypatch.setattr(spark, "engine_conf", lambda _: {})
    return EngineKeeper(Settings(home=tmp_path / "home", _env_file=None), told.append)


def ended(kept: EngineKeeper) -> bool:
    kept.look()
    return kept.exit_code is not None


def test_an_engine_that_ends_is_started_again_so_often_and_then_no_more(kept: EngineKeeper, told: list[str]) -> None:
    kept.start()
    try:
        assert wait_until(lambda: ended(kept), 30)
    finally:
        kept.stop()
    assert kept.exit_code == 3
    again = [line for line in told if "started again" in line]
    assert again == [f"ended with code 3; started again, {n} of 5 times in an hour" for n in range(1, 6)]


def test_it_is_started_again_when_the_command_has_ended_that_uses_a_spark_of_its_own(
    kept: EngineKeeper, told: list[str], tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path / "home", _env_file=None)
    kept.start()
    try:
        assert wait_until(lambda: not lives(engine_folder(settings)))
        own = share_lock(settings)
        for _ in range(20):
            assert not ended(kept)
        assert sum("is using a Spark of its own" in line for line in told) == 1
        assert own is not None
        os.close(own)
        assert wait_until(lambda: ended(kept), 30)
    finally:
        kept.stop()
    assert any("started again, 1 of 5" in line for line in told)


def test_it_waits_to_be_started_until_the_command_has_ended_that_uses_a_spark_of_its_own(
    kept: EngineKeeper, told: list[str], tmp_path: Path
) -> None:
    own = share_lock(Settings(home=tmp_path / "home", _env_file=None))
    assert own is not None
    kept.start()
    try:
        for _ in range(3):
            assert not ended(kept)
        assert sum("is using a Spark of its own" in line for line in told) == 1
        os.close(own)
        assert wait_until(lambda: ended(kept), 30)
    finally:
        kept.stop()
    assert any("started again, 1 of 5" in line for line in told), "the first start is none that was made good"


def test_another_engine_of_the_home_is_an_error_at_once(kept: EngineKeeper, tmp_path: Path) -> None:
    folder = engine_folder(Settings(home=tmp_path / "home", _env_file=None))
    folder.mkdir(parents=True)
    with living(folder), pytest.raises(SetupError, match="Another engine of this home runs"):
        kept.start()
