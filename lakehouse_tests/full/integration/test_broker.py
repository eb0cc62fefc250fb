"""The embedded broker as a process: started, stopped, killed, and whose it is."""

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
from lakehouse.kafka import create_topic, look, publish
from lakehouse.local.broker import EmbeddedBroker, running_broker
from lakehouse.local.ports import broker_answers
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse_tests.helpers.waiting import wait_until

OWNER = """
import sys, threading, time
from lakehouse.local.broker import EmbeddedBroker
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
def own(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "a home", _env_file=None)


@pytest.fixture
def embedded(own: Settings) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(own)
    broker.start()
    yield broker
    broker.stop()


def test_it_listens_on_loopback_only_and_answers(own: Settings, embedded: EmbeddedBroker) -> None:
    assert embedded.alive()
    assert embedded.address == bootstrap_servers(own)
    assert embedded.address.startswith("127.0.0.1:")
    properties = (own.home_folder / "broker" / "server.properties").read_text().splitlines()
    listeners = next(line for line in properties if line.startswith("listeners="))
    assert listeners.count("://127.0.0.1:") == listeners.count("://") == 2


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_keeps_records_identity_and_address(own: Settings, embedded: EmbeddedBroker, end: str) -> None:
    assert publish(own, temperatures, [b"one", b"two", b"three"]) == 3
    before, address = look(own, temperatures.topic), embedded.address
    if end == "stop":
        embedded.stop()
    else:
        assert embedded.pid
        os.kill(embedded.pid, signal.SIGKILL)
        assert wait_until(lambda: not embedded.alive())
    embedded.start()
    assert look(own, temperatures.topic) == before
    assert sum(before.end.values()) == 3
    assert embedded.address == address


def test_a_stopped_broker_is_gone_and_a_second_stop_does_nothing(embedded: EmbeddedBroker) -> None:
    pid, port = embedded.pid, port_of(embedded.address)
    embedded.stop()
    embedded.stop()
    assert not embedded.alive()
    assert not broker_answers(port)
    assert pid is not None
    assert not is_running(pid)


def test_it_dies_with_its_parent_and_the_next_start_goes_on(own: Settings) -> None:
    parent = subprocess.Popen([sys.executable, "-c", OWNER, str(own.home_folder)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    create_topic(own, temperatures)
    before, address = look(own, temperatures.topic), bootstrap_servers(own)
    parent.kill()
    parent.wait()
    with running_broker(own) as next_address:
        assert not is_running(pid)
        assert next_address == address
        assert look(own, temperatures.topic) == before


def test_a_second_broker_of_a_home_is_refused(own: Settings, embedded: EmbeddedBroker) -> None:
    with pytest.raises(BrokerError, match="Another process already runs the broker"):
        EmbeddedBroker(own).start()
    assert embedded.alive()


def test_a_running_broker_is_joined_and_left_running(own: Settings, embedded: EmbeddedBroker) -> None:
    with running_broker(own) as address:
        assert address == embedded.address
    assert embedded.alive()


def test_whoever_finds_none_starts_it_and_stops_it(own: Settings) -> None:
    with running_broker(own) as address:
        assert broker_answers(port_of(address))
    assert not broker_answers(port_of(address))


def test_a_port_that_somebody_took_is_given_up(own: Settings, embedded: EmbeddedBroker) -> None:
    address = embedded.address
    embedded.stop()
    with socket.create_server(("127.0.0.1", port_of(address))):
        embedded.start()
        assert embedded.address != address
        assert embedded.alive()


def test_a_broker_that_cannot_start_names_its_log_and_frees_the_home(own: Settings) -> None:
    data = own.home_folder / "broker" / "data"
    data.mkdir(parents=True)
    (data.parent / "lock").touch()
    (data / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=7\n")
    broker = EmbeddedBroker(own)
    with pytest.raises(BrokerError, match="ended during its start") as caught:
        broker.start()
    assert caught.value.where == str(broker.log)
    assert "7" in caught.value.action
    (data / "meta.properties").unlink()
    broker.start()
    assert broker.alive()
    broker.stop()


def test_a_home_that_is_not_ascii_holds_the_data(tmp_path: Path) -> None:
    own = Settings(home=tmp_path / "jürgen 🏠", _env_file=None)
    with running_broker(own):
        create_topic(own, temperatures)
    assert (own.home_folder / "broker" / "data" / "meta.properties").exists()
    assert [folder.name for folder in tmp_path.iterdir()] == [own.home_folder.name]
    with running_broker(own):
        assert look(own, temperatures.topic).end == dict.fromkeys(range(temperatures.partitions), 0)
