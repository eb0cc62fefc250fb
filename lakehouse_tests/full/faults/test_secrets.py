"""Secrets stay secret: whatever is done and however it fails, none of them is written or passed on."""

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
"""How a password begins where it is told, also one with more behind it."""

DECLARED = """
from lakehouse import Avro, Column, StreamTable
from lakehouse.examples.tables.temperatures import temperatures

columns = [Column("id", "BIGINT", "Number.", required=True)]
orders = StreamTable("orders", "orders", "Orders.", columns, ["id"], format=Avro(), partitions=1)
"""
SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
ANSWERS = {
    "/schemas/types": (200, '["AVRO"]'),
    "/schemas/ids/7": schema_answer(SCHEMA),
    "/subjects/orders-value/versions/latest": (200, '{"id": 7}'),
}


@dataclass(frozen=True)
class Done:
    """What a process left that did all there is to do: what it said, wrote and was started with."""

    said: bytes
    home: Path
    arguments: bytes
    secrets: tuple[bytes, ...]
    told: frozenset[str]
    """Who asked the schema registry, as each question told it."""

    def held_by(self, text: bytes) -> list[bytes]:
        return [secret for secret in self.secrets if secret in text]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    folder = tmp_path_factory.mktemp("secrets")
    passwords = {"SCRAM-SHA-256": f"{MARK}-of-password", "PLAIN": f"{MARK}-of-password"}
    (folder / "broker").mkdir()
    with (
        secured_broker(folder / "broker", passwords) as broker,
        answering_registry(ANSWERS, allowed=(PASSWORD, TOKEN)) as (url, asked),
    ):
        certificate, plain = broker.authority.sign("client")
        key = encrypted_for_java(plain, f"{MARK}-of-key")
        home = folder / "home"
        (home / "tmp").mkdir(parents=True)
        keys = {"CERTIFICATE_FILE": str(certificate), "KEY_FILE": str(key), "KEY_PASSWORD": f"{MARK}-of-key"}
        environment = {
            **{f"LAKEHOUSE_KAFKA_CLIENT_{name}": value for name, value in keys.items()},
            **access(broker, url),
            "LAKEHOUSE_HOME": str(home),
            "LAKEHOUSE_DECLARATIONS": str(declared_in(folder)),
            "LAKEHOUSE_SPARK_MASTER": "local[2]",
            "DAGSTER_HOME": str(home / "dagster"),
            "TMPDIR": str(home / "tmp"),
        }
        told, arguments = run(environment)
        secrets = (MARK.encode(), key.read_text().splitlines()[1].encode(), ENCODED)
        yield Done(told, home, arguments, secrets, frozenset(each.authorization or "" for each in asked))


def access(broker: Secured, registry: str) -> dict[str, str]:
    """What the broker and the schema registry ask for."""
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


def declared_in(folder: Path) -> Path:
    """A folder that declares the temperatures, and a table of Avro."""
    there = folder / "tables_of_secrets"
    there.mkdir()
    (there / "orders.py").write_text(DECLARED)
    return there


def run(environment: dict[str, str]) -> tuple[bytes, bytes]:
    """What the process said, and the arguments of every process that it was or started."""
    Path(environment["DAGSTER_HOME"]).mkdir()
    seen: set[str] = set()
    over = Event()
    with subprocess.Popen(
        [sys.executable, "-m", "lakehouse_tests.helpers.attacks.use_secrets"],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        watcher = Thread(target=watch, args=(process.pid, seen, over))
        watcher.start()
        try:
            said, _ = process.communicate(timeout=360)
        finally:
            process.kill()
            over.set()
            watcher.join()
    assert process.returncode == 0, said.decode()[-5000:]
    return said, "\n".join(seen).encode()


def watch(process: int, seen: set[str], over: Event) -> None:
    while not over.wait(0.2):
        seen.update(started_by(process).values())


def dumped(file: Path) -> bytes:
    """What a file holds; a database as text, since a long value lies in several places of its file."""
    held = file.read_bytes()
    if not held.startswith(b"SQLite format 3"):
        return held
    with sqlite3.connect(file) as database:
        return held + "\n".join(database.iterdump()).encode()


def test_what_was_done_left_all_that_is_searched(done: Done) -> None:
    """Else nothing would be found whatever was written."""
    assert b"all was done" in done.said
    assert b"Unexpected" in done.said
    assert b"java" in done.arguments
    assert done.told == {PASSWORD, WRONG_PASSWORD, TOKEN, WRONG_TOKEN}
    assert b"The schema registry refuses schemas/ids/7, with 401" in done.said
    assert b"No valid request to the schema registry can be built from these settings" in done.said
    assert any((done.home / "tables" / "orders_schemas").rglob("*.parquet"))
    written = {path.relative_to(done.home).parts[0] for path in done.home.rglob("*") if path.is_file()}
    assert {"tables", "events", "dagster", "tmp"} <= written
    events = [path for path in (done.home / "events").rglob("*") if path.is_file()]
    assert any(b"SparkListenerSQLExecutionStart" in path.read_bytes() for path in events)
    assert b"SaslAuthenticationException" in b"".join(path.read_bytes() for path in (done.home / "tmp").glob("*.txt"))


@pytest.mark.parametrize("part", ["tables", "events", "dagster", "tmp", "logs"])
def test_no_secret_is_in_a_file_of_the_home(done: Done, attack: Attack, part: str) -> None:
    with attack("Secrets stay secret", "every file of the home is searched after runs that succeed and fail"):
        files = [path for path in (done.home / part).rglob("*") if path.is_file()]
        assert {str(path): done.held_by(dumped(path)) for path in files if done.held_by(dumped(path))} == {}


def test_no_secret_is_said_by_a_verb_or_by_spark_at_info(done: Done, attack: Attack) -> None:
    with attack("Secrets stay secret", "what verbs, Dagster and Spark at INFO say is searched"):
        assert [line for line in done.said.splitlines() if done.held_by(line)] == []


def test_no_secret_is_an_argument_of_a_process(done: Done, attack: Attack) -> None:
    with attack("Secrets stay secret", "the arguments of every process are searched while it runs"):
        assert done.held_by(done.arguments) == []
