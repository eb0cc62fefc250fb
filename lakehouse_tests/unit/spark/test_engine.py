"""The engine of a home: its lock, its files and its process. A sleeping program replaces the server."""

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
from lakehouse.settings.spark_conf import text_redaction_pattern
from lakehouse.spark import engine
from lakehouse.spark.engine import (
    EngineProcess,
    engine_folder,
    is_engine_running,
    read_address,
    read_launch_conf,
    read_token,
    share_lock,
    write_address,
)
from lakehouse_tests.helpers.processes import ps
from lakehouse_tests.helpers.waiting import wait_until

_SHARE = """
import sys
from lakehouse.spark.engine import share_lock
from lakehouse.settings import Settings
assert share_lock(Settings(home=sys.argv[1], _env_file=None)) is not None
print(1, flush=True)
input()
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", _env_file=None)


@pytest.fixture
def running_engine(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineProcess]:
    monkeypatch.setattr(engine, "_SERVER", "lakehouse_tests.helpers.attacks.sleeping_engine")
    monkeypatch.setattr(engine, "find_java", lambda: None)
    process = EngineProcess(settings, {"spark.driver.extraJavaOptions": "-Dours=1"}, "fits")
    process.start()
    assert wait_until((engine_folder(settings) / "environment").exists)
    yield process
    process.stop()


def read_environment(settings: Settings) -> dict[str, str]:
    """The environment of the engine's process."""
    environment: dict[str, str] = json.loads((engine_folder(settings) / "environment").read_text())
    return environment


def test_the_lock_is_held_until_the_program_ends(tmp_path: Path) -> None:
    folder = tmp_path
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    child = Child(["sleep", "60"], folder / "log", lock=lock)
    os.close(lock)
    try:
        assert is_engine_running(folder)
        assert wait_until(lambda: "sleep" in " ".join(ps("-o", "comm=", "-p", str(child.pid))))
        os.kill(child.pid, signal.SIGKILL)  # only the program: its guard still runs
        assert wait_until(lambda: not is_engine_running(folder), 5)
    finally:
        child.kill()


def test_an_engine_lives_as_long_as_its_process(running_engine: EngineProcess, settings: Settings) -> None:
    folder = engine_folder(settings)
    address = read_address(folder)
    assert is_engine_running(folder)
    assert address and address.fingerprint == "fits"
    os.kill(address.pid, signal.SIGKILL)
    assert wait_until(lambda: not is_engine_running(folder) and running_engine.exit_code is not None, 5)
    running_engine.start()
    assert is_engine_running(folder)
    running_engine.stop()
    assert wait_until(lambda: not is_engine_running(folder), 5)


def test_the_token_is_in_a_private_file_and_the_environment_but_on_no_command_line(
    running_engine: EngineProcess, settings: Settings
) -> None:
    folder = engine_folder(settings)
    token = read_token(folder)
    assert len(token) > 30
    assert read_environment(settings)["SPARK_CONNECT_AUTHENTICATE_TOKEN"] == token
    assert token not in "\n".join(ps("-axwwo", "args="))
    for name in ("token", "address", "ui", "launch", "lock"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
    texts = [file.read_text() for file in folder.iterdir() if file.name not in ("token", "environment")]
    assert not any(token in text for text in texts)


def launch_and_read_conf(settings: Settings) -> dict[str, str]:
    """Start and stop an engine of this home; return its Spark settings."""
    process = EngineProcess(settings, {"spark.ui.enabled": "false"}, "")
    process.start()
    process.stop()
    return read_launch_conf(engine_folder(settings))


def test_a_local_engine_has_a_ui_on_loopback_unless_the_user_turns_it_off(
    running_engine: EngineProcess, settings: Settings
) -> None:
    running_engine.stop()
    conf = launch_and_read_conf(settings)
    assert (conf["spark.ui.enabled"], conf["spark.ui.killEnabled"]) == ("true", "false")
    assert 0 < int(conf["spark.ui.port"]) != int(conf["spark.connect.grpc.binding.port"])
    assert (conf["spark.ui.heapHistogramEnabled"], conf["spark.ui.threadDumpsEnabled"]) == ("false", "false")
    user_conf = '{"spark.ui.enabled": false, "spark.ui.port": 4040}'
    conf = launch_and_read_conf(Settings(home=settings.home, spark_conf=user_conf, _env_file=None))
    assert (conf["spark.ui.enabled"], conf["spark.ui.port"]) == ("false", "4040")
    assert conf["spark.sql.redaction.string.regex"] == text_redaction_pattern(None)


@pytest.mark.parametrize(("user_conf", "enabled"), [("{}", "false"), ('{"spark.ui.enabled": true}', "true")])
def test_an_engine_on_a_cluster_has_a_ui_only_if_the_user_turns_it_on(
    user_conf: str, enabled: str, running_engine: EngineProcess, settings: Settings
) -> None:
    running_engine.stop()
    conf = launch_and_read_conf(
        Settings(home=settings.home, spark_master="spark://host:7077", spark_conf=user_conf, _env_file=None)
    )
    assert (conf["spark.ui.enabled"], conf["spark.ui.killEnabled"]) == (enabled, "false")


def test_the_address_shows_the_ui_if_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "launch").write_text(json.dumps({"port": 20001, "fingerprint": "fits"}))
    write_address(tmp_path, 7)
    assert str(read_address(tmp_path)) == "127.0.0.1:20001"
    write_address(tmp_path, 7, "http://127.0.0.1:20002")
    assert str(read_address(tmp_path)) == "127.0.0.1:20001, Spark UI http://127.0.0.1:20002"


def test_other_versions_can_read_an_address_with_added_or_missing_fields(tmp_path: Path) -> None:
    (tmp_path / "launch").write_text(json.dumps({"port": 20001, "fingerprint": "fits"}))
    write_address(tmp_path, 7, "http://127.0.0.1:20002")
    stored_address = json.loads((tmp_path / "address").read_text())
    assert sorted(stored_address) == ["fingerprint", "pid", "port", "start"], "a version without a UI reads only these"
    address = read_address(tmp_path)
    (tmp_path / "address").write_text(json.dumps({**stored_address, "more": 1}))
    (tmp_path / "ui").unlink()
    assert address and read_address(tmp_path) == address
    (tmp_path / "address").write_text(json.dumps({"port": 20001}))
    assert read_address(tmp_path) is None


def test_a_second_engine_of_a_home_is_refused(running_engine: EngineProcess, settings: Settings) -> None:
    with pytest.raises(SetupError, match="Another engine of this home runs"):
        EngineProcess(settings, {}, "other").start(patience=0)


def test_an_engine_and_the_spark_of_a_command_exclude_each_other(
    running_engine: EngineProcess, settings: Settings
) -> None:
    assert share_lock(settings) is None
    running_engine.stop()
    command = [sys.executable, "-c", _SHARE, str(settings.home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as command_process:
        assert command_process.stdout and command_process.stdout.readline() == "1\n"
        lock = share_lock(settings)
        assert lock is not None, "several commands may have their own Spark"
        os.close(lock)
        with pytest.raises(SetupError, match="is using a Spark of its own.*Wait until it has ended"):
            running_engine.start(patience=0.2)
        command_process.kill()
    running_engine.start(patience=5)
    assert is_engine_running(engine_folder(settings))


def test_a_folder_that_never_had_an_engine_has_no_address(tmp_path: Path) -> None:
    assert not is_engine_running(tmp_path)
    assert read_address(tmp_path) is None


@pytest.mark.parametrize("master_and_address", [("local[2]", "127.0.0.1"), ("spark://host:7077", "10.0.0.1")])
def test_executors_on_other_machines_do_not_use_loopback(
    master_and_address: tuple[str, str],
    running_engine: EngineProcess,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    master, address = master_and_address
    running_engine.stop()
    (engine_folder(settings) / "environment").unlink()
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    other_engine = EngineProcess(settings.model_copy(update={"spark_master": master}), {}, "")
    other_engine.start()
    try:
        assert wait_until((engine_folder(settings) / "environment").exists)
        assert read_environment(settings)["SPARK_LOCAL_IP"] == address
    finally:
        other_engine.stop()
