"""The embedded broker, as far as none has to run."""

import socket
from pathlib import Path

import pytest

from lakehouse.errors import BrokerError
from lakehouse.local.broker import running_broker
from lakehouse.local.kafka_server import Kafka, new_cluster_id
from lakehouse.local.ports import broker_answers
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import Ports, bootstrap_servers


@pytest.fixture
def own(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "a home", _env_file=None)


def test_a_broker_that_somebody_configured_is_used_as_it_is(own: Settings) -> None:
    configured = own.model_copy(update={"kafka_bootstrap_servers": "kafka.example:9092"})
    with running_broker(configured) as address:
        assert address == "kafka.example:9092" == bootstrap_servers(configured)
    assert not own.home_folder.exists()


def test_where_no_broker_ever_ran_the_error_says_how_to_start_one(own: Settings) -> None:
    with pytest.raises(BrokerError, match="lakehouse up broker"):
        bootstrap_servers(own)


def test_a_port_that_accepts_but_is_no_broker_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not broker_answers(server.getsockname()[1], limit=0.2)


def test_a_cluster_id_is_never_taken_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([bytes([0b11111000]) + bytes(15), bytes(16)])
    monkeypatch.setattr("lakehouse.local.kafka_server.uuid4", lambda: type("Id", (), {"bytes": next(drawn)}))
    assert new_cluster_id() == "A" * 22


def test_the_data_folder_is_written_as_java_reads_properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse.local.kafka_server.ensure_jars", lambda *_: [])
    folder = tmp_path / "jürgen 日本 🏠"
    folder.mkdir()
    Kafka(Settings(home=folder, _env_file=None), folder).command(Ports(1, 2))
    *_, last = (folder / "server.properties").read_bytes().splitlines()
    path = last.removeprefix(b"log.dirs=")
    assert path.isascii()
    assert path == f"{tmp_path}/j\\u00fcrgen \\u65e5\\u672c \\ud83c\\udfe0/data".encode()
