"""Other properties of Kafka's clients: each client gets those that it has an argument for, with the right type."""

import asyncio
import json
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from lakehouse.errors import SettingsError
from lakehouse.kafka.clients import Clients, arguments, only_in_spark
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import lakehouse_says

PROPERTIES = {
    "client.id": "7",
    "linger.ms": 5,
    "batch.size": 1000,
    "compression.type": "none",
    "max.poll.records": 10,
    "check.crcs": False,
    "request.timeout.ms": 9000,
    "receive.buffer.bytes": 65536,
    "loop": "x",
}


def test_each_client_gets_the_properties_that_it_has_arguments_for() -> None:
    properties = Settings(kafka_properties=PROPERTIES, _env_file=None).client_properties
    shared_arguments = {"client_id": "7", "request_timeout_ms": 9000}
    assert arguments(properties, AIOKafkaAdminClient) == shared_arguments
    assert arguments(properties, AIOKafkaProducer) == {
        **shared_arguments,
        "linger_ms": 5,
        "max_batch_size": 1000,
        "compression_type": None,
    }
    assert arguments(properties, AIOKafkaConsumer) == {**shared_arguments, "max_poll_records": 10, "check_crcs": False}


def test_properties_without_an_argument_are_only_for_spark() -> None:
    assert only_in_spark(Settings(kafka_properties=PROPERTIES, _env_file=None)) == ["receive.buffer.bytes", "loop"]


@pytest.mark.parametrize(
    ("name", "expected"), [("request.timeout.ms", "a whole number"), ("check.crcs", "true or false")]
)
def test_a_value_of_the_wrong_type_is_refused_and_not_shown(name: str, expected: str) -> None:
    properties = Settings(kafka_properties={name: "s3cret"}, _env_file=None).client_properties
    with pytest.raises(SettingsError, match=f"{name} must be {expected}") as raised:
        arguments(properties, AIOKafkaConsumer)
    assert "s3cret" not in str(raised.value)


def test_a_value_that_a_client_refuses_is_not_shown() -> None:
    settings = Settings(
        kafka_bootstrap_servers="127.0.0.1:1", kafka_properties={"compression.type": "s3cret"}, _env_file=None
    )
    with pytest.raises(SettingsError, match="A value in LAKEHOUSE_KAFKA_PROPERTIES cannot be used") as raised:
        asyncio.run(open_producer(settings))
    assert "compression.type" in str(raised.value)
    assert "s3cret" not in str(raised.value)


async def open_producer(settings: Settings) -> None:
    async with Clients(settings, 1).open(AIOKafkaProducer):
        pass


def test_doctor_names_the_properties_that_only_spark_knows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEHOUSE_KAFKA_PROPERTIES", json.dumps({"client.id": "s3cret", "receive.buffer.bytes": 99887}))
    output = lakehouse_says("doctor", "--json").out
    part = next(part for part in json.loads(output) if part["part"] == "Kafka properties")
    assert part["detail"] == "only Spark's client supports receive.buffer.bytes"
    assert "s3cret" not in output
    assert "99887" not in output
