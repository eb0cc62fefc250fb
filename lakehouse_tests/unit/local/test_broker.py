"""The embedded broker, without starting one, and its ports."""

import socket
from pathlib import Path

import pytest

from lakehouse.errors import BrokerError
from lakehouse.local import embedded
from lakehouse.local.embedded import broker_answers
from lakehouse.local.servers import Kafka, new_cluster_id, running_broker
from lakehouse.settings import Settings
from lakehouse.settings.addresses import Ports, bootstrap_servers, remembered_ports


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "a home", _env_file=None)


def test_a_configured_broker_is_used_unchanged(settings: Settings) -> None:
    configured = settings.model_copy(update={"kafka_bootstrap_servers": "kafka.example:9092"})
    with running_broker(configured) as address:
        assert address == "kafka.example:9092" == bootstrap_servers(configured)
    assert not settings.home_folder.exists()


def test_if_no_broker_ever_ran_the_error_says_how_to_start_one(settings: Settings) -> None:
    with pytest.raises(BrokerError, match="lakehouse up broker"):
        bootstrap_servers(settings)


def test_a_port_that_accepts_connections_but_is_not_a_broker_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not broker_answers(server.getsockname()[1], limit=0.2)


def test_a_cluster_id_never_looks_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    random_bytes = iter([bytes([0b11111000]) + bytes(15), bytes(16)])
    monkeypatch.setattr("lakehouse.local.servers.uuid4", lambda: type("Id", (), {"bytes": next(random_bytes)}))
    assert new_cluster_id() == "A" * 22


def test_the_data_folder_is_escaped_for_java_properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse.local.servers.ensure_jars", lambda *_: [])
    folder = tmp_path / "jürgen 日本 🏠"
    folder.mkdir()
    Kafka(Settings(home=folder, _env_file=None), folder).command(Ports(1, 2))
    *_, last = (folder / "server.properties").read_bytes().splitlines()
    path = last.removeprefix(b"log.dirs=")
    assert path.isascii()
    assert path == f"{tmp_path}/j\\u00fcrgen \\u65e5\\u672c \\ud83c\\udfe0/data".encode()


def test_a_broker_and_its_controller_get_different_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lowest = next(port for port in range(20_000, 32_000) if embedded.is_free(port) and embedded.is_free(port + 1))
    monkeypatch.setattr(embedded, "_LOWEST", lowest)
    monkeypatch.setattr(embedded, "_HIGHEST", lowest + 2)
    for _ in range(20):
        new_ports = embedded.draw_ports(tmp_path)
        assert {new_ports.broker, new_ports.controller} == {lowest, lowest + 1}
        assert remembered_ports(tmp_path) == new_ports
