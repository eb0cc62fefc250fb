"""Avro records with schemas in a real registry: each record is read with its writer schema only."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli import main
from lakehouse.declaration import Column, Json, StreamTable
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.derived.refresh import refresh_changes, refresh_rollup
from lakehouse.errors import RegistryError, TopicError
from lakehouse.ingest import schema_resolution
from lakehouse.ingest.kept_schemas import kept_schemas
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.kafka import PublishOptions, create_topic, publish, read_topic
from lakehouse.kafka import registry_client as registries
from lakehouse.ledger.ledger import read_ledger
from lakehouse.operations.rejections import list_rejected
from lakehouse.operations.verify import verify_rollup
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse.settings.registry_address import registry_url
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.registries import FIRST, SECOND, encode_records, order_table, register
from lakehouse_tests.helpers.brokers.streams import Stream, counts

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def order(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": Decimal(number), "at": NOON + timedelta(minutes=number), "total": float(number), **fields}


def stream_of(spark: Any, settings: Settings, table: StreamTable) -> Stream:
    stream = Stream(spark, settings, table)
    create_topic(settings, table)
    return stream


@pytest.fixture
def stream(spark, registry: Settings) -> Stream:
    return stream_of(spark, registry, order_table())


def totals(stream: Stream) -> list[tuple[Any, ...]]:
    return stream.sql("SELECT CAST(id AS INT), total, customer FROM {t} ORDER BY id")


@pytest.mark.invariant("8.13")
def test_two_schema_versions_in_one_batch_are_decoded_correctly(stream: Stream) -> None:
    first = register(stream.settings, stream.table, FIRST)
    second = register(stream.settings, stream.table, SECOND)
    assert first != second
    new_order = order(2, total=7.5, customer={"name": "Ann"}, channel="web")
    changed_order = order(1, total=None, customer=None, channel="shop")
    stream.send(
        *encode_records(first, FIRST, [order(1), order(3)]), *encode_records(second, SECOND, [new_order, changed_order])
    )
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=4, rejected=0, duplicate=1, inserted=3, updated=0, stale=0)
    assert outcome.unmapped_fields == {"channel": 2}
    assert totals(stream) == [(1, None, None), (2, 7.5, "Ann"), (3, 3.0, None)]
    ((at,),) = stream.sql("SELECT ordered_at FROM {t} WHERE id = 2")
    assert at.astimezone(UTC) == NOON + timedelta(minutes=2)
    stored_schemas = kept_schemas(stream.settings, stream.table).by_id
    assert stored_schemas.keys() == {first, second}
    refresh_changes(stream.context)
    (rollup,) = stream.table.rollups
    refresh_rollup(stream.context, rollup)
    assert verify_rollup(stream.context, rollup).passed
    stream.assert_accounted()


@pytest.mark.invariant("8.10")
def test_invalid_records_are_rejected_with_their_reasons(stream: Stream) -> None:
    schema_id = register(stream.settings, stream.table, FIRST)
    (record,) = encode_records(schema_id, FIRST, [order(1)])
    unknown_record = add_frame(schema_id + 5000, record[5:])
    stream.send(record, b"\x01" + record[1:], record[:3], record[:-1], record + b"\x00", None, unknown_record)
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=7, rejected=6, duplicate=0, inserted=1, updated=0, stale=0)
    reasons = {group.reason: group.count for group in list_rejected(stream.settings, stream.table)}
    assert reasons == {"wrong_magic": 1, "truncated": 2, "trailing_bytes": 1, "tombstone": 1, "unknown_schema": 1}
    stream.assert_accounted()


@pytest.mark.invariant("8.12")
@pytest.mark.slow
def test_records_of_an_unknown_schema_are_redriven_once_it_is_registered(stream: Stream) -> None:
    schema_id = register(stream.settings, stream.table, FIRST)
    next_id = schema_id + 1
    stream.send(
        *encode_records(schema_id, FIRST, [order(1)]),
        *encode_records(next_id, SECOND, [order(2, customer=None, channel="a")]),
    )
    stream.merge()
    assert redrive(stream.context) == []
    assert register(stream.settings, stream.table, SECOND) == next_id
    (outcome,) = redrive(stream.context, "unknown_schema")
    assert outcome.entry.metrics.inserted == 1
    assert [row[0] for row in totals(stream)] == [1, 2]
    stream.assert_accounted()


@pytest.mark.invariant("8.13", "8.14")
@pytest.mark.slow
def test_replay_and_redrive_need_no_registry_but_a_batch_fails_without_it(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema_id = register(stream.settings, stream.table, FIRST)
    (expensive_order,) = encode_records(schema_id, FIRST, [order(2, total=2e6)])
    stream.send(*encode_records(schema_id, FIRST, [order(1)]), expensive_order)
    stream.merge()
    monkeypatch.setattr(registries, "_PATIENCE", 0.0)
    offline_settings = Settings(**{**stream.settings.model_dump(), "registry_url": "http://127.0.0.1:1"})
    wider_table = replace(
        stream.table, columns=[*stream.table.columns[:2], Column("total", "DOUBLE", "Any."), stream.table.columns[3]]
    )
    wider_context = TableContext(stream.spark, offline_settings, wider_table)
    (replay_outcome,) = replay(TableContext(stream.spark, offline_settings, stream.table))
    assert (replay_outcome.entry.commit.read, replay_outcome.entry.metrics.updated) == (2, 0)
    (redrive_outcome,) = redrive(wider_context)
    assert redrive_outcome.entry.metrics.inserted == 1
    stream.send(*encode_records(schema_id, FIRST, [order(3)]))
    version = stream.ledger.rows_version
    with pytest.raises(RegistryError, match="cannot be reached"):
        Stream(stream.spark, offline_settings, stream.table).merge()
    assert stream.ledger.rows_version == version
    stream.merge()
    assert [row[0] for row in totals(stream)] == [1, 2, 3]


@pytest.mark.invariant("8.14")
@pytest.mark.slow
def test_a_registry_with_another_schema_under_a_stored_id_stops_the_batch(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema_id = register(stream.settings, stream.table, FIRST)
    stream.send(*encode_records(schema_id, FIRST, [order(1)]))
    stream.merge()
    stream.send(*encode_records(schema_id, FIRST, [order(2)]))
    read_schema = registries.Registry.schema
    other_id = register(stream.settings, stream.table, SECOND)
    monkeypatch.setattr(registries.Registry, "schema", lambda self, _, kind: read_schema(self, other_id, kind))
    with pytest.raises(RegistryError, match=f"Schema {schema_id} of the registry has changed"):
        stream.merge()
    monkeypatch.setattr(registries.Registry, "schema", lambda *_: None)  # deleted, and so not another schema
    (outcome,) = stream.merge()
    assert outcome.entry.metrics.inserted == 1


@pytest.mark.invariant("8.14")
@pytest.mark.slow
def test_no_schema_is_stored_from_a_registry_with_another_schema_under_a_stored_id(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema_id = register(stream.settings, stream.table, FIRST)
    stream.send(*encode_records(schema_id, FIRST, [order(1)]))
    stream.merge()
    other_id = register(stream.settings, stream.table, SECOND)
    stream.send(*encode_records(other_id, SECOND, [order(2, customer=None, channel="a")]))
    read_schema = registries.Registry.schema
    monkeypatch.setattr(registries.Registry, "schema", lambda self, _, kind: read_schema(self, other_id, kind))
    with pytest.raises(RegistryError, match=f"Schema {schema_id} of the registry has changed"):
        stream.merge()
    assert kept_schemas(stream.settings, stream.table).by_id.keys() == {schema_id}


@pytest.mark.slow
def test_lines_are_published_with_the_chosen_schema_and_an_incompatible_schema_is_refused(
    stream: Stream,
) -> None:
    lines = [b'{"id": 1, "at": "2026-01-01T12:01:00Z", "total": 1}', b'{"id": 2, "at": 1767268800000, "total": 2.5}']
    first_schema = json.dumps({**FIRST, "namespace": stream.table.name})
    assert publish(stream.settings, stream.table, lines, PublishOptions(schema=first_schema)) == 2
    second_schema = json.dumps({**SECOND, "namespace": stream.table.name})
    line = b'{"id": 3, "at": 1767268800000, "total": null, "customer": {"name": "Ann"}}'
    assert publish(stream.settings, stream.table, [line], PublishOptions(schema=second_schema)) == 1
    assert publish(stream.settings, stream.table, [line]) == 1
    fields = [*FIRST["fields"], {"name": "new", "type": "string"}]
    incompatible_schema = json.dumps({**FIRST, "namespace": stream.table.name, "fields": fields})
    end = read_topic(stream.settings, stream.table.topic).end
    with pytest.raises(RegistryError, match="not compatible"):
        publish(stream.settings, stream.table, [line], PublishOptions(schema=incompatible_schema))
    with pytest.raises(TopicError, match="Line 2 cannot be written"):
        publish(stream.settings, stream.table, [line, b'{"id": 4}'], PublishOptions(schema=second_schema))
    assert sum(read_topic(stream.settings, stream.table.topic).end.values()) <= sum(end.values()) + 1
    (outcome,) = stream.merge()
    assert outcome.entry.commit.rejected == 0
    assert [row[0] for row in totals(stream)] == [1, 2, 3]


def test_the_first_record_is_published_with_a_schema_derived_from_the_declaration(stream: Stream) -> None:
    line = b'{"id": 7, "at": "2026-01-01T12:00:00Z", "customer": {"name": "Ann"}}'
    assert publish(stream.settings, stream.table, [line]) == 1
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=1, rejected=0, duplicate=0, inserted=1, updated=0, stale=0)
    assert totals(stream) == [(7, None, "Ann")]


def test_framed_json_is_published_with_the_id_of_a_schema(spark, registry: Settings) -> None:
    columns = [Column("id", "INT", "Number.", required=True)]
    stream = stream_of(spark, registry, order_table(columns=columns, rollups=[], format=Json(framed=True)))
    assert publish(registry, stream.table, [b'{"id": 1}', b'{"id": 1}']) == 2
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=2, rejected=0, duplicate=1, inserted=1, updated=0, stale=0)


DECLARATION = """
from lakehouse import Avro, Column, StreamTable
columns = [
    Column("id", "DECIMAL(20,0)", "", required=True),
    Column("ordered_at", "TIMESTAMP", "", source="at"),
    Column("total", "DOUBLE", "", between=(0, 1e6)),
]
orders = StreamTable("orders", "{topic}", "", columns, ["id"], format=Avro(), partitions=1)
"""


def test_peek_shows_how_the_newest_records_are_decoded(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    schema_id = register(stream.settings, stream.table, FIRST)
    stream.send(*encode_records(schema_id, FIRST, [order(1), order(2, total=2e6)]), add_frame(schema_id + 5000, b""))
    folder = tmp_path / f"lake_{stream.table.name}"
    folder.mkdir()
    (folder / "orders.py").write_text(DECLARATION.replace("{topic}", stream.table.topic))
    addresses = {
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers(stream.settings),
        "REGISTRY_URL": registry_url(stream.settings),
    }
    for name, value in {"HOME": tmp_path, "DECLARATIONS": folder, **addresses}.items():
        monkeypatch.setenv(f"LAKEHOUSE_{name}", str(value))
    assert main.run(["peek", "orders", "--json"]) == main.DONE
    records = json.loads(capsys.readouterr().out)["records"]
    assert [record["reason"] for record in records] == [None, "out_of_range", "unknown_schema"]
    assert records[0]["row"]["ordered_at"].startswith("2026-01-01T12:01")
    assert not (tmp_path / "tables").exists()
    main.run(["doctor"])
    assert registry_url(stream.settings) in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_requests_for_unknown_ids_are_limited_per_batch(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    requested_ids = list[int]()
    read_schema = registries.Registry.schema
    monkeypatch.setattr(
        registries.Registry, "schema", lambda self, id_, kind: requested_ids.append(id_) or read_schema(self, id_, kind)
    )
    monkeypatch.setattr(schema_resolution, "MAX_REQUESTED_IDS", 5)
    schema_id = register(stream.settings, stream.table, FIRST)
    unknown_records = (add_frame(id_, b"") for id_ in (*range(10**6, 10**6 + 49), 2**32 - 1))
    stream.send(*unknown_records, *encode_records(schema_id, FIRST, [order(1), order(1)]))
    (outcome,) = stream.merge()
    assert requested_ids == [schema_id, *range(10**6, 10**6 + 4)]
    assert counts(outcome.entry) == dict(read=52, rejected=50, duplicate=1, inserted=1, updated=0, stale=0)


@pytest.mark.invariant("8.2")
@pytest.mark.slow
def test_records_with_the_id_of_a_json_schema_are_rejected_with_the_same_reason_after_a_replay(stream: Stream) -> None:
    with registries.registry(stream.settings) as client:
        text = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
        json_id = client.register(f"{stream.table.topic}-other", text, "JSON")
    schema_id = register(stream.settings, stream.table, FIRST)
    stream.send(add_frame(json_id, b"{}"), *encode_records(schema_id, FIRST, [order(1)]), add_frame(json_id, b""))
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=3, rejected=2, duplicate=0, inserted=1, updated=0, stale=0)
    reasons = {(group.reason, group.samples[0].detail) for group in list_rejected(stream.settings, stream.table)}
    assert reasons == {("unusable_schema", f"schema {json_id}: it is a schema of JSON, not of Avro")}
    name = stream.table.rejected_name
    ledger = read_ledger(stream.settings.table_uri(name), name)
    stream.replay()
    assert read_ledger(ledger.uri, name).version == ledger.version


def test_a_table_without_schemas_uses_no_registry(spark, registry: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_resolution, "registry", None)
    columns = [Column("id", "INT", "Number.", required=True)]
    table = order_table(columns=columns, rollups=[], format=Json(framed=True))
    stream = stream_of(spark, registry, table)
    stream.send(add_frame(3, b'{"id": 1}'), b'{"id": 2}')
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=2, rejected=1, duplicate=0, inserted=1, updated=0, stale=0)
    assert not Path(registry.table_uri(table.schemas_name)).exists()
