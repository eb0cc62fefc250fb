"""Each wait for a program that may be silent has an end, and the table of docs/reliability.md names it."""

import inspect
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from lakehouse.cli import services, stack, stopping
from lakehouse.cli import table_session as cli_session
from lakehouse.errors import BrokerError, RegistryError, SetupError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import admin, connection_causes, create_topic, look, publish, timeless, topic_names
from lakehouse.kafka.newest_records import newest_records
from lakehouse.local import dagster_home, embedded, ivy, jars, kafka_server, registry
from lakehouse.local.process import Child
from lakehouse.operations import status
from lakehouse.settings import Settings
from lakehouse.spark import engine
from lakehouse.spark.connect import client, session
from lakehouse.storage import lock, statement, writer_note
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables import stores
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = pytest.mark.timeout(120)  # ends a test in which something hangs
SLEEP = ["sleep", "600"]


@pytest.fixture
def mute() -> Iterator[str]:
    """Where a program takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def settings(folder: Path, **others: Any) -> Settings:
    return Settings(home=folder, jars=folder / "jars", _env_file=None, **others)


QUESTIONS: dict[str, Callable[[Settings], object]] = {
    "status": lambda asked: look(asked, "t", 0.5),
    "topics": lambda asked: topic_names(asked, 0.5),
    "peek": lambda asked: newest_records(asked, "t", 1, 0.5),
    "publish": lambda asked: publish(asked, temperatures, [b"{}"]),
    "create": lambda asked: create_topic(asked, temperatures),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_broker_that_is_silent(question: str, mute: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_LIMIT", 0.5)
    with pytest.raises(BrokerError, match=mute):
        QUESTIONS[question](settings(tmp_path, kafka_bootstrap_servers=mute))


def test_the_cause_of_a_failure_is_looked_for_with_a_limit(mute: str, tmp_path: Path) -> None:
    for protocol in ("PLAINTEXT", "SSL"):
        asked = settings(tmp_path, kafka_bootstrap_servers=mute, kafka_security_protocol=protocol)
        assert connection_causes.find_cause(asked, [], 0.3) is None


AUDIT = """
from lakehouse.cli.main import main
from lakehouse.ledger import log
log._PATIENCE = {"timeout": "600s", "retry_timeout": "600s"}
main()
"""


def test_a_signal_ends_the_wait_for_a_store(tmp_path: Path) -> None:
    with stores.hanging() as root, pytest.MonkeyPatch.context() as patch:
        port = int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2])
        patch.setenv("LAKEHOUSE_TABLES", root)
        patch.setenv("LAKEHOUSE_HOME", str(tmp_path))
        asking = subprocess.Popen([sys.executable, "-c", AUDIT, "audit"], stderr=subprocess.PIPE, text=True)
        assert wait_until(lambda: is_connected(port), 60)
        asking.terminate()
        _, said = asking.communicate()
    assert (asking.returncode, said) == (130, "")


def is_connected(port: int) -> bool:
    """Whether somebody has a connection to this port of the machine."""
    return any(line.split()[2].endswith(f":{port:04X}") for line in Path("/proc/net/tcp").read_text().splitlines()[1:])


@contextmanager
def held(file: Path) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file):
        yield


def test_locks_that_a_stopped_process_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = settings(tmp_path)
    archive = tmp_path / "jars" / "registry" / "program.tar.gz"
    monkeypatch.setattr(registry, "ensure_jars", lambda *_: [archive])
    monkeypatch.setattr(jars, "_LOCK_SECONDS", 0.2)
    monkeypatch.setattr(registry, "_LOCK_SECONDS", 0.2)
    monkeypatch.setattr(dagster_home, "_STORAGE_SECONDS", 0.1)
    storage = dagster_home.prepare_dagster_home(here) / "storage.lock"
    waiting: dict[Path, Callable[[], object]] = {
        tmp_path / "jars" / "lock": lambda: jars.ensure_jars(here, "spark"),
        archive.with_name("lock"): lambda: registry._unpacked(here),
        storage: lambda: dagster_home.migrate_dagster_storage(here),
    }
    for file, wait in waiting.items():
        with held(file), pytest.raises(SetupError, match=f"kept this lock.*{file}.*run it again"):
            wait()


def test_the_lock_of_a_service_is_not_waited_for(tmp_path: Path) -> None:
    with (
        held(tmp_path / "locks" / "daemon.lock"),
        pytest.raises(SetupError, match="is up already"),
        stack._only_one(settings(tmp_path), services.Service.daemon),
    ):
        pytest.fail("it has the lock")


def test_jars_that_nobody_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivy, "_command", lambda *_: SLEEP)
    monkeypatch.setattr(ivy, "_LIMIT_SECONDS", 0.2)
    with pytest.raises(SetupError, match="could not be fetched"):
        ivy.fetch("spark", tmp_path)


def test_a_storage_of_dagster_that_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(dagster_home, "_STORAGE_SECONDS", 0.2)
    with pytest.raises(SetupError, match=r"storage does not answer.*dagster\.yaml"):
        dagster_home.migrate_dagster_storage(settings(tmp_path))


def test_a_broker_whose_data_is_not_prepared_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_server.Kafka, "_java", lambda *_: SLEEP)
    monkeypatch.setattr(kafka_server, "_FORMAT_SECONDS", 0.2)
    assert not kafka_server.Kafka(settings(tmp_path), tmp_path).format()


class Mute(embedded.Embedded):
    """A server that starts and never answers."""

    name, error, log = "registry", RegistryError, Path("/dev/null")
    address = "nowhere"

    def _command(self) -> list[str]:
        return SLEEP

    def _answers(self) -> bool:
        return False

    def _last_error(self) -> str:
        return ""

    def _settle(self) -> None:
        pytest.fail("it answered")


def test_an_embedded_server_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_START_SECONDS", 0.2)
    own, other = (Mute(settings(tmp_path), tmp_path) for _ in range(2))
    with pytest.raises(RegistryError, match="did not answer"):
        own.start()
    assert own._claim()
    with pytest.raises(RegistryError, match="another process runs"):
        other.start_or_join()


@pytest.mark.parametrize("said", [b"", b"nonsense\r\n\r\n"])
def test_a_web_server_that_is_silent_or_something_else_is_not_up_yet(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        asking = subprocess.Popen(
            [sys.executable, "-c", ASK, str(server.getsockname()[1])], stdout=subprocess.PIPE, text=True
        )
        connection, _ = server.accept()
        with connection:
            connection.sendall(said)
            told, _ = asking.communicate()
    assert told == "False\n"


ASK = "import sys; from lakehouse.cli import stack; print(stack._answers('http://127.0.0.1:' + sys.argv[1]))"


def test_a_program_that_does_not_end_when_it_is_asked_is_killed(tmp_path: Path) -> None:
    child = Child(["sh", "-c", "trap '' TERM; echo up; while true; do sleep 1; done"], tmp_path / "log")
    child.stop(patience=0.5)
    assert not child.alive()


def test_every_wait_of_the_table_is_shown_by_a_test_that_is_there() -> None:
    table = (ROOT / "docs" / "reliability.md").read_text().partition("## What is waited for")[2].partition("<!--")[0]
    rows = re.findall(r"^\| (?!for |---)(.+) \| `(.+?)` \|$", table, re.MULTILINE)
    assert len(rows) > 20
    assert [name for _, name in rows if not (ROOT / "lakehouse_tests" / name).is_file()] == []


def test_limits_are_those_that_the_table_tells() -> None:
    table = (ROOT / "docs" / "reliability.md").read_text()
    for what, limit in {
        "another engine of the home, or a Spark of its commands, to end before an engine starts": engine._PATIENCE,
        "an engine that is being started": session._LIMIT,
        "the engine's first answer": client.FIRST_ANSWER,
        "the end of a statement that was interrupted and writes": statement._PATIENCE,
        "the end of what another process left writing in a Java of its own": writer_note._PATIENCE,
        "a Spark of our own, to stop": cli_session._STOPPED,
        "the end of a verb that works with Spark, after Ctrl-C or SIGTERM": stopping._LIMIT,
        "the lock of a table": lock._PATIENCE,
        "the broker, by `status`": status._LOOK_LIMIT,
        "the broker, by `topics`, `doctor`, a repair or a check": inspect.signature(look).parameters["limit"].default,
        "the broker, while records near one without a possible time are read": timeless._PATIENCE,
        "the broker, to take a record": sys.modules["lakehouse.kafka.publish"].__dict__["_STALL_SECONDS"],
        "the broker, by a batch, `peek`, or to make a topic": admin._LIMIT,
        "the embedded broker or registry, to answer": embedded._START_SECONDS,
        "Dagster's storage, to be made or migrated": dagster_home._STORAGE_SECONDS,
        "either, to interrupt a read or to take a session back": client._FAREWELL,
    }.items():
        assert f"| {what} | {limit:g} s" in table
