"""A schema registry that is killed, hangs, is made anew or rolled back: records wait for it, and none is misread."""

import signal
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import requests

from lakehouse.declaration import Column
from lakehouse.errors import RegistryError
from lakehouse.ingest.redrive import redrive
from lakehouse.kafka import create_topic
from lakehouse.kafka import registry_client as registries
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.registries import FIRST, SECOND, order_table, register, written
from lakehouse_tests.helpers.brokers.servers import OneServer
from lakehouse_tests.helpers.brokers.streams import Stream

pytestmark = pytest.mark.invariant(1, 3, 7, 8)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HUNG_LIMIT = 25.0  # seconds in which a batch ends that asks a registry that hangs


@pytest.fixture
def stream(spark: Any, broker: Settings, one_registry: OneServer, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """Orders whose schemas are in a registry that is harmed; who asks in vain says so at once."""
    monkeypatch.setattr(registries, "_PATIENCE", 0.0)
    settings = Settings(**{**broker.model_dump(), "registry_url": one_registry.embedded.address})
    made = Stream(spark, settings, order_table())
    create_topic(settings, made.table)
    return made


def first(schema_id: int, *numbers: int, total: float = 1.0) -> list[bytes]:
    at = [NOON + timedelta(minutes=number) for number in numbers]
    values = [{"id": Decimal(n), "at": each, "total": total} for n, each in zip(numbers, at, strict=True)]
    return written(schema_id, FIRST, values)


def second(schema_id: int, *numbers: int) -> list[bytes]:
    values = [{"id": Decimal(n), "at": NOON, "customer": {"name": "Ann"}, "total": 2.0} for n in numbers]
    return written(schema_id, SECOND, values)


def assert_holds(stream: Stream, *orders: tuple[int, float, str | None]) -> None:
    assert stream.sql("SELECT CAST(id AS INT), total, customer FROM {t} ORDER BY id") == list(orders)
    stream.assert_accounted()


def assert_stops(stream: Stream, match: str) -> None:
    """A batch ends with an error, and nothing of it is anywhere."""
    version, rejected = stream.ledger.version, stream.rejected()
    with pytest.raises(RegistryError, match=match):
        stream.merge()
    assert (stream.ledger.version, stream.rejected()) == (version, rejected)


def begun(stream: Stream) -> int:
    """One order is merged; returns the id of its schema."""
    schema_id = register(stream.settings, stream.table, FIRST)
    stream.send(*first(schema_id, 1))
    stream.merge()
    return schema_id


@pytest.mark.parametrize("turn", range(3))
def test_a_registry_killed_and_restarted_while_schemas_are_asked_for(stream, one_registry, attack, monkeypatch, turn):
    ids = register(stream.settings, stream.table, FIRST), register(stream.settings, stream.table, SECOND)
    stream.send(*first(ids[0], 1, 3), *second(ids[1], 2))
    real, killed = registries.Registry.schema, list[int]()

    def asked(talk: registries.Registry, schema_id: int, kind: str | None) -> Any:
        if len(killed) == 1:  # the first is answered, the second is not
            one_registry.signal(signal.SIGKILL)
        killed.append(schema_id)
        return real(talk, schema_id, kind)

    monkeypatch.setattr(registries, "_PATIENCE", 60.0)
    monkeypatch.setattr(registries.Registry, "schema", asked)
    with attack("Nothing is lost", "registry killed and restarted while schemas are asked for"):
        with one_registry.restarted_when_dead():
            stream.merge()
        assert sorted(killed) == sorted(ids)
        assert_holds(stream, (1, 1.0, None), (2, 2.0, "Ann"), (3, 1.0, None))


def test_a_registry_that_stays_dead_is_waited_for_by_the_next_run(stream, one_registry, attack):
    schema_id = begun(stream)
    newer = register(stream.settings, stream.table, SECOND)
    stream.send(*second(newer, 2), *first(schema_id, 3), b"\x00")
    with attack("Nothing is lost", "registry dead when schemas are asked for, and back for the next run"):
        one_registry.signal(signal.SIGKILL)
        assert_stops(stream, "cannot be reached")
        one_registry.embedded.start()
        stream.merge()
        assert_holds(stream, (1, 1.0, None), (2, 2.0, "Ann"), (3, 1.0, None))
        assert [row[2] for row in stream.rejected()] == ["truncated"]


def test_a_registry_that_hangs_ends_a_batch_in_time(stream, one_registry, attack):
    stream.send(*first(begun(stream), 2))
    try:
        with attack("Nothing is silent", "registry hangs when schemas are asked for"):
            one_registry.signal(signal.SIGSTOP)
            began = time.monotonic()
            assert_stops(stream, "cannot be reached")
            assert time.monotonic() - began < HUNG_LIMIT
    finally:
        one_registry.signal(signal.SIGCONT)
    with attack("Nothing is lost", "registry hung when schemas were asked for"):
        stream.merge()
        assert_holds(stream, (1, 1.0, None), (2, 1.0, None))


def test_a_replay_and_a_redrive_need_no_registry(stream, one_registry, attack):
    schema_id = begun(stream)
    stream.send(*first(schema_id, 2, total=2e6))
    stream.merge()
    total = Column("total", "DOUBLE", "Any.")
    columns = [total if column.name == "total" else column for column in stream.table.columns]
    with attack("Nothing is lost", "registry dead during a replay and a redrive"):
        one_registry.signal(signal.SIGKILL)
        stream.replay()
        stream.table = replace(stream.table, columns=columns)
        redrive(stream.context)
        one_registry.embedded.start()
        assert_holds(stream, (1, 1.0, None), (2, 2e6, None))
        assert stream.rejected() == []


def test_a_registry_made_anew_that_gives_an_id_to_another_schema_stops_the_run(stream, one_registry, attack, tmp_path):
    one_registry.start_with(None)
    schema_id = begun(stream)
    one_registry.copy_data(tmp_path / "copy")
    with attack("Nothing is silent", "registry made anew: an id means another schema"):
        one_registry.start_with(None)
        changed = {**FIRST, "fields": [*FIRST["fields"][:2], {"name": "total", "type": "long"}]}
        assert register(stream.settings, stream.table, changed) == schema_id
        stream.send(*first(schema_id, 2))
        assert_stops(stream, f"Schema {schema_id} of the registry has changed")
    with attack("Nothing is lost", "registry made anew, and its data brought back"):
        one_registry.start_with(tmp_path / "copy")
        stream.merge()
        assert_holds(stream, (1, 1.0, None), (2, 1.0, None))


def test_a_registry_made_anew_that_knows_no_id_changes_nothing_of_what_is_known(stream, one_registry, attack):
    schema_id = begun(stream)
    with attack("Nothing is lost", "registry made anew: it knows no id that is kept"):
        one_registry.start_with(None)
        stream.send(*first(schema_id, 2))
        stream.merge()
        assert_holds(stream, (1, 1.0, None), (2, 1.0, None))


def test_a_registry_restored_from_an_older_copy_lacks_a_schema_until_it_is_there_again(
    stream, one_registry, attack, tmp_path
):
    begun(stream)
    one_registry.copy_data(tmp_path / "copy")
    newer = register(stream.settings, stream.table, SECOND)
    with attack("Nothing is lost", "registry restored from an older copy: a schema is unknown until it is there again"):
        one_registry.start_with(tmp_path / "copy")
        stream.send(*second(newer, 2))
        stream.merge()
        assert [row[2] for row in stream.rejected()] == ["unknown_schema"]
        assert redrive(stream.context) == []
        assert register(stream.settings, stream.table, SECOND) == newer
        redrive(stream.context)
        assert stream.rejected() == []
        assert_holds(stream, (1, 1.0, None), (2, 2.0, "Ann"))


def test_a_schema_that_is_deleted_is_read_by_what_is_kept(stream, one_registry, attack):
    schema_id = begun(stream)
    with attack("Nothing is lost", "a schema is deleted from its registry"):
        url, subject = stream.settings.registry_url, f"{stream.table.topic}-value"
        for more in ("", "?permanent=true"):
            _delete(f"{url}/subjects/{subject}{more}")
        stream.send(*first(schema_id, 2))
        stream.merge()
        assert_holds(stream, (1, 1.0, None), (2, 1.0, None))


def _delete(url: str) -> None:
    answer = requests.delete(url, timeout=10)
    assert answer.status_code == 200, answer.text
