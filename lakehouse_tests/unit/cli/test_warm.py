"""The engine that several runs of one command share."""

import os
from pathlib import Path

import pytest

from lakehouse.cli.table_session import warm_engine
from lakehouse.errors import SetupError
from lakehouse.settings import Settings
from lakehouse.spark import engine, sessions
from lakehouse.spark.engine import engine_folder, is_engine_running, share_lock
from lakehouse_tests.helpers.waiting import wait_until


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
