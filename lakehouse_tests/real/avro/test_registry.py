"""What a batch, a replay and a redrive need of a real registry, and one that changes a schema under its id."""

from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse.declaration import Column, Json
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.errors import RegistryError
from lakehouse.ingest import schema_resolution
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.ingest.schema_resolution import kept_schemas
from lakehouse.kafka import registry_client as registries
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.avro_orders import order, stream_of, totals
from lakehouse_tests.helpers.brokers.registries import FIRST, SECOND, encode_records, order_table, register
from lakehouse_tests.helpers.brokers.streams import Stream, counts


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
    assert counts(outcome.entry) == dict(read=52, rejected=50, superseded=1, inserted=1, updated=0, stale=0)


def test_a_table_without_schemas_uses_no_registry(spark, registry: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_resolution, "registry", None)
    columns = [Column("id", "INT", "Number.", required=True)]
    table = order_table(columns=columns, rollups=[], format=Json(framed=True))
    stream = stream_of(spark, registry, table)
    stream.send(add_frame(3, b'{"id": 1}'), b'{"id": 2}')
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=2, rejected=1, superseded=0, inserted=1, updated=0, stale=0)
    assert not Path(registry.table_uri(table.schemas_name)).exists()
