"""Every wait for a program that may be silent has a limit, which the table of docs/explanation/reliability.md lists."""

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

from lakehouse.cli import services, stack, table_session
from lakehouse.cli import table_session as cli_session
from lakehouse.errors import BrokerError, RegistryError, SetupError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import connection, create_topic, publish, read, read_topic, state, topic_names, written_ends
from lakehouse.kafka.newest_records import newest_records
from lakehouse.local import dagster_home, embedded, jars, servers
from lakehouse.local.process import Child
from lakehouse.operations import status
from lakehouse.settings import Settings
from lakehouse.spark import connect, engine
from lakehouse.storage import lock, statement
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables import stores
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = pytest.mark.timeout(120)  # ends a test in which something hangs
SLEEP = ["sleep", "600"]
PAGE = ROOT / "docs" / "explanation" / "reliability.md"


@pytest.fixture
def silent_address() -> Iterator[str]:
    """The address of a program that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def settings(folder: Path, **options: Any) -> Settings:
    return Settings(home=folder, jars=folder / "jars", _env_file=None, **options)


REQUESTS: dict[str, Callable[[Settings], object]] = {
    "status": lambda settings: read_topic(settings, "t", 0.5),
    "topics": lambda settings: topic_names(settings, 0.5),
    "micro-batch": lambda settings: written_ends(settings, "t", [0], 0.5),
    "peek": lambda settings: newest_records(settings, "t", 1, 0.5),
    "publish": lambda settings: publish(settings, temperatures, [b"{}"]),
    "create": lambda settings: create_topic(settings, temperatures),
}


@pytest.mark.parametrize("request_name", REQUESTS)
def test_a_request_to_a_silent_broker_ends(
    request_name: str, silent_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "_LIMIT", 0.5)
    with pytest.raises(BrokerError, match=silent_address):
        REQUESTS[request_name](settings(tmp_path, kafka_bootstrap_servers=silent_address))


def test_the_search_for_the_cause_of_a_failure_ends(silent_address: str, tmp_path: Path) -> None:
    for protocol in ("PLAINTEXT", "SSL"):
        silent_settings = settings(tmp_path, kafka_bootstrap_servers=silent_address, kafka_security_protocol=protocol)
        assert connection.find_cause(silent_settings, [], 0.3) is None


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
        process = subprocess.Popen([sys.executable, "-c", AUDIT, "audit"], stderr=subprocess.PIPE, text=True)
        assert wait_until(lambda: is_connected(port), 60)
        process.terminate()
        _, stderr = process.communicate()
    assert (process.returncode, stderr) == (130, "")


def is_connected(port: int) -> bool:
    """Whether a process is connected to this port of the machine."""
    return any(line.split()[2].endswith(f":{port:04X}") for line in Path("/proc/net/tcp").read_text().splitlines()[1:])


@contextmanager
def locked(file: Path) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file):
        yield


def test_the_wait_for_a_lock_of_a_stopped_process_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home_settings = settings(tmp_path)
    archive = tmp_path / "jars" / "registry" / "program.tar.gz"
    monkeypatch.setattr(servers, "ensure_jars", lambda *_: [archive])
    monkeypatch.setattr(jars, "_LOCK_SECONDS", 0.2)
    monkeypatch.setattr(servers, "_LOCK_SECONDS", 0.2)
    monkeypatch.setattr(dagster_home, "_STORAGE_SECONDS", 0.1)
    storage = dagster_home.prepare_dagster_home(home_settings) / "storage.lock"
    waits: dict[Path, Callable[[], object]] = {
        tmp_path / "jars" / "lock": lambda: jars.ensure_jars(home_settings, "spark"),
        archive.with_name("lock"): lambda: servers._unpacked(home_settings),
        storage: lambda: dagster_home.migrate_dagster_storage(home_settings),
    }
    for file, wait in waits.items():
        with locked(file), pytest.raises(SetupError, match=f"kept this lock.*{file}.*run it again"):
            wait()


def test_a_locked_service_is_refused_at_once(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "locks" / "daemon.lock"),
        pytest.raises(SetupError, match="is already running"),
        stack._lock_service(settings(tmp_path), services.Service.daemon),
    ):
        pytest.fail("the lock was acquired")


def test_a_download_of_jars_that_hangs_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_command", lambda *_: SLEEP)
    monkeypatch.setattr(jars, "_LIMIT_SECONDS", 0.2)
    with pytest.raises(SetupError, match="could not be fetched"):
        jars.fetch("spark", tmp_path)


def test_the_wait_for_a_silent_dagster_storage_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(dagster_home, "_STORAGE_SECONDS", 0.2)
    with pytest.raises(SetupError, match=r"storage does not answer.*dagster\.yaml"):
        dagster_home.migrate_dagster_storage(settings(tmp_path))


def test_formatting_the_data_of_a_broker_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers.Kafka, "_java", lambda *_: SLEEP)
    monkeypatch.setattr(servers, "_FORMAT_SECONDS", 0.2)
    assert not servers.Kafka(settings(tmp_path), tmp_path).format()


class SilentServer(embedded.Embedded):
    """A server that starts and never answers."""

    name, error, log = "registry", RegistryError, Path("/dev/null")
    address = "nowhere"

    def _command(self) -> list[str]:
        return SLEEP

    def _answers(self) -> bool:
        return False

    def _settle(self) -> None:
        pytest.fail("the server answered")


def test_the_wait_for_a_silent_embedded_server_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_START_SECONDS", 0.2)
    server, other_server = (SilentServer(settings(tmp_path), tmp_path) for _ in range(2))
    with pytest.raises(RegistryError, match="did not answer"):
        server.start()
    assert server._claim()
    with pytest.raises(RegistryError, match="another process runs"):
        other_server.start_or_join()


@pytest.mark.parametrize("response", [b"", b"nonsense\r\n\r\n"])
def test_a_silent_or_unknown_web_server_does_not_count_as_ready(response: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", PROBE, str(server.getsockname()[1])], stdout=subprocess.PIPE, text=True
        )
        client, _ = server.accept()
        with client:
            client.sendall(response)
            output, _ = process.communicate()
    assert output == "False\n"


PROBE = "import sys; from lakehouse.cli import stack; print(stack._answers('http://127.0.0.1:' + sys.argv[1]))"


def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    child = Child(["sh", "-c", "trap '' TERM; echo up; while true; do sleep 1; done"], tmp_path / "log")
    child.stop(patience=0.5)
    assert not child.is_alive()


def test_every_wait_in_the_table_names_an_existing_test() -> None:
    table = PAGE.read_text().partition("## Limits of waiting")[2].partition("<!--")[0]
    rows = re.findall(r"^\| (?!wait for |---)(.+) \| `(.+?)` \|$", table, re.MULTILINE)
    assert len(rows) > 20
    assert [name for _, name in rows if not (ROOT / "lakehouse_tests" / name).is_file()] == []


def test_the_table_lists_the_actual_limits() -> None:
    table = PAGE.read_text()
    for wait, limit in {
        "another engine of the home, or a Spark of its commands, to end before an engine starts": engine._PATIENCE,
        "an engine that is starting": connect._LIMIT,
        "the engine's first answer": connect.FIRST_ANSWER,
        "the end of an interrupted statement that writes": statement._PATIENCE,
        "the end of a write that another process left in its own Java process": lock._END_SECONDS,
        "a Spark that a command started, to stop": cli_session._STOP_SECONDS,
        "the end of a command that uses Spark, after Ctrl-C or SIGTERM": table_session._LIMIT,
        "the lock of a table": lock._PATIENCE,
        "the broker, by `status`": status._LOOK_LIMIT,
        "the broker, by `topics`, `doctor`, a repair or a check": inspect.signature(read_topic)
        .parameters["limit"]
        .default,
        "the broker, while records near one without a possible time are read": read._PATIENCE,
        "the broker, to acknowledge a record": sys.modules["lakehouse.kafka.publish"].__dict__["_STALL_SECONDS"],
        "the broker, by a batch, `peek`, or to create a topic": state._LIMIT,
        "the embedded broker or registry, to answer": embedded._START_SECONDS,
        "Dagster's storage, to be created or migrated": dagster_home._STORAGE_SECONDS,
        "either, to interrupt a read or to release a session": connect._FAREWELL,
    }.items():
        assert f"| {wait} | {limit:g} s" in table
