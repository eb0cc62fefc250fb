"""``lakehouse new-table`` on a topic of Avro records with schemas in a real registry. No Spark."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from lakehouse.cli import main
from lakehouse.discovery import _declared_in
from lakehouse.kafka import create_topic
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers, registry_url
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.brokers.registries import FIRST, SECOND, encode_records, order_table, register

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def folder(registry: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without a declaration, with its own home and a running broker and registry."""
    folder = tmp_path / f"lake_{order_table().name}"
    folder.mkdir()
    addresses = {"KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers(registry), "REGISTRY_URL": registry_url(registry)}
    for name, value in {"HOME": tmp_path, "DECLARATIONS": folder, **addresses}.items():
        monkeypatch.setenv(f"LAKEHOUSE_{name}", str(value))
    return folder


def test_a_declaration_written_from_an_avro_topic_reads_its_records(
    registry: Settings, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = order_table()
    create_topic(registry, table)
    ids = [register(registry, table, schema) for schema in (FIRST, SECOND)]
    order: dict[str, Any] = {"id": Decimal(1), "at": NOON, "total": 2.5}
    second_fields = {"id": Decimal(2), "total": None, "customer": {"name": "Ann"}, "channel": "web"}

    async def send(producer: AIOKafkaProducer) -> None:
        for value in (
            *encode_records(ids[0], FIRST, [order]),
            *encode_records(ids[1], SECOND, [order | second_fields]),
        ):
            await producer.send_and_wait(table.topic, value)

    with_client(AIOKafkaProducer, registry, send)
    assert main.run(["new-table", "orders", "--from-topic", table.topic]) == main.DONE
    assert "from 2 records." in " ".join(capsys.readouterr().out.split())
    assert "format=Avro()" in (folder / "orders.py").read_text()
    _declared_in.cache_clear()  # a new process would read the folder again
    assert main.run(["peek", "orders", "--json"]) == main.DONE
    first, second = (record["row"] for record in json.loads(capsys.readouterr().out)["records"])
    assert first == {"customer_name": None, "total": 2.5, "id": "1", "at": first["at"], "channel": None}
    assert (second["id"], second["customer_name"], second["channel"], second["total"]) == ("2", "Ann", "web", None)
    assert datetime.fromisoformat(second["at"]) == NOON
