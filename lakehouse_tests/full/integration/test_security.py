"""A broker with authentication and TLS: the same settings work for publish, status and Spark."""

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat
from pyspark.sql import SparkSession

from lakehouse.declaration import StreamTable
from lakehouse.errors import BrokerError, SettingsError, TopicError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import create_topic, publish, read_failures, read_records, read_topic
from lakehouse.ledger.planning import plan_batch
from lakehouse.ledger.positions import Plan
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.certificates import Authority, encrypted_for_java
from lakehouse_tests.helpers.brokers.secured import Secured, secured_broker
from lakehouse_tests.helpers.tables.tables import redeclare

PASSWORDS = {"PLAIN": 'a "quoted" word', "SCRAM-SHA-256": "another word"}
USER = "LAKEHOUSE_KAFKA_USERNAME and LAKEHOUSE_KAFKA_PASSWORD"
MECHANISM = "LAKEHOUSE_KAFKA_SASL_MECHANISM"
PROTOCOL = "LAKEHOUSE_KAFKA_SECURITY_PROTOCOL"
CERTIFICATE = "LAKEHOUSE_KAFKA_CLIENT_CERTIFICATE_FILE"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured"), PASSWORDS) as server:
        yield server


@pytest.fixture(scope="module")
def trusted_settings(broker: Secured) -> Settings:
    """Settings with a client certificate that the broker trusts; its key is encrypted."""
    certificate, key = broker.authority.sign("client")
    files = {
        "kafka_client_certificate_file": certificate,
        "kafka_client_key_file": encrypted_for_java(key, "pass word"),
    }
    return broker.with_certificate(**files, kafka_client_key_password="pass word")


def change_settings(settings: Settings, **changes: Any) -> Settings:
    return Settings(**{**{name: getattr(settings, name) for name in Settings.model_fields}, **changes}, _env_file=None)


def table() -> StreamTable:
    return redeclare(temperatures, topic=f"t-{uuid4().hex[:12]}")


def publish_and_read(spark: SparkSession, settings: Settings) -> list[bytes]:
    stream = table()
    assert publish(settings, stream, [b"one", b"two"]) == 2
    rows = read_records(spark, settings, plan_batch(read_topic(settings, stream.topic), None)).collect()
    return sorted(bytes(row["_value"]) for row in rows)


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_records_are_published_and_read_by_spark(spark: SparkSession, broker: Secured, mechanism: str) -> None:
    assert publish_and_read(spark, broker.with_sasl(mechanism)) == [b"one", b"two"]


def test_a_client_certificate_opens_the_broker_to_all_clients(spark: SparkSession, trusted_settings: Settings) -> None:
    assert publish_and_read(spark, trusted_settings) == [b"one", b"two"]


def test_other_properties_reach_all_clients(spark: SparkSession, broker: Secured) -> None:
    """One property for all clients, some for the producer alone, and one that only Spark's client has."""
    properties = {"client.id": "somebody", "linger.ms": 1, "batch.size": 1000, "receive.buffer.bytes": 65536}
    settings = broker.with_sasl(kafka_properties=properties)
    assert publish_and_read(spark, settings) == [b"one", b"two"]


def test_publishing_to_an_existing_topic_needs_no_right_to_create_one(broker: Secured) -> None:
    stream = table()
    assert publish(broker.with_sasl(), stream, [b"one"]) == 1
    limited_settings = broker.creating_nothing()
    assert publish(limited_settings, stream, [b"two"]) == 1
    with pytest.raises(TopicError, match="The broker refused.*this user's rights"):
        create_topic(limited_settings, table())


def other_authority(broker: Secured, tmp_path: Path) -> Settings:
    certificate, key = Authority(tmp_path / "other").sign("client")
    return broker.with_certificate(kafka_client_certificate_file=certificate, kafka_client_key_file=key)


CAUSES = {
    "a wrong password": (
        lambda broker, _: broker.with_sasl(kafka_password="wrong"),
        ("refuses the user name or the password", USER),
    ),
    "a wrong password of PLAIN": (
        lambda broker, _: broker.with_sasl("PLAIN", kafka_password="wrong"),
        ("refuses the user name or the password", USER),
    ),
    "an unknown user": (
        lambda broker, _: broker.with_sasl(kafka_username="nobody"),
        ("refuses the user name or the password", USER),
    ),
    "an unknown mechanism": (lambda broker, _: broker.with_sasl("SCRAM-SHA-512"), ("SASL mechanism", MECHANISM)),
    "an unknown authority": (
        lambda broker, _: broker.with_sasl(kafka_ca_file=None),
        ("authority that is not trusted", "LAKEHOUSE_KAFKA_CA_FILE"),
    ),
    "another host": (
        lambda broker, _: broker.with_sasl(kafka_bootstrap_servers=broker.sasl.replace("127.0.0.1", "localhost")),
        ("certificate is for another host", "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS"),
    ),
    "no client certificate": (
        lambda broker, _: broker.with_certificate(),
        ("requires a client certificate, and none is set", CERTIFICATE),
    ),
    "a client certificate of another authority": (other_authority, ("refuses the client certificate", CERTIFICATE)),
    "plaintext to a TLS port": (
        lambda broker, _: Settings(kafka_bootstrap_servers=broker.sasl, _env_file=None),
        ("requires TLS, and the client does not use it", PROTOCOL),
    ),
    "a password in plaintext to a TLS port": (
        lambda broker, _: broker.with_sasl(kafka_security_protocol="SASL_PLAINTEXT"),
        ("requires TLS, and the client does not use it", PROTOCOL),
    ),
    "TLS to a plaintext port": (
        lambda broker, _: broker.with_certificate(kafka_bootstrap_servers=broker.plain),
        ("does not support TLS, and the client uses it", PROTOCOL),
    ),
    "no password although one is required": (
        lambda broker, _: broker.with_certificate(kafka_bootstrap_servers=broker.sasl),
        ("requires a user name and a password", PROTOCOL),
    ),
    "a password that the broker does not accept": (
        lambda broker, _: broker.with_sasl(
            kafka_bootstrap_servers=broker.plain, kafka_security_protocol="SASL_PLAINTEXT"
        ),
        ("does not accept a user name and password", PROTOCOL),
    ),
}


@pytest.mark.parametrize("case", CAUSES)
def test_an_error_names_its_cause_and_the_setting(broker: Secured, tmp_path: Path, case: str) -> None:
    make_settings, (fact, setting) = CAUSES[case]
    with pytest.raises(BrokerError) as error_info:
        read_topic(make_settings(broker, tmp_path), "any")
    assert fact in error_info.value.what
    assert setting in error_info.value.action
    assert "wrong" not in str(error_info.value)


@pytest.mark.parametrize(
    "case", ["a wrong password", "an unknown authority", "a client certificate of another authority"]
)
def test_spark_names_the_same_cause(spark: SparkSession, broker: Secured, tmp_path: Path, case: str) -> None:
    make_settings, (fact, setting) = CAUSES[case]
    stream = table()
    publish(broker.with_sasl(), stream, [b"one"])
    plan: Plan = plan_batch(read_topic(broker.with_sasl(), stream.topic), None)
    with pytest.raises(BrokerError) as error_info, read_failures(plan, "lakehouse merge"):
        read_records(spark, make_settings(broker, tmp_path), plan).collect()
    assert fact in error_info.value.what
    assert setting in error_info.value.action


def test_a_file_without_a_certificate_is_a_wrong_setting(broker: Secured, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(SettingsError, match="LAKEHOUSE_KAFKA_CA_FILE is not a readable PEM file"):
        read_topic(broker.with_sasl(kafka_ca_file=tmp_path / "ca.pem"), "any")


@pytest.mark.parametrize("password", [None, "wrong"])
def test_a_key_without_its_password_is_a_wrong_setting(trusted_settings: Settings, password: str | None) -> None:
    with pytest.raises(SettingsError, match="LAKEHOUSE_KAFKA_CLIENT_KEY_FILE cannot be used") as error_info:
        read_topic(change_settings(trusted_settings, kafka_client_key_password=password), "any")
    assert "LAKEHOUSE_KAFKA_CLIENT_KEY_PASSWORD" in error_info.value.action


@pytest.mark.parametrize(
    ("form", "fact"),
    [
        ({"key_format": PrivateFormat.TraditionalOpenSSL}, "has no private key in PKCS#8"),
        ({"password": "pass word"}, "encrypted with PBES2"),
    ],
)
def test_the_error_for_a_key_that_spark_cannot_read_names_the_command_to_convert_it(
    broker: Secured, tmp_path: Path, form: dict[str, Any], fact: str
) -> None:
    certificate, key = Authority(tmp_path).sign("client", **form)
    settings = broker.with_certificate(kafka_client_certificate_file=certificate, kafka_client_key_file=key)
    with pytest.raises(SettingsError, match=fact) as error_info:
        read_topic(settings, "any")
    assert "openssl pkcs8 -topk8" in error_info.value.action


def test_a_property_of_the_wrong_type_is_named_without_its_value(broker: Secured) -> None:
    settings = broker.with_sasl(kafka_properties={"metadata.max.age.ms": "a while"})
    with pytest.raises(SettingsError, match="metadata.max.age.ms must be a whole number") as error_info:
        read_topic(settings, "any")
    assert "a while" not in str(error_info.value)


def test_a_property_that_only_the_spark_client_has_is_ignored_by_the_python_client(broker: Secured) -> None:
    settings = broker.with_sasl(kafka_properties={"client.dns.lookup": "use_all_dns_ips"})
    assert publish(settings, table(), [b"one"]) == 1


def test_a_property_that_the_client_of_spark_refuses_is_named_without_its_value(
    spark: SparkSession, broker: Secured
) -> None:
    stream = table()
    publish(broker.with_sasl(), stream, [b"one"])
    plan: Plan = plan_batch(read_topic(broker.with_sasl(), stream.topic), None)
    settings = broker.with_sasl(kafka_properties='{"client.dns.lookup": "s3cr3t"}')
    with pytest.raises(SettingsError, match="client.dns.lookup") as error_info, read_failures(plan, "lakehouse merge"):
        read_records(spark, settings, plan).collect()
    lines = traceback.format_exception(error_info.value)
    assert not [line for line in lines if "s3cr3t" in line and "kafka_properties=" not in line]
