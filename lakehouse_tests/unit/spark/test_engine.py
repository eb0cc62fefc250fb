"""The engine of a home: its lock, its files and its process. A program that sleeps stands for the server."""

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.errors import SetupError
from lakehouse.local.process import Child
from lakehouse.settings import Settings
from lakehouse.settings.spark_conf import hidden_text
from lakehouse.spark import engine
from lakehouse.spark.engine import (
    EngineProcess,
    announce,
    conf_of,
    engine_folder,
    lives,
    read_address,
    read_token,
    share_lock,
)
from lakehouse_tests.helpers.processes import ps
from lakehouse_tests.helpers.waiting import wait_until

_SHARE = """
import sys
from lakehouse.spark.engine import share_lock
from lakehouse.settings import Settings
from lakehouse.settings.spark_conf import hidden_text
assert share_lock(Settings(home=sys.argv[1], _env_file=None)) is not None
print(1, flush=True)
input()
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", _env_file=None)


@pytest.fixture
def started(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineProcess]:
    monkeypatch.setattr(engine, "_SERVER", "lakehouse_tests.helpers.attacks.sleeping_engine")
    monkeypatch.setattr(engine, "find_java", lambda: None)
    process = EngineProcess(settings, {"spark.driver.extraJavaOptions": "-Dours=1"}, "fits")
    process.start()
    assert wait_until((engine_folder(settings) / "environment").exists)
    yield process
    process.stop()


def given(settings: Settings) -> dict[str, str]:
    """What the engine's process found in its environment."""
    told: dict[str, str] = json.loads((engine_folder(settings) / "environment").read_text())
    return told


def test_the_lock_is_held_until_the_program_has_ended_and_no_longer(tmp_path: Path) -> None:
    folder = tmp_path
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    child = Child(["sleep", "60"], folder / "log", lock=lock)
    os.close(lock)
    try:
        assert lives(folder)
        assert wait_until(lambda: "sleep" in " ".join(ps("-o", "comm=", "-p", str(child.pid))))
        os.kill(child.pid, signal.SIGKILL)  # the program alone: its guard is still there
        assert wait_until(lambda: not lives(folder), 5)
    finally:
        child.kill()


def test_an_engine_lives_where_its_process_does(started: EngineProcess, settings: Settings) -> None:
    folder = engine_folder(settings)
    address = read_address(folder)
    assert lives(folder)
    assert address and address.fingerprint == "fits"
    os.kill(address.pid, signal.SIGKILL)
    assert wait_until(lambda: not lives(folder) and started.exit_code is not None, 5)
    started.start()
    assert lives(folder)
    started.stop()
    assert wait_until(lambda: not lives(folder), 5)


def test_the_token_is_in_a_file_of_its_owner_and_in_the_environment_and_on_no_command_line(
    started: EngineProcess, settings: Settings
) -> None:
    folder = engine_folder(settings)
    token = read_token(folder)
    assert len(token) > 30
    assert given(settings)["SPARK_CONNECT_AUTHENTICATE_TOKEN"] == token
    assert token not in "\n".join(ps("-axwwo", "args="))
    for name in ("token", "address", "ui", "launch", "lock"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
    told = [file.read_text() for file in folder.iterdir() if file.name not in ("token", "environment")]
    assert not any(token in text for text in told)


def launched(settings: Settings) -> dict[str, str]:
    """The settings of Spark that the engine of this home was given."""
    process = EngineProcess(settings, {"spark.ui.enabled": "false"}, "")
    process.start()
    process.stop()
    return conf_of(engine_folder(settings))


def test_an_engine_of_this_machine_shows_its_work_on_loopback_as_far_as_a_person_lets_it(
    started: EngineProcess, settings: Settings
) -> None:
    started.stop()
    conf = launched(settings)
    assert (conf["spark.ui.enabled"], conf["spark.ui.killEnabled"]) == ("true", "false")
    assert 0 < int(conf["spark.ui.port"]) != int(conf["spark.connect.grpc.binding.port"])
    assert (conf["spark.ui.heapHistogramEnabled"], conf["spark.ui.threadDumpsEnabled"]) == ("false", "false")
    given = '{"spark.ui.enabled": false, "spark.ui.port": 4040}'
    conf = launched(Settings(home=settings.home, spark_conf=given, _env_file=None))
    assert (conf["spark.ui.enabled"], conf["spark.ui.port"]) == ("false", "4040")
    assert conf["spark.sql.redaction.string.regex"] == hidden_text(None)


@pytest.mark.parametrize(("given", "shown"), [("{}", "false"), ('{"spark.ui.enabled": true}', "true")])
def test_an_engine_on_a_cluster_shows_its_work_only_where_a_person_says_so(
    given: str, shown: str, started: EngineProcess, settings: Settings
) -> None:
    started.stop()
    conf = launched(Settings(home=settings.home, spark_master="spark://host:7077", spark_conf=given, _env_file=None))
    assert (conf["spark.ui.enabled"], conf["spark.ui.killEnabled"]) == (shown, "false")


def test_the_address_names_the_page_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "launch").write_text(json.dumps({"port": 20001, "fingerprint": "fits"}))
    announce(tmp_path, 7)
    assert str(read_address(tmp_path)) == "127.0.0.1:20001"
    announce(tmp_path, 7, "http://127.0.0.1:20002")
    assert str(read_address(tmp_path)) == "127.0.0.1:20001, Spark UI http://127.0.0.1:20002"


def test_an_address_is_read_by_other_versions_whatever_they_add_or_leave_out(tmp_path: Path) -> None:
    (tmp_path / "launch").write_text(json.dumps({"port": 20001, "fingerprint": "fits"}))
    announce(tmp_path, 7, "http://127.0.0.1:20002")
    stored = json.loads((tmp_path / "address").read_text())
    assert sorted(stored) == ["fingerprint", "pid", "port", "start"], "a version without a page reads these alone"
    before = read_address(tmp_path)
    (tmp_path / "address").write_text(json.dumps({**stored, "more": 1}))
    (tmp_path / "ui").unlink()
    assert before and read_address(tmp_path) == before
    (tmp_path / "address").write_text(json.dumps({"port": 20001}))
    assert read_address(tmp_path) is None


def test_a_second_engine_of_a_home_is_refused(started: EngineProcess, settings: Settings) -> None:
    with pytest.raises(SetupError, match="Another engine of this home runs"):
        EngineProcess(settings, {}, "other").start(patience=0)


def test_no_spark_of_ones_own_where_an_engine_lives_and_no_engine_where_there_is_one(
    started: EngineProcess, settings: Settings
) -> None:
    assert share_lock(settings) is None
    started.stop()
    command = [sys.executable, "-c", _SHARE, str(settings.home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as own:
        assert own.stdout and own.stdout.readline() == "1\n"
        mine = share_lock(settings)
        assert mine is not None, "several may have a Spark of their own"
        os.close(mine)
        with pytest.raises(SetupError, match="is using a Spark of its own.*Wait until it has ended"):
            started.start(patience=0.2)
        own.kill()
    started.start(patience=5)
    assert lives(engine_folder(settings))


def test_a_folder_that_never_had_an_engine_has_none(tmp_path: Path) -> None:
    assert not lives(tmp_path)
    assert read_address(tmp_path) is None


@pytest.mark.parametrize("place", [("local[2]", "127.0.0.1"), ("spark://host:7077", "given")])
def test_executors_elsewhere_are_not_sent_to_loopback(
    place: tuple[str, str],
    started: EngineProcess,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    master, address = place
    started.stop()
    (engine_folder(settings) / "environment").unlink()
    monkeypatch.setenv("SPARK_LOCAL_IP", "given")
    other = EngineProcess(settings.model_copy(update={"spark_master": master}), {}, "")
    other.start()
    try:
        assert wait_until((engine_folder(settings) / "environment").exists)
        assert given(settings)["SPARK_LOCAL_IP"] == address
    finally:
        other.stop()
