"""Which Spark a session uses: the server of the settings, the engine of the home or a new one."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.errors import SetupError
from lakehouse.settings import Settings
from lakehouse.spark import connect, engine, sessions
from lakehouse.spark.connect import attach
from lakehouse.spark.engine import EngineProcess, share_lock
from lakehouse_tests.unit.storage.test_writer_note import living


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "engine").mkdir()
    return Settings(home=tmp_path, _env_file=None)


@pytest.fixture(autouse=True)
def fake_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace each kind of session with its name."""
    monkeypatch.setattr(sessions, "_SHARED_LOCKS", {})
    monkeypatch.setattr(sessions, "find_java", lambda: None)
    monkeypatch.setattr(sessions, "ensure_jars", lambda *_: [])
    monkeypatch.setattr(connect, "join", lambda *_: "remote")
    started_session = SimpleNamespace(sparkContext="own", newSession=lambda: "own")
    monkeypatch.setattr(sessions, "start_spark", lambda *_: started_session)
    monkeypatch.setattr(sessions, "running_session", lambda: None)
    monkeypatch.setattr(sessions, "make_exact", lambda *_: None)
    monkeypatch.setattr(sessions, "activate", lambda *_: None)
    monkeypatch.setattr(sessions, "is_classic", lambda *_: False)
    monkeypatch.setattr(sessions, "_USERS", {})
    monkeypatch.setattr(connect, "attach", lambda *_: "engine")


def build(settings: Settings) -> Any:
    return sessions.build_session(settings)


def test_the_server_of_the_settings_has_priority_over_the_engine_and_the_engine_over_a_new_spark(
    settings: Settings,
) -> None:
    remote = settings.model_copy(update={"spark_remote": "sc://127.0.0.1:1"})
    with living(settings.home / "engine"):
        chosen_sessions = [build(remote), build(settings)]
    chosen_sessions.append(build(settings))
    assert chosen_sessions == ["remote", "engine", "own"]


def test_if_an_engine_ends_during_the_wait_the_choice_is_made_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with living(settings.home / "engine"):
        answers = iter([None, "engine"])
        monkeypatch.setattr(connect, "attach", lambda *_: next(answers))
        assert build(settings) == "engine"
        assert share_lock(settings) is None


def test_no_engine_can_start_while_a_process_has_its_own_spark(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "find_java", lambda: None)
    assert build(settings) == "own"
    with pytest.raises(SetupError, match="is using a Spark of its own"):
        EngineProcess(settings, {}, "").start(patience=0)


def test_another_memory_master_jar_or_package_gives_another_fingerprint(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprints = {sessions.fingerprint(settings)}
    fingerprints.add(sessions.fingerprint(settings))
    assert len(fingerprints) == 1
    fingerprints.add(sessions.fingerprint(settings.model_copy(update={"spark_driver_memory": "3g"})))
    fingerprints.add(sessions.fingerprint(settings.model_copy(update={"spark_master": "local[3]"})))
    monkeypatch.setattr(sessions, "required_jars", lambda _: [SimpleNamespace(group="spark", path=Path("delta-9.jar"))])
    fingerprints.add(sessions.fingerprint(settings))
    monkeypatch.setattr(sessions, "spark_version", "9.0")
    fingerprints.add(sessions.fingerprint(settings))
    assert len(fingerprints) == 5


def test_the_name_of_the_python_executable_does_not_change_the_fingerprint(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprints = {sessions.fingerprint(settings)}
    monkeypatch.setattr(sys, "executable", f"{sys.executable}-by-another-name")
    fingerprints.add(sessions.fingerprint(settings))
    assert len(fingerprints) == 1
    monkeypatch.setattr(sys, "prefix", "/another")
    assert sessions.fingerprint(settings) not in fingerprints


@pytest.mark.parametrize("name", ["SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"])
def test_the_environment_variables_of_spark_change_the_fingerprint(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(name, raising=False)
    before = sessions.fingerprint(settings)
    monkeypatch.setenv(name, "/another")
    assert sessions.fingerprint(settings) != before


@pytest.mark.parametrize(("name", "folder"), [("SPARK_CONF_DIR", ""), ("SPARK_HOME", "conf")])
def test_the_defaults_of_spark_change_the_fingerprint(
    name: str, folder: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv(name, str(tmp_path))
    defaults = tmp_path / folder / "spark-defaults.conf"
    defaults.parent.mkdir(exist_ok=True)
    fingerprints = {sessions.fingerprint(settings)}
    for text in ("spark.eventLog.enabled false", "spark.eventLog.enabled true"):
        defaults.write_text(text)
        fingerprints.add(sessions.fingerprint(settings))
    assert len(fingerprints) == 3


def test_an_engine_with_another_fingerprint_is_refused_with_advice(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = settings.home / "engine"
    (folder / "address").write_text('{"port": 1, "pid": 1, "fingerprint": "former", "start": "s"}')
    monkeypatch.setattr(connect, "open_channel", lambda *_: object())
    with living(folder), pytest.raises(SetupError, match="other packages, jars or settings .*Start lakehouse up again"):
        attach(folder, "todays")


def test_an_engine_that_does_not_answer_is_an_error(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_LIMIT", 0.2)
    with (
        living(settings.home / "engine"),
        pytest.raises(SetupError, match="does not answer .*Start lakehouse up again"),
    ):
        attach(settings.home / "engine", "todays")
