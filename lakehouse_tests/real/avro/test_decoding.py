"""Avro records in a real topic: each is read with its writer schema only, or rejected with its reason."""

import json
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from lakehouse.cli import main
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.derived.refresh import refresh_changes, refresh_rollup
from lakehouse.ingest.schema_resolution import kept_schemas
from lakehouse.kafka import registry_client as registries
from lakehouse.ledger.ledger import read_ledger
from lakehouse.operations.rejections import list_rejected
from lakehouse.operations.verify import verify_rollup
from lakehouse.settings.addresses import bootstrap_servers, registry_url
from lakehouse_tests.helpers.brokers.avro_orders import NOON, order, totals
from lakehouse_tests.helpers.brokers.registries import FIRST, SECOND, encode_records, register
from lakehouse_tests.helpers.brokers.streams import Stream, counts


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
    assert counts(outcome.entry) == dict(read=4, rejected=0, superseded=1, inserted=3, updated=0, stale=0)
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
    assert counts(outcome.entry) == dict(read=7, rejected=6, superseded=0, inserted=1, updated=0, stale=0)
    reasons = {group.reason: group.count for group in list_rejected(stream.settings, stream.table)}
    assert reasons == {"wrong_magic": 1, "truncated": 2, "trailing_bytes": 1, "tombstone": 1, "unknown_schema": 1}
    stream.assert_accounted()


DECLARATION = """
from lakehouse import Avro, Column, StreamTable, Topic
columns = [
    Column("id", "DECIMAL(20,0)", "", required=True),
    Column("ordered_at", "TIMESTAMP", "", source="at"),
    Column("total", "DOUBLE", "", between=(0, 1e6)),
]
topic = Topic("{topic}", partitions=1)
orders = StreamTable("orders", source=topic, doc="", columns=columns, key=["id"], format=Avro())
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


@pytest.mark.invariant("8.2")
@pytest.mark.slow
def test_records_with_the_id_of_a_json_schema_are_rejected_with_the_same_reason_after_a_replay(stream: Stream) -> None:
    with registries.registry(stream.settings) as client:
        text = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
        json_id = client.register(f"{stream.table.topic}-other", text, "JSON")
    schema_id = register(stream.settings, stream.table, FIRST)
    stream.send(add_frame(json_id, b"{}"), *encode_records(schema_id, FIRST, [order(1)]), add_frame(json_id, b""))
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=3, rejected=2, superseded=0, inserted=1, updated=0, stale=0)
    reasons = {(group.reason, group.samples[0].detail) for group in list_rejected(stream.settings, stream.table)}
    assert reasons == {("unusable_schema", f"schema {json_id}: it is a schema of JSON, not of Avro")}
    name = stream.table.rejected_name
    ledger = read_ledger(stream.settings.table_uri(name), name)
    stream.replay()
    assert read_ledger(ledger.uri, name).version == ledger.version
