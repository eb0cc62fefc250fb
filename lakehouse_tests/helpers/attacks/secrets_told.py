"""A process that does all that a home is used for, with secrets in its environment and everything logged.

Spark logs at INFO and keeps its event log; a merge and a run of Dagster succeed, and each fails in Spark with
the client's own error, which is what a person would never see otherwise. Before that, the schema registry is asked
with a token, then with a password, and each is wrong once.
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
from lakehouse.ingest import batches
from lakehouse.kafka import look, publish, read_records
from lakehouse.settings import Settings
from lakehouse_tests.helpers.places import DATA

RECORDS = DATA / "stream.jsonl"
ASSETS = "temperatures,temperatures_rejected,orders,orders_rejected"
TOKEN, PASSWORD = "LAKEHOUSE_REGISTRY_TOKEN", "LAKEHOUSE_REGISTRY_PASSWORD"


def log_everything(settings: Settings) -> None:
    events = settings.make_folder("events")
    told = {
        "log.level": "INFO",
        "eventLog.enabled": "true",
        "eventLog.compress": "false",
        "eventLog.dir": events.as_uri(),
    }
    lakehouse.spark.sessions._QUIET |= {f"spark.{name}": value for name, value in told.items()}


def fail_in_spark() -> None:
    """From here on Spark asks with a wrong password, and its own error is passed on."""

    def read(spark: Any, settings: Settings, plan: Any) -> Any:
        assert settings.kafka_password
        wrong = SecretStr(f"{settings.kafka_password.get_secret_value()}-wrong")
        return read_records(spark, settings.model_copy(update={"kafka_password": wrong}), plan)

    patch = pytest.MonkeyPatch()
    patch.setattr(batches, "read_records", read)
    patch.setattr(batches, "read_failures", lambda *_: nullcontext())


def materialize(assets: str = ASSETS) -> bool:
    command = ["asset", "materialize", "-m", "lakehouse.definitions", "--select", assets]
    try:
        create_dagster_cli()(command, standalone_mode=False)
    except Exception as error:  # what a run that failed raises
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return False
    return True


def order(settings: Settings, number: int) -> None:
    """Send a record of Avro, by the newest schema of the registry."""
    line = settings.make_folder("tmp") / "order.jsonl"
    line.write_text(f'{{"id": {number}}}\n')
    assert run(["publish", "orders", str(line)]) == 0


def codes(*verbs: str) -> list[int]:
    return [run(verb.split()) for verb in verbs]


def ask_the_registry(settings: Settings) -> None:
    """Ask with the token, then with the password, then with what is wrong of each, and in vain."""
    order(settings, 1)
    assert codes("peek orders", "merge orders", "doctor") == [0, 0, 0]
    patch = pytest.MonkeyPatch()
    token, password = os.environ[TOKEN], os.environ[PASSWORD]
    with patch.context() as without:
        without.delenv(TOKEN)
        order(settings, 2)
        assert (done := codes("merge orders", "doctor --json")) == [0, 0], done
        order(settings, 3)
        without.setenv(PASSWORD, f"{password}-wrong")
        assert (done := codes("merge orders", "doctor")) == [1, 1], done
    for wrong in (f"{token}-wrong", f"{token}-\u0142"):  # the second cannot be asked with at all
        with patch.context() as other:
            other.setenv(TOKEN, wrong)
            assert (done := codes("merge orders", "doctor --json")) == [1, 1], done
            assert not materialize("orders,orders_rejected")


def merge_and_fail(settings: Settings) -> None:
    assert run(["publish", "temperatures", str(RECORDS), "--force"]) == 0
    done = codes("merge temperatures", "status", "status --json", "doctor --json", "audit")
    assert done == [0] * len(done), done
    publish(settings, temperatures, [b"{}"])
    assert materialize()
    assert look(settings, "temperatures").end
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
    ask_the_registry(settings)
    merge_and_fail(settings)
    session.stop()
    sys.stdout.write("all was done\n")


if __name__ == "__main__":
    main()
