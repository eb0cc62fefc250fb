"""The engine for several runs of one command."""

import os
from pathlib import Path

import pytest

from lakehouse.cli.table_session import warm
from lakehouse.errors import SetupError
from lakehouse.settings import Settings
from lakehouse.spark import engine, sessions
from lakehouse.spark.engine import engine_folder, lives, share_lock
from lakehouse_tests.helpers.waiting import wait_until


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(engine, "_SERVER", "lakehouse_tests.helpers.attacks.sleeping_engine")
    monkeypatch.setattr(engine, "find_java", lambda: None)
    monkeypatch.setattr(sessions, "engine_conf", lambda _: {})
    return Settings(home=tmp_path / "home", _env_file=None)


def test_it_is_there_meanwhile_and_stopped_afterwards(settings: Settings) -> None:
    with warm(settings):
        assert lives(engine_folder(settings))
    assert wait_until(lambda: not lives(engine_folder(settings)), 5)


def test_where_it_cannot_be_had_the_runs_go_on_without_it(settings: Settings) -> None:
    own = share_lock(settings)
    assert own is not None
    ran = []
    with warm(settings):
        ran.append(not lives(engine_folder(settings)))
    os.close(own)
    assert ran == [True]


def test_an_error_of_what_is_run_with_it_is_no_reason_to_go_on(settings: Settings) -> None:
    with pytest.raises(SetupError, match="of the run"), warm(settings):
        raise SetupError("of the run")
    assert wait_until(lambda: not lives(engine_folder(settings)), 5)
