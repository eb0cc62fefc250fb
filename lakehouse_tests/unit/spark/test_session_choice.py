"""Which Spark a session is: that of the settings, the engine of the home, one of its own."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.errors import SetupError
from lakehouse.settings import Settings
from lakehouse.spark import connect, engine, sessions
from lakehouse.spark.connect import session
from lakehouse.spark.engine import EngineProcess, share_lock
from lakehouse_tests.unit.storage.test_writer_note import living


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "engine").mkdir()
    return Settings(home=tmp_path, _env_file=None)


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way to a session tells its name instead."""
    monkeypatch.setattr(sessions, "_SHARED", {})
    monkeypatch.setattr(sessions, "find_java", lambda: None)
    monkeypatch.setattr(sessions, "ensure_jars", lambda *_: [])
    monkeypatch.setattr(sessions, "_join", lambda _: "remote")
    started = SimpleNamespace(sparkContext="own", newSession=lambda: "own")
    monkeypatch.setattr(sessions, "start_spark", lambda *_: started)
    monkeypatch.setattr(sessions, "running_session", lambda: None)
    monkeypatch.setattr(sessions, "make_exact", lambda *_: None)
    monkeypatch.setattr(sessions, "activate", lambda *_: None)
    monkeypatch.setattr(sessions, "is_classic", lambda *_: False)
    monkeypatch.setattr(sessions, "_USERS", {})
    monkeypatch.setattr(connect, "attach", lambda *_: "engine")


def build(settings: Settings) -> Any:
    return sessions.build_session(settings)


def test_a_server_of_the_settings_goes_before_the_engine_and_the_engine_before_one_of_its_own(
    settings: Settings,
) -> None:
    remote = settings.model_copy(update={"spark_remote": "sc://127.0.0.1:1"})
    with living(settings.home / "engine"):
        chosen = [build(remote), build(settings)]
    chosen.append(build(settings))
    assert chosen == ["remote", "engine", "own"]


def test_an_engine_that_ends_while_it_is_waited_for_gives_way_to_one_of_its_own(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with living(settings.home / "engine"):
        answers = iter([None, "engine"])
        monkeypatch.setattr(connect, "attach", lambda *_: next(answers))
        assert build(settings) == "engine"
        assert share_lock(settings) is None


def test_as_long_as_a_process_has_a_spark_of_its_own_no_engine_can_start(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "find_java", lambda: None)
    assert build(settings) == "own"
    with pytest.raises(SetupError, match="is using a Spark of its own"):
        EngineProcess(settings, {}, "").start(patience=0)


def test_another_memory_master_or_package_is_another_fingerprint(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {sessions.fingerprint(settings)}
    told.add(sessions.fingerprint(settings))
    assert len(told) == 1
    told.add(sessions.fingerprint(settings.model_copy(update={"spark_driver_memory": "3g"})))
    told.add(sessions.fingerprint(settings.model_copy(update={"spark_master": "local[3]"})))
    monkeypatch.setattr(sessions, "wanted_jars", lambda _: [SimpleNamespace(group="spark", path=Path("delta-9.jar"))])
    told.add(sessions.fingerprint(settings))
    monkeypatch.setattr(sessions, "spark_version", "9.0")
    told.add(sessions.fingerprint(settings))
    assert len(told) == 5


def test_python_and_python3_of_one_environment_are_the_same(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {sessions.fingerprint(settings)}
    monkeypatch.setattr(sys, "executable", f"{sys.executable}-by-another-name")
    told.add(sessions.fingerprint(settings))
    assert len(told) == 1
    monkeypatch.setattr(sys, "prefix", "/another")
    assert sessions.fingerprint(settings) not in told


@pytest.mark.parametrize("name", ["SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"])
def test_what_the_environment_says_of_spark_is_in_the_fingerprint(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(name, raising=False)
    before = sessions.fingerprint(settings)
    monkeypatch.setenv(name, "/another")
    assert sessions.fingerprint(settings) != before


@pytest.mark.parametrize(("name", "folder"), [("SPARK_CONF_DIR", ""), ("SPARK_HOME", "conf")])
def test_the_defaults_of_spark_are_in_the_fingerprint(
    name: str, folder: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv(name, str(tmp_path))
    defaults = tmp_path / folder / "spark-defaults.conf"
    defaults.parent.mkdir(exist_ok=True)
    told = {sessions.fingerprint(settings)}
    for text in ("spark.eventLog.enabled false", "spark.eventLog.enabled true"):
        defaults.write_text(text)
        told.add(sessions.fingerprint(settings))
    assert len(told) == 3


def test_an_engine_of_another_fingerprint_is_refused_with_the_way_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = settings.home / "engine"
    (folder / "address").write_text('{"port": 1, "pid": 1, "fingerprint": "former", "start": "s"}')
    monkeypatch.setattr(session, "open_channel", lambda *_: object())
    with living(folder), pytest.raises(SetupError, match="other packages, jars or settings .*Start lakehouse up again"):
        session.attach(folder, "todays")


def test_an_engine_that_does_not_answer_is_an_error_and_no_reason_for_a_spark_of_its_own(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_LIMIT", 0.2)
    with (
        living(settings.home / "engine"),
        pytest.raises(SetupError, match="does not answer .*Start lakehouse up again"),
    ):
        session.attach(settings.home / "engine", "todays")
