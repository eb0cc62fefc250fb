"""The engine as a service of ``up``, and for several runs of one command. Other programs replace the server."""

import os
from pathlib import Path

import pytest

from lakehouse.cli import keeper
from lakehouse.cli.keeper import EngineKeeper
from lakehouse.cli.table_session import warm_engine
from lakehouse.errors import SetupError
from lakehouse.settings import Settings
from lakehouse.spark import engine, sessions
from lakehouse.spark.engine import engine_folder, is_engine_running, share_lock
from lakehouse_tests.helpers.waiting import wait_until
from lakehouse_tests.unit.storage.test_writer_note import living


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def engine_keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[str]) -> EngineKeeper:
    monkeypatch.setattr(engine, "_SERVER", "lakehouse_tests.helpers.attacks.ending_engine")
    monkeypatch.setattr(engine, "find_java", lambda: None)
    monkeypatch.setattr(sessions, "engine_conf", lambda _: {})
    return EngineKeeper(Settings(home=tmp_path / "home", _env_file=None), log.append)


def poll_for(text: str, engine_keeper: EngineKeeper, log: list[str]) -> bool:
    """Poll the keeper; return whether a line of its log contains the text."""
    engine_keeper.poll()
    return any(text in line for line in log)


def test_an_engine_that_ends_is_restarted_up_to_a_limit_and_then_not_for_a_while(
    engine_keeper: EngineKeeper, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_keeper.start()
    try:
        assert wait_until(lambda: poll_for("not restarted for some time", engine_keeper, log), 60)
        restart_lines = [line for line in log if "restarting" in line]
        advice = "its memory was full: raise LAKEHOUSE_SPARK_DRIVER_MEMORY"
        assert restart_lines == [
            f"ended with code 3 ({advice}), number {n} within an hour; restarting" for n in range(1, 6)
        ]
        for _ in range(3):
            engine_keeper.poll()
        assert sum("not restarted for some time" in line for line in log) == 1
        assert engine_keeper.exit_code is None, "up continues without it"
        log.clear()
        monkeypatch.setattr(keeper, "_RESTART_SECONDS", 0.0)
        assert wait_until(lambda: poll_for("restarting", engine_keeper, log), 30)
    finally:
        engine_keeper.stop()


def test_the_engine_restarts_after_a_command_with_its_own_spark_has_ended(
    engine_keeper: EngineKeeper, log: list[str], tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path / "home", _env_file=None)
    engine_keeper.start()
    try:
        assert wait_until(lambda: not is_engine_running(engine_folder(settings)))
        lock = share_lock(settings)
        for _ in range(10):
            engine_keeper.poll()
        assert sum("is using a Spark of its own" in line for line in log) == 1
        assert lock is not None
        os.close(lock)
        assert wait_until(lambda: poll_for("number 2 within an hour", engine_keeper, log), 30)
    finally:
        engine_keeper.stop()


def test_the_engine_starts_after_a_command_with_its_own_spark_has_ended(
    engine_keeper: EngineKeeper, log: list[str], tmp_path: Path
) -> None:
    lock = share_lock(Settings(home=tmp_path / "home", _env_file=None))
    assert lock is not None
    engine_keeper.start()
    try:
        for _ in range(3):
            engine_keeper.poll()
        assert [line for line in log if "is using a Spark of its own" not in line] == []
        assert len(log) == 1
        os.close(lock)
        assert wait_until(lambda: poll_for("number 1 within an hour", engine_keeper, log), 30)
    finally:
        engine_keeper.stop()


def test_the_engine_starts_after_another_engine_of_the_home_has_ended(
    engine_keeper: EngineKeeper, log: list[str], tmp_path: Path
) -> None:
    folder = engine_folder(Settings(home=tmp_path / "home", _env_file=None))
    folder.mkdir(parents=True)
    try:
        with living(folder):
            engine_keeper.start()
            engine_keeper.poll()
            assert log == ["not started yet: Another engine of this home runs. It starts when that has ended."]
        assert wait_until(lambda: poll_for("number 1 within an hour", engine_keeper, log), 30)
    finally:
        engine_keeper.stop()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(engine, "_SERVER", "lakehouse_tests.helpers.attacks.sleeping_engine")
    monkeypatch.setattr(engine, "find_java", lambda: None)
    monkeypatch.setattr(sessions, "engine_conf", lambda _: {})
    return Settings(home=tmp_path / "home", _env_file=None)


def test_the_engine_runs_meanwhile_and_is_stopped_afterwards(settings: Settings) -> None:
    with warm_engine(settings):
        assert is_engine_running(engine_folder(settings))
    assert wait_until(lambda: not is_engine_running(engine_folder(settings)), 5)


def test_runs_continue_without_an_engine_that_cannot_start(settings: Settings) -> None:
    lock = share_lock(settings)
    assert lock is not None
    states = []
    with warm_engine(settings):
        states.append(not is_engine_running(engine_folder(settings)))
    os.close(lock)
    assert states == [True]


def test_an_error_of_a_run_is_raised(settings: Settings) -> None:
    with pytest.raises(SetupError, match="of the run"), warm_engine(settings):
        raise SetupError("of the run")
    assert wait_until(lambda: not is_engine_running(engine_folder(settings)), 5)
