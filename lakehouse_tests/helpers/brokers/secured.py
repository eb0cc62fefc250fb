"""A broker that authenticates clients over TLS: by SASL on one listener, by client certificate on another."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest

from lakehouse.local.embedded import broker_answers, draw_ports
from lakehouse.local.process import Child
from lakehouse.local.servers import Kafka, new_cluster_id
from lakehouse.settings import Settings
from lakehouse.settings.addresses import LOOPBACK, Ports
from lakehouse_tests.helpers.brokers.certificates import Authority
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.waiting import wait_until

_LISTENERS = """
listeners=PLAINTEXT://{plain},SASL_SSL://{sasl},SSL://{mutual},CONTROLLER://{controller}
advertised.listeners=PLAINTEXT://{plain},SASL_SSL://{sasl},SSL://{mutual}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.ssl.ssl.client.auth=required
sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_app="{plain_password}"\
 user_limited="{plain_password}";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
"""
_RESOURCES = ((4, "kafka-cluster"), (2, "*"))  # the cluster and every topic, as resources of access rights
_LITERAL, _ALL, _CREATE, _DENY, _ALLOW = 3, 2, 5, 2, 3


@dataclass(frozen=True)
class Secured:
    """The addresses of a secured broker, its authority and its passwords."""

    plain: str
    sasl: str
    mutual: str
    authority: Authority
    passwords: dict[str, str]

    def with_sasl(self, mechanism: str = "SCRAM-SHA-256", **changes: Any) -> Settings:
        values = {
            "kafka_bootstrap_servers": self.sasl,
            "kafka_security_protocol": "SASL_SSL",
            "kafka_sasl_mechanism": mechanism,
            "kafka_username": "app",
            "kafka_password": self.passwords.get(mechanism, "none"),
            "kafka_ca_file": self.authority.file,
        }
        return Settings(**{**values, **changes}, _env_file=None)

    def creating_nothing(self) -> Settings:
        """Return the settings of a user who may do everything except create topics."""
        rights = [("User:*", _ALL, _ALLOW), ("User:limited", _CREATE, _DENY)]

        async def grant(admin: AIOKafkaAdminClient) -> None:
            client = admin._client
            for kind, name in _RESOURCES:
                for user, operation, permission in rights:
                    request = CreateAclsRequest(kind, name, _LITERAL, user, "*", operation, permission)
                    answer = await client.send(client.get_random_node(), request)
                    assert [code for code, _ in answer.creation_responses] == [0]

        with_client(AIOKafkaAdminClient, Settings(kafka_bootstrap_servers=self.plain, _env_file=None), grant)
        return self.with_sasl("PLAIN", kafka_username="limited")

    def with_certificate(self, **changes: Any) -> Settings:
        values = {
            "kafka_bootstrap_servers": self.mutual,
            "kafka_security_protocol": "SSL",
            "kafka_ca_file": self.authority.file,
        }
        return Settings(**{**values, **changes}, _env_file=None)


@contextmanager
def secured_broker(folder: Path, passwords: dict[str, str]) -> Iterator[Secured]:
    """Run a secured broker; ``passwords`` are the passwords of the user ``app`` by mechanism."""
    authority = Authority(folder / "authority")
    certificate, key = authority.sign(LOOPBACK)
    (folder / "broker.pem").write_bytes(key.read_bytes() + certificate.read_bytes())
    ports, more_ports = draw_ports(folder), draw_ports(folder)
    broker = Secured(ports.address, more_ports.address, f"{LOOPBACK}:{more_ports.controller}", authority, passwords)
    child = Child(_command(folder, ports, broker), folder / "log")
    try:
        assert wait_until(lambda: broker_answers(ports.broker), 30), (folder / "log").read_text()
        yield broker
    finally:
        child.stop()


def _command(folder: Path, ports: Ports, broker: Secured) -> list[str]:
    """Format the data folder with a user for SCRAM and return the command that starts the broker."""
    command = Kafka(Settings(_env_file=None), folder).command(ports)
    controller = f"{LOOPBACK}:{ports.controller}"
    password = broker.passwords["PLAIN"].replace('"', '\\\\"')
    addresses = {"plain": broker.plain, "sasl": broker.sasl, "mutual": broker.mutual, "controller": controller}
    listeners = _LISTENERS.format(**addresses, folder=folder, authority=broker.authority.file, plain_password=password)
    properties = folder / "server.properties"
    properties.write_text(properties.read_text() + listeners)
    format_command = [*command[:-2], "kafka.tools.StorageTool", "format", "--cluster-id", new_cluster_id()]
    user = f"SCRAM-SHA-256=[name=app,password={broker.passwords['SCRAM-SHA-256']}]"
    subprocess.run([*format_command, "--config", str(properties), "--add-scram", user], check=True, capture_output=True)
    return command
