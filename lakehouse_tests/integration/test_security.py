"""A broker that asks who we are, over TLS: the same settings serve publishing, looking and Spark."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import BrokerError, SettingsError
from lakehouse.local.java import find_java
from lakehouse.local.kafka import Kafka, new_cluster_id
from lakehouse.local.ports import LOOPBACK, Ports, broker_answers, draw_ports
from lakehouse.local.process import Child
from lakehouse.offsets import plan_batch
from lakehouse.settings import Settings
from lakehouse.tables.temperatures import temperatures
from lakehouse.topic import look, publish, read_records
from lakehouse_tests.integration.test_broker import wait_until

PASSWORDS = {"PLAIN": 'a "quoted" word', "SCRAM-SHA-256": "another word"}
SECURED = """
listeners=PLAINTEXT://{own},SASL_SSL://{secured},CONTROLLER://{controller}
advertised.listeners=PLAINTEXT://{own},SASL_SSL://{secured}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
ssl.keystore.type=PKCS12
ssl.keystore.location={folder}/broker.p12
ssl.keystore.password=keystore
ssl.key.password=keystore
sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_app="a \\\\"quoted\\\\" word";
"""


def keytool(folder: Path, *arguments: str) -> None:
    store = ["-keystore", str(folder / "broker.p12"), "-storepass", "keystore", "-alias", "broker"]
    program = find_java().path.with_name("keytool")
    subprocess.run([program, *arguments, *store], check=True, capture_output=True)


def write_certificate(folder: Path) -> None:
    key = ["-keyalg", "RSA", "-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1,dns:localhost"]
    keytool(folder, "-genkeypair", "-storetype", "PKCS12", *key)
    keytool(folder, "-exportcert", "-rfc", "-file", str(folder / "ca.pem"))


def secured_command(folder: Path, ports: Ports, secured: str) -> list[str]:
    """Prepare the data with a user for SCRAM, and return the command that runs the broker."""
    command = Kafka(Settings(_env_file=None), folder).command(ports)
    controller = f"{LOOPBACK}:{ports.controller}"
    added = SECURED.format(own=ports.address, secured=secured, controller=controller, folder=folder)
    properties = folder / "server.properties"
    properties.write_text(properties.read_text() + added)
    tool = [*command[:-2], "kafka.tools.StorageTool", "format", "--cluster-id", new_cluster_id()]
    user = f"SCRAM-SHA-256=[name=app,password={PASSWORDS['SCRAM-SHA-256']}]"
    subprocess.run([*tool, "--config", str(properties), "--add-scram", user], check=True, capture_output=True)
    return command


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the settings of a client have in common."""
    folder = tmp_path_factory.mktemp("secured")
    write_certificate(folder)
    ports, other = draw_ports(folder), draw_ports(folder)
    child = Child(secured_command(folder, ports, other.address), folder / "log")
    assert wait_until(lambda: broker_answers(ports.broker), 30), (folder / "log").read_text()
    yield {
        "kafka_bootstrap_servers": other.address,
        "kafka_security_protocol": "SASL_SSL",
        "kafka_username": "app",
        "kafka_ca_file": folder / "ca.pem",
        "_env_file": None,
    }
    child.stop()


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_records_are_published_and_read_by_spark(spark: SparkSession, access: dict[str, Any], mechanism: str) -> None:
    settings = Settings(**access, kafka_sasl_mechanism=mechanism, kafka_password=PASSWORDS[mechanism])
    table = replace(temperatures, topic=f"t-{uuid4().hex[:12]}")
    assert publish(settings, table, [b"one", b"two"]) == 2
    rows = read_records(spark, settings, plan_batch(look(settings, table.topic), None)).collect()
    assert sorted(bytes(row.value) for row in rows) == [b"one", b"two"]


def test_a_wrong_password_is_told_apart_from_a_broker_that_is_down(access: dict[str, Any]) -> None:
    settings = Settings(**access, kafka_password="wrong")
    with pytest.raises(BrokerError, match="(?i)authentication") as caught:
        look(settings, "any")
    assert "name, password" in caught.value.action
    assert "wrong" not in str(caught.value)


def test_a_certificate_of_an_unknown_authority_is_refused(access: dict[str, Any]) -> None:
    settings = Settings(**{**access, "kafka_ca_file": None}, kafka_password="another word")
    with pytest.raises(BrokerError, match="certificate verify failed"):
        look(settings, "any")


def test_a_file_without_a_certificate_is_a_wrong_setting(access: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none")
    settings = Settings(**{**access, "kafka_ca_file": tmp_path / "ca.pem"}, kafka_password="another word")
    with pytest.raises(SettingsError, match="LAKEHOUSE_KAFKA_CA_FILE is no readable PEM file"):
        look(settings, "any")
