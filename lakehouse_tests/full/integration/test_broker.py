"""The embedded broker as a process: its start, its stop, its end by a kill, and its owner."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.errors import BrokerError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import create_topic, publish, read_topic
from lakehouse.local.embedded import broker_answers
from lakehouse.local.servers import EmbeddedBroker, running_broker
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.waiting import wait_until

OWNER = """
import sys, threading, time
from lakehouse.local.servers import EmbeddedBroker
from lakehouse.settings import Settings
broker = EmbeddedBroker(Settings(home=sys.argv[1], _env_file=None))
starter = threading.Thread(target=broker.start)
starter.start()
starter.join()
print(broker.pid, flush=True)
time.sleep(600)
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "a home", _env_file=None)


@pytest.fixture
def embedded_broker(settings: Settings) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(settings)
    broker.start()
    yield broker
    broker.stop()


def test_the_broker_listens_on_loopback_only_and_answers(settings: Settings, embedded_broker: EmbeddedBroker) -> None:
    assert embedded_broker.is_alive()
    assert embedded_broker.address == bootstrap_servers(settings)
    assert embedded_broker.address.startswith("127.0.0.1:")
    properties = (settings.home_folder / "broker" / "server.properties").read_text().splitlines()
    listeners = next(line for line in properties if line.startswith("listeners="))
    assert listeners.count("://127.0.0.1:") == listeners.count("://") == 2


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_keeps_records_identity_and_address(
    settings: Settings, embedded_broker: EmbeddedBroker, end: str
) -> None:
    assert publish(settings, temperatures, [b"one", b"two", b"three"]) == 3
    state_before, address = read_topic(settings, temperatures.topic), embedded_broker.address
    if end == "stop":
        embedded_broker.stop()
    else:
        assert embedded_broker.pid
        os.kill(embedded_broker.pid, signal.SIGKILL)
        assert wait_until(lambda: not embedded_broker.is_alive())
    embedded_broker.start()
    assert read_topic(settings, temperatures.topic) == state_before
    assert sum(state_before.end.values()) == 3
    assert embedded_broker.address == address


def test_a_stopped_broker_is_gone_and_a_second_stop_does_nothing(embedded_broker: EmbeddedBroker) -> None:
    pid, port = embedded_broker.pid, port_of(embedded_broker.address)
    embedded_broker.stop()
    embedded_broker.stop()
    assert not embedded_broker.is_alive()
    assert not broker_answers(port)
    assert pid is not None
    assert not is_running(pid)


def test_the_broker_ends_with_its_parent_and_the_next_start_continues(settings: Settings) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(settings.home_folder)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    create_topic(settings, temperatures)
    state_before, address = read_topic(settings, temperatures.topic), bootstrap_servers(settings)
    parent.kill()
    parent.wait()
    with running_broker(settings) as next_address:
        assert not is_running(pid)
        assert next_address == address
        assert read_topic(settings, temperatures.topic) == state_before


def test_a_second_broker_of_a_home_is_refused(settings: Settings, embedded_broker: EmbeddedBroker) -> None:
    with pytest.raises(BrokerError, match="Another process already runs the broker"):
        EmbeddedBroker(settings).start()
    assert embedded_broker.is_alive()


def test_a_running_broker_is_joined_and_left_running(settings: Settings, embedded_broker: EmbeddedBroker) -> None:
    with running_broker(settings) as address:
        assert address == embedded_broker.address
    assert embedded_broker.is_alive()


def test_a_broker_that_is_not_running_is_started_and_stopped(settings: Settings) -> None:
    with running_broker(settings) as address:
        assert broker_answers(port_of(address))
    assert not broker_answers(port_of(address))


def test_a_broker_gives_up_a_port_that_is_in_use(settings: Settings, embedded_broker: EmbeddedBroker) -> None:
    address = embedded_broker.address
    embedded_broker.stop()
    with socket.create_server(("127.0.0.1", port_of(address))):
        embedded_broker.start()
        assert embedded_broker.address != address
        assert embedded_broker.is_alive()


def test_a_broker_that_cannot_start_names_its_log_and_frees_the_home(settings: Settings) -> None:
    data = settings.home_folder / "broker" / "data"
    data.mkdir(parents=True)
    (data.parent / "lock").touch()
    (data / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=7\n")
    broker = EmbeddedBroker(settings)
    with pytest.raises(BrokerError, match="ended during its start") as error_info:
        broker.start()
    assert error_info.value.where == str(broker.log)
    assert "7" in error_info.value.action
    (data / "meta.properties").unlink()
    broker.start()
    assert broker.is_alive()
    broker.stop()


def test_a_home_that_is_not_ascii_holds_the_data(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "jürgen 🏠", _env_file=None)
    with running_broker(settings):
        create_topic(settings, temperatures)
    assert (settings.home_folder / "broker" / "data" / "meta.properties").exists()
    assert [folder.name for folder in tmp_path.iterdir()] == [settings.home_folder.name]
    with running_broker(settings):
        assert read_topic(settings, temperatures.topic).end == dict.fromkeys(
            range(temperatures.topic_options.partitions), 0
        )
