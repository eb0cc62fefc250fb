"""A process that uses a home in every way, with secrets in its environment and with all logs enabled.

Spark logs at INFO and writes its event log. A merge and a run of Dagster succeed; then each fails in Spark with the
error of the Kafka client, which users otherwise never see. Before that, the process asks the schema registry with a
token and with a password, both right and wrong.
"""

import os
import sys
from contextlib import nullcontext
from typing import Any

import pytest
from dagster._cli import create_dagster_cli
from pydantic import SecretStr

import lakehouse.spark.sessions
from lakehouse.cli.main import run
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import publish, read_records, read_topic
from lakehouse.settings import Settings
from lakehouse.sources import table_sources
from lakehouse_tests.helpers.places import DATA

RECORDS = DATA / "stream.jsonl"
ASSETS = "temperatures,temperatures_rejected,orders,orders_rejected"
TOKEN, PASSWORD = "LAKEHOUSE_REGISTRY_TOKEN", "LAKEHOUSE_REGISTRY_PASSWORD"


def log_everything(settings: Settings) -> None:
    events = settings.make_folder("events")
    options = {
        "log.level": "INFO",
        "eventLog.enabled": "true",
        "eventLog.compress": "false",
        "eventLog.dir": events.as_uri(),
    }
    lakehouse.spark.sessions._QUIET |= {f"spark.{name}": value for name, value in options.items()}


def fail_in_spark() -> None:
    """Make Spark use a wrong password, and let its own error through."""

    def read_with_wrong_password(spark: Any, settings: Settings, plan: Any) -> Any:
        assert settings.kafka_password
        wrong_password = SecretStr(f"{settings.kafka_password.get_secret_value()}-wrong")
        return read_records(spark, settings.model_copy(update={"kafka_password": wrong_password}), plan)

    patch = pytest.MonkeyPatch()
    patch.setattr(table_sources, "read_records", read_with_wrong_password)
    patch.setattr(table_sources, "read_failures", lambda *_: nullcontext())


def materialize(assets: str = ASSETS) -> bool:
    command = ["asset", "materialize", "-m", "lakehouse.definitions", "--select", assets]
    try:
        create_dagster_cli()(command, standalone_mode=False)
    except Exception as error:  # the exception of a failed run
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return False
    return True


def publish_order(settings: Settings, number: int) -> None:
    """Publish an Avro record with the newest schema of the registry."""
    file = settings.make_folder("tmp") / "order.jsonl"
    file.write_text(f'{{"id": {number}}}\n')
    assert run(["publish", "orders", str(file)]) == 0


def exit_codes_of(*verbs: str) -> list[int]:
    return [run(verb.split()) for verb in verbs]


def use_registry(settings: Settings) -> None:
    """Use the right token and password, which work, then a wrong password and wrong tokens, which fail."""
    publish_order(settings, 1)
    assert exit_codes_of("peek orders", "merge orders", "doctor") == [0, 0, 0]
    patch = pytest.MonkeyPatch()
    token, password = os.environ[TOKEN], os.environ[PASSWORD]
    with patch.context() as patched:
        patched.delenv(TOKEN)
        publish_order(settings, 2)
        assert (exit_codes := exit_codes_of("merge orders", "doctor --json")) == [0, 0], exit_codes
        publish_order(settings, 3)
        patched.setenv(PASSWORD, f"{password}-wrong")
        assert (exit_codes := exit_codes_of("merge orders", "doctor")) == [1, 1], exit_codes
    for wrong_token in (f"{token}-wrong", f"{token}-\u0142"):  # the second cannot be sent at all
        with patch.context() as patched:
            patched.setenv(TOKEN, wrong_token)
            assert (exit_codes := exit_codes_of("merge orders", "doctor --json")) == [1, 1], exit_codes
            assert not materialize("orders,orders_rejected")


def merge_and_fail(settings: Settings) -> None:
    assert run(["publish", "temperatures", str(RECORDS), "--force"]) == 0
    exit_codes = exit_codes_of("merge temperatures", "status", "status --json", "doctor --json", "audit")
    assert exit_codes == [0] * len(exit_codes), exit_codes
    publish(settings, temperatures, [b"{}"])
    assert materialize()
    assert read_topic(settings, "temperatures").end
    publish(settings, temperatures, [b"{}"])
    fail_in_spark()
    assert run(["merge", "temperatures"]) == 1
    assert not materialize()


def main() -> None:
    settings = Settings.load()
    log_everything(settings)
    session = lakehouse.spark.sessions.build_session(settings)
    patch = pytest.MonkeyPatch()
    patch.setattr(lakehouse.spark.sessions, "build_session", lambda _: session)
    patch.setattr(lakehouse.spark.sessions, "stop_session", lambda *_: None)
    use_registry(settings)
    merge_and_fail(settings)
    session.stop()
    sys.stdout.write("all was done\n")


if __name__ == "__main__":
    main()
