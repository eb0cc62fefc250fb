"""Keys with a schema at a real registry: read, rejected, replayed and redriven as values are."""

import json
from typing import Any

import pytest

from lakehouse.declaration import Column, Deletes, Json, RecordKey, Tombstone
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.errors import RegistryError
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.ingest.schema_resolution import kept_schemas
from lakehouse.kafka import registry_client as registries
from lakehouse.kafka.registry_client import registry as registry_of
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.avro_orders import stream_of
from lakehouse_tests.helpers.brokers.registries import body, order_table
from lakehouse_tests.helpers.brokers.streams import Stream, counts, send

KEY = {"type": "record", "name": "OrderKey", "fields": [{"name": "id", "type": "long"}]}
NOTE = Column("note", "STRING", "What is written.")


def register(stream: Stream, schema: Any, subject: str = "key") -> int:
    with registry_of(stream.settings) as client:
        return client.register(f"{stream.table.topic}-{subject}", json.dumps(schema))


def send_pair(stream: Stream, key: bytes, value: bytes | None) -> None:
    send(stream.settings, stream.table.topic, [value], key=key)


def rows(stream: Stream, query: str = "SELECT id, note FROM {t} ORDER BY id") -> list[tuple[Any, ...]]:
    names = {"t": stream.table.name, "rejected": stream.table.rejected_name}
    tables = {place: f"delta.`{stream.settings.table_uri(name)}`" for place, name in names.items()}
    return [tuple(row) for row in stream.spark.sql(query.format(**tables)).collect()]


def open_reasons(stream: Stream) -> list[str]:
    query = "SELECT reason FROM {rejected} WHERE resolved_number IS NULL ORDER BY position.position"
    return [reason for (reason,) in rows(stream, query)]


def key_of(schema_id: int, number: int) -> bytes:
    return add_frame(schema_id, body(KEY, {"id": number}))


def note_stream(spark, registry: Settings) -> Stream:
    """Notes in JSON, with keys in Avro; a tombstone deletes one."""
    columns = [Column("id", "BIGINT", "Number.", source=RecordKey("avro", "id"), required=True), NOTE]
    return stream_of(
        spark, registry, order_table(columns=columns, rollups=[], format=Json(), deletes=Deletes(when=Tombstone()))
    )


@pytest.mark.slow
@pytest.mark.invariant("8.12", "8.13")
def test_json_values_have_keys_in_avro(spark, registry: Settings) -> None:
    stream = note_stream(spark, registry)
    schema_id, bytes_id = register(stream, KEY), register(stream, "bytes", "bytes-key")
    unknown_id = bytes_id + 1
    send_pair(stream, key_of(schema_id, 1), b'{"note": "a"}')
    send_pair(stream, key_of(schema_id, 2), b'{"note": "b"}')
    send_pair(stream, key_of(schema_id, 2), None)
    send_pair(stream, key_of(unknown_id, 3), b'{"note": "c"}')
    send_pair(stream, add_frame(bytes_id, b"\x02\x07"), b'{"note": "d"}')
    send_pair(stream, b"5", b'{"note": "e"}')
    (outcome,) = stream.merge()
    assert (outcome.entry.commit.read, outcome.entry.commit.rejected, rows(stream)) == (6, 3, [(1, "a")])
    assert open_reasons(stream) == ["unknown_schema", "unusable_schema", "wrong_magic"]
    (detail,) = rows(stream, "SELECT detail FROM {rejected} WHERE reason = 'unusable_schema'")
    assert detail[0].startswith(f"'id in the key of the record': schema {bytes_id}: its type is bytes")
    assert kept_schemas(stream.settings, stream.table).by_id.keys() == {schema_id}
    assert redrive(stream.context) == []
    assert register(stream, {**KEY, "name": "Other"}, "other-key") == unknown_id
    (redriven,) = redrive(stream.context, "unknown_schema")
    assert (redriven.entry.metrics.inserted, rows(stream)) == (1, [(1, "a"), (3, "c")])
    stream.assert_accounted()


@pytest.mark.slow
@pytest.mark.invariant("8.14")
def test_a_replay_by_keys_needs_no_registry_but_a_batch_fails_without_it(
    spark, registry: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = note_stream(spark, registry)
    schema_id = register(stream, KEY)
    send_pair(stream, key_of(schema_id, 1), b'{"note": "a"}')
    stream.merge()
    monkeypatch.setattr(registries, "_PATIENCE", 0.0)
    offline = Settings(**{**stream.settings.model_dump(), "registry_url": "http://127.0.0.1:1"})
    (replayed,) = replay(TableContext(spark, offline, stream.table))
    assert (replayed.entry.commit.read, replayed.entry.commit.rejected, replayed.entry.metrics.updated) == (1, 0, 0)
    send_pair(stream, key_of(schema_id, 6), b'{"note": "f"}')
    version = stream.ledger.rows_version
    with pytest.raises(RegistryError, match="cannot be reached"):
        Stream(spark, offline, stream.table).merge()
    assert stream.ledger.rows_version == version
    stream.merge()
    assert rows(stream) == [(1, "a"), (6, "f")]


@pytest.mark.slow
@pytest.mark.invariant("8.13")
def test_values_and_keys_in_avro_have_their_own_schemas(spark, registry: Settings) -> None:
    key_column = Column("id", "BIGINT", "Number.", source=RecordKey("avro"), required=True)
    stream = stream_of(spark, registry, order_table(columns=[key_column, NOTE], rollups=[]))
    value_schema = {"type": "record", "name": "Note", "fields": [{"name": "note", "type": "string"}]}
    key_id, value_id = register(stream, "long"), register(stream, value_schema, "value")
    value = add_frame(value_id, body(value_schema, {"note": "a"}))
    send_pair(stream, add_frame(key_id, b"\x0e"), value)
    send_pair(stream, add_frame(key_id, b"\x10"), add_frame(key_id, b"\x02"))
    send_pair(stream, add_frame(value_id, b"\x02a"), value)
    send_pair(stream, add_frame(key_id, b"\x12"), add_frame(value_id + 5000, b"\x02a"))
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=4, rejected=3, superseded=0, inserted=1, updated=0, stale=0)
    assert rows(stream) == [(7, "a")]
    assert open_reasons(stream) == ["unusable_schema", "wrong_type", "unknown_schema"]
    assert kept_schemas(stream.settings, stream.table).by_id.keys() == {key_id, value_id}
    stream.assert_accounted()
