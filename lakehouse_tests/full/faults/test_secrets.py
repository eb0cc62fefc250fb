"""Secrets stay secret: no command, run or error writes one or passes it on."""

import os
import sqlite3
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import pytest

from lakehouse_tests.helpers.attacks.reliability import Attack
from lakehouse_tests.helpers.brokers.certificates import encrypted_for_java
from lakehouse_tests.helpers.brokers.registries import answering_registry, schema_answer
from lakehouse_tests.helpers.brokers.secured import Secured, secured_broker
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.processes import started_by

MARK = "mark3r"
PAIR = f"reader:{MARK}-of-registry".encode()
PASSWORD, WRONG_PASSWORD = (f"Basic {b64encode(pair).decode()}" for pair in (PAIR, PAIR + b"-wrong"))
TOKEN, WRONG_TOKEN = f"Bearer {MARK}-of-token", f"Bearer {MARK}-of-token-wrong"
ENCODED = b64encode(PAIR[: len(PAIR) // 3 * 3])
"""How the encoded password begins; the wrong password begins the same way."""

ORDERS_MODULE = """
from lakehouse import Avro, Column, StreamTable, Topic
from lakehouse.examples.tables.temperatures import temperatures

columns = [Column("id", "BIGINT", "Number.", required=True)]
topic = Topic("orders", partitions=1)
orders = StreamTable("orders", source=topic, doc="Orders.", columns=columns, key=["id"], format=Avro())
"""
SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
ANSWERS = {
    "/schemas/types": (200, '["AVRO"]'),
    "/schemas/ids/7": schema_answer(SCHEMA),
    "/subjects/orders-value/versions/latest": (200, '{"id": 7}'),
}


@dataclass(frozen=True)
class FinishedRun:
    """What a process that ran every command left behind: its output, its files and its arguments."""

    output: bytes
    home: Path
    arguments: bytes
    secrets: tuple[bytes, ...]
    authorizations: frozenset[str]
    """The Authorization headers of all requests to the schema registry."""

    def secrets_in(self, text: bytes) -> list[bytes]:
        return [secret for secret in self.secrets if secret in text]


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedRun]:
    folder = tmp_path_factory.mktemp("secrets")
    passwords = {"SCRAM-SHA-256": f"{MARK}-of-password", "PLAIN": f"{MARK}-of-password"}
    (folder / "broker").mkdir()
    with (
        secured_broker(folder / "broker", passwords) as broker,
        answering_registry(ANSWERS, allowed_headers=(PASSWORD, TOKEN)) as (url, requests),
    ):
        certificate, plain_key = broker.authority.sign("client")
        key = encrypted_for_java(plain_key, f"{MARK}-of-key")
        home = folder / "home"
        (home / "tmp").mkdir(parents=True)
        keys = {"CERTIFICATE_FILE": str(certificate), "KEY_FILE": str(key), "KEY_PASSWORD": f"{MARK}-of-key"}
        environment = {
            **{f"LAKEHOUSE_KAFKA_CLIENT_{name}": value for name, value in keys.items()},
            **access_settings(broker, url),
            "LAKEHOUSE_HOME": str(home),
            "LAKEHOUSE_DECLARATIONS": str(write_declarations(folder)),
            "LAKEHOUSE_SPARK_MASTER": "local[2]",
            "DAGSTER_HOME": str(home / "dagster"),
            "TMPDIR": str(home / "tmp"),
        }
        output, arguments = run(environment)
        secrets = (MARK.encode(), key.read_text().splitlines()[1].encode(), ENCODED)
        yield FinishedRun(
            output, home, arguments, secrets, frozenset(request.authorization or "" for request in requests)
        )


def access_settings(broker: Secured, registry: str) -> dict[str, str]:
    """The settings that give access to the broker and the schema registry."""
    return {
        "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": broker.sasl,
        "LAKEHOUSE_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "LAKEHOUSE_KAFKA_USERNAME": "app",
        "LAKEHOUSE_KAFKA_PASSWORD": f"{MARK}-of-password",
        "LAKEHOUSE_KAFKA_CA_FILE": str(broker.authority.file),
        "LAKEHOUSE_KAFKA_PROPERTIES": f'{{"client.id": "me", "gateway.ticket": "{MARK}-of-property"}}',
        "LAKEHOUSE_SPARK_CONF": f'{{"spark.hadoop.store.ticket": "{MARK}-of-spark"}}',
        "LAKEHOUSE_REGISTRY_URL": registry,
        "LAKEHOUSE_REGISTRY_USERNAME": "reader",
        "LAKEHOUSE_REGISTRY_PASSWORD": f"{MARK}-of-registry",
        "LAKEHOUSE_REGISTRY_TOKEN": f"{MARK}-of-token",
    }


def write_declarations(folder: Path) -> Path:
    """Write a folder that declares the temperatures and a table of Avro records."""
    package = folder / "tables_of_secrets"
    package.mkdir()
    (package / "orders.py").write_text(ORDERS_MODULE)
    return package


def run(environment: dict[str, str]) -> tuple[bytes, bytes]:
    """Run the process; return its output and the arguments of it and of every process that it started."""
    Path(environment["DAGSTER_HOME"]).mkdir()
    arguments: set[str] = set()
    has_ended = Event()
    with subprocess.Popen(
        [sys.executable, "-m", "lakehouse_tests.helpers.attacks.use_secrets"],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        collector = Thread(target=collect_arguments, args=(process.pid, arguments, has_ended))
        collector.start()
        try:
            output, _ = process.communicate(timeout=360)
        finally:
            process.kill()
            has_ended.set()
            collector.join()
    assert process.returncode == 0, output.decode()[-5000:]
    return output, "\n".join(arguments).encode()


def collect_arguments(process: int, arguments: set[str], has_ended: Event) -> None:
    while not has_ended.wait(0.2):
        arguments.update(started_by(process).values())


def read_content(file: Path) -> bytes:
    """The content of a file; also the text of a database, because its file splits long values."""
    content = file.read_bytes()
    if not content.startswith(b"SQLite format 3"):
        return content
    with sqlite3.connect(file) as database:
        return content + "\n".join(database.iterdump()).encode()


def test_the_run_left_everything_that_is_searched(finished_run: FinishedRun) -> None:
    """Otherwise a search that finds nothing would prove nothing."""
    assert b"all was done" in finished_run.output
    assert b"Unexpected" in finished_run.output
    assert b"java" in finished_run.arguments
    assert finished_run.authorizations == {PASSWORD, WRONG_PASSWORD, TOKEN, WRONG_TOKEN}
    assert b"The schema registry refuses schemas/ids/7, with 401" in finished_run.output
    assert b"No valid request to the schema registry can be built from these settings" in finished_run.output
    assert any((finished_run.home / "tables" / "orders_schemas").rglob("*.parquet"))
    folder_names = {
        path.relative_to(finished_run.home).parts[0] for path in finished_run.home.rglob("*") if path.is_file()
    }
    assert {"tables", "events", "dagster", "tmp"} <= folder_names
    events = [path for path in (finished_run.home / "events").rglob("*") if path.is_file()]
    assert any(b"SparkListenerSQLExecutionStart" in path.read_bytes() for path in events)
    assert b"SaslAuthenticationException" in b"".join(
        path.read_bytes() for path in (finished_run.home / "tmp").glob("*.txt")
    )


@pytest.mark.parametrize("folder_name", ["tables", "events", "dagster", "tmp", "logs"])
def test_no_secret_is_in_a_file_of_the_home(finished_run: FinishedRun, attack: Attack, folder_name: str) -> None:
    with attack("Secrets stay secret", "every file of the home is searched after runs that succeed and fail"):
        files = [path for path in (finished_run.home / folder_name).rglob("*") if path.is_file()]
        assert {
            str(path): finished_run.secrets_in(read_content(path))
            for path in files
            if finished_run.secrets_in(read_content(path))
        } == {}


def test_no_secret_is_in_the_output_of_commands_or_of_spark_at_info(finished_run: FinishedRun, attack: Attack) -> None:
    with attack("Secrets stay secret", "the output of commands, Dagster and Spark at INFO is searched"):
        assert [line for line in finished_run.output.splitlines() if finished_run.secrets_in(line)] == []


def test_no_secret_is_an_argument_of_a_process(finished_run: FinishedRun, attack: Attack) -> None:
    with attack("Secrets stay secret", "the arguments of every process are searched while it runs"):
        assert finished_run.secrets_in(finished_run.arguments) == []
