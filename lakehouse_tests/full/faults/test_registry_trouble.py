"""A schema registry is killed, hangs, is recreated or restored: records wait for it, and none is misread."""

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
from lakehouse.kafka import registry_client as registries
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.registries import FIRST, SECOND, encode_records, order_table, register
from lakehouse_tests.helpers.brokers.servers import OneServer
from lakehouse_tests.helpers.brokers.streams import Stream

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HUNG_LIMIT = 25.0  # seconds within which a batch ends if its registry hangs


@pytest.fixture
def stream(spark: Any, broker: Settings, fragile_registry: OneServer, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """Orders whose schemas are in the registry that tests harm; a failed request is an error at once."""
    monkeypatch.setattr(registries, "_PATIENCE", 0.0)
    settings = Settings(**{**broker.model_dump(), "registry_url": fragile_registry.embedded.address})
    return Stream.of(spark, settings, order_table())


def encode_first(schema_id: int, *numbers: int, total: float = 1.0) -> list[bytes]:
    times = [NOON + timedelta(minutes=number) for number in numbers]
    values = [
        {"id": Decimal(n), "at": order_time, "total": total} for n, order_time in zip(numbers, times, strict=True)
    ]
    return encode_records(schema_id, FIRST, values)


def encode_second(schema_id: int, *numbers: int) -> list[bytes]:
    values = [{"id": Decimal(n), "at": NOON, "customer": {"name": "Ann"}, "total": 2.0} for n in numbers]
    return encode_records(schema_id, SECOND, values)


def assert_holds(stream: Stream, *orders: tuple[int, float, str | None]) -> None:
    assert stream.sql("SELECT CAST(id AS INT), total, customer FROM {t} ORDER BY id") == list(orders)
    stream.assert_accounted()


def assert_stops(stream: Stream, match: str) -> None:
    """The batch ends with an error and stores nothing."""
    version_before, rejected_before = stream.ledger.version, stream.rejected()
    with pytest.raises(RegistryError, match=match):
        stream.merge()
    assert (stream.ledger.version, stream.rejected()) == (version_before, rejected_before)


def merge_first_order(stream: Stream) -> int:
    """Merge one order and return the id of its schema."""
    schema_id = register(stream.settings, stream.table, FIRST)
    stream.send_and_merge(*encode_first(schema_id, 1))
    return schema_id


@pytest.mark.parametrize("turn", range(3))
def test_a_registry_killed_and_restarted_during_requests_loses_no_record(
    stream, fragile_registry, attack, monkeypatch, turn
):
    ids = register(stream.settings, stream.table, FIRST), register(stream.settings, stream.table, SECOND)
    stream.send(*encode_first(ids[0], 1, 3), *encode_second(ids[1], 2))
    real_schema, requested_ids = registries.Registry.schema, list[int]()

    def kill_and_request(registry: registries.Registry, schema_id: int, kind: str | None) -> Any:
        if len(requested_ids) == 1:  # only the first request is answered
            fragile_registry.signal(signal.SIGKILL)
        requested_ids.append(schema_id)
        return real_schema(registry, schema_id, kind)

    monkeypatch.setattr(registries, "_PATIENCE", 60.0)
    monkeypatch.setattr(registries.Registry, "schema", kill_and_request)
    with attack("Nothing is lost", "registry killed and restarted while schemas are asked for"):
        with fragile_registry.restarted_when_dead():
            stream.merge()
        assert sorted(requested_ids) == sorted(ids)
        assert_holds(stream, (1, 1.0, None), (2, 2.0, "Ann"), (3, 1.0, None))


@pytest.mark.invariant("8.14")
def test_a_dead_registry_stops_the_run_and_the_next_run_continues(stream, fragile_registry, attack):
    schema_id = merge_first_order(stream)
    second_id = register(stream.settings, stream.table, SECOND)
    stream.send(*encode_second(second_id, 2), *encode_first(schema_id, 3), b"\x00")
    with attack("Nothing is lost", "registry dead when schemas are asked for, and back for the next run"):
        fragile_registry.signal(signal.SIGKILL)
        assert_stops(stream, "cannot be reached")
        fragile_registry.embedded.start()
        stream.merge()
        assert_holds(stream, (1, 1.0, None), (2, 2.0, "Ann"), (3, 1.0, None))
        assert [row[2] for row in stream.rejected()] == ["truncated"]


@pytest.mark.invariant("8.14")
def test_a_batch_ends_in_time_if_the_registry_hangs(stream, fragile_registry, attack):
    stream.send(*encode_first(merge_first_order(stream), 2))
    try:
        with attack("Nothing is silent", "registry hangs when schemas are asked for"):
            fragile_registry.signal(signal.SIGSTOP)
            start_time = time.monotonic()
            assert_stops(stream, "cannot be reached")
            assert time.monotonic() - start_time < HUNG_LIMIT
    finally:
        fragile_registry.signal(signal.SIGCONT)
    with attack("Nothing is lost", "registry hung when schemas were asked for"):
        stream.merge()
        assert_holds(stream, (1, 1.0, None), (2, 1.0, None))


@pytest.mark.invariant("8.13")
def test_a_replay_and_a_redrive_need_no_registry(stream, fragile_registry, attack):
    schema_id = merge_first_order(stream)
    stream.send_and_merge(*encode_first(schema_id, 2, total=2e6))
    total = Column("total", "DOUBLE", "Any.")
    columns = [total if column.name == "total" else column for column in stream.table.columns]
    with attack("Nothing is lost", "registry dead during a replay and a redrive"):
        fragile_registry.signal(signal.SIGKILL)
        stream.replay()
        stream.table = replace(stream.table, columns=columns)
        redrive(stream.context)
        fragile_registry.embedded.start()
        assert_holds(stream, (1, 1.0, None), (2, 2e6, None))
        assert stream.rejected() == []


@pytest.mark.invariant("8.14")
def test_a_recreated_registry_that_reuses_an_id_stops_the_run(stream, fragile_registry, attack, tmp_path):
    fragile_registry.start_with(None)
    schema_id = merge_first_order(stream)
    fragile_registry.copy_data(tmp_path / "copy")
    with attack("Nothing is silent", "registry recreated: an id means another schema"):
        fragile_registry.start_with(None)
        changed_schema = {**FIRST, "fields": [*FIRST["fields"][:2], {"name": "total", "type": "long"}]}
        assert register(stream.settings, stream.table, changed_schema) == schema_id
        stream.send(*encode_first(schema_id, 2))
        assert_stops(stream, f"Schema {schema_id} of the registry has changed")
    with attack("Nothing is lost", "registry recreated, and its data restored"):
        fragile_registry.start_with(tmp_path / "copy")
        stream.merge()
        assert_holds(stream, (1, 1.0, None), (2, 1.0, None))


@pytest.mark.invariant("8.13")
def test_an_empty_recreated_registry_changes_no_stored_schema(stream, fragile_registry, attack):
    schema_id = merge_first_order(stream)
    with attack("Nothing is lost", "registry recreated: it has no schema of the stored ids"):
        fragile_registry.start_with(None)
        stream.send_and_merge(*encode_first(schema_id, 2))
        assert_holds(stream, (1, 1.0, None), (2, 1.0, None))


@pytest.mark.invariant("8.12")
def test_records_of_a_schema_missing_from_a_restored_registry_are_redriven(stream, fragile_registry, attack, tmp_path):
    merge_first_order(stream)
    fragile_registry.copy_data(tmp_path / "copy")
    second_id = register(stream.settings, stream.table, SECOND)
    with attack(
        "Nothing is lost", "registry restored from an older copy: a schema is unknown until it is registered again"
    ):
        fragile_registry.start_with(tmp_path / "copy")
        stream.send_and_merge(*encode_second(second_id, 2))
        assert [row[2] for row in stream.rejected()] == ["unknown_schema"]
        assert redrive(stream.context) == []
        assert register(stream.settings, stream.table, SECOND) == second_id
        redrive(stream.context)
        assert stream.rejected() == []
        assert_holds(stream, (1, 1.0, None), (2, 2.0, "Ann"))


@pytest.mark.invariant("8.13")
def test_records_of_a_deleted_schema_are_read_with_the_stored_schema(stream, fragile_registry, attack):
    schema_id = merge_first_order(stream)
    with attack("Nothing is lost", "a schema is deleted from its registry"):
        url, subject = stream.settings.registry_url, f"{stream.table.topic}-value"
        for suffix in ("", "?permanent=true"):
            _delete(f"{url}/subjects/{subject}{suffix}")
        stream.send_and_merge(*encode_first(schema_id, 2))
        assert_holds(stream, (1, 1.0, None), (2, 1.0, None))


def _delete(url: str) -> None:
    response = requests.delete(url, timeout=10)
    assert response.status_code == 200, response.text
