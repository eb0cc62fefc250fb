"""Avro records, whose schemas are in a real registry: read by the one that wrote each, and by no other."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli import main
from lakehouse.declaration import Column, Json, StreamTable
from lakehouse.decoding.formats.framing import framed
from lakehouse.derived.refresh import refresh_changes, refresh_rollup
from lakehouse.errors import RegistryError, TopicError
from lakehouse.ingest import schema_resolution
from lakehouse.ingest.kept_schemas import kept_schemas
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.kafka import PublishOptions, create_topic, look, publish
from lakehouse.kafka import registry_client as registries
from lakehouse.ledger.ledger import read_ledger
from lakehouse.operations.rejections import list_rejected
from lakehouse.operations.verify import verify_rollup
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse.settings.registry_address import registry_url
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.registries import FIRST, SECOND, order_table, register, written
from lakehouse_tests.helpers.brokers.streams import Stream, counts

pytestmark = pytest.mark.invariant(1, 3, 7, 8)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def order(number: int, **more: Any) -> dict[str, Any]:
    return {"id": Decimal(number), "at": NOON + timedelta(minutes=number), "total": float(number), **more}


def stream_of(spark: Any, settings: Settings, table: StreamTable) -> Stream:
    made = Stream(spark, settings, table)
    create_topic(settings, table)
    return made


@pytest.fixture
def stream(spark, registry: Settings) -> Stream:
    return stream_of(spark, registry, order_table())


def totals(stream: Stream) -> list[tuple[Any, ...]]:
    return stream.sql("SELECT CAST(id AS INT), total, customer FROM {t} ORDER BY id")


def test_versions_of_a_schema_in_one_batch_decode_right(stream: Stream) -> None:
    first = register(stream.settings, stream.table, FIRST)
    second = register(stream.settings, stream.table, SECOND)
    assert first != second
    new = order(2, total=7.5, customer={"name": "Ann"}, channel="web")
    changed = order(1, total=None, customer=None, channel="shop")
    stream.send(*written(first, FIRST, [order(1), order(3)]), *written(second, SECOND, [new, changed]))
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=4, rejected=0, duplicate=1, inserted=3, updated=0, stale=0)
    assert outcome.others == {"channel": 2}
    assert totals(stream) == [(1, None, None), (2, 7.5, "Ann"), (3, 3.0, None)]
    ((at,),) = stream.sql("SELECT ordered_at FROM {t} WHERE id = 2")
    assert at.astimezone(UTC) == NOON + timedelta(minutes=2)
    kept = kept_schemas(stream.settings, stream.table).known
    assert kept.keys() == {first, second}
    refresh_changes(stream.context)
    (rollup,) = stream.table.rollups
    refresh_rollup(stream.context, rollup)
    assert verify_rollup(stream.context, rollup).passed
    stream.assert_accounted()


def test_spoiled_records_are_rejected_each_with_its_reason(stream: Stream) -> None:
    known = register(stream.settings, stream.table, FIRST)
    (good,) = written(known, FIRST, [order(1)])
    bad = [b"\x01" + good[1:], good[:3], good[:-1], good + b"\x00", None, framed(known + 5000, good[5:])]
    stream.send(good, *bad)
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=7, rejected=6, duplicate=0, inserted=1, updated=0, stale=0)
    told = {each.reason: each.count for each in list_rejected(stream.settings, stream.table)}
    assert told == {"wrong_magic": 1, "truncated": 2, "trailing_bytes": 1, "tombstone": 1, "unknown_schema": 1}
    stream.assert_accounted()


@pytest.mark.slow
def test_records_of_an_unknown_schema_are_redriven_once_it_is_there(stream: Stream) -> None:
    known = register(stream.settings, stream.table, FIRST)
    coming = known + 1
    stream.send(*written(known, FIRST, [order(1)]), *written(coming, SECOND, [order(2, customer=None, channel="a")]))
    stream.merge()
    assert redrive(stream.context) == []
    assert register(stream.settings, stream.table, SECOND) == coming
    (outcome,) = redrive(stream.context, "unknown_schema")
    assert outcome.entry.metrics.inserted == 1
    assert [row[0] for row in totals(stream)] == [1, 2]
    stream.assert_accounted()


@pytest.mark.slow
def test_replay_and_redrive_need_no_registry_and_a_batch_waits_for_it_in_vain(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = register(stream.settings, stream.table, FIRST)
    (dear,) = written(known, FIRST, [order(2, total=2e6)])
    stream.send(*written(known, FIRST, [order(1)]), dear)
    stream.merge()
    monkeypatch.setattr(registries, "_PATIENCE", 0.0)
    gone = Settings(**{**stream.settings.model_dump(), "registry_url": "http://127.0.0.1:1"})
    wider = replace(
        stream.table, columns=[*stream.table.columns[:2], Column("total", "DOUBLE", "Any."), stream.table.columns[3]]
    )
    context = TableContext(stream.spark, gone, wider)
    (again,) = replay(TableContext(stream.spark, gone, stream.table))
    assert (again.entry.commit.read, again.entry.metrics.updated) == (2, 0)
    (driven,) = redrive(context)
    assert driven.entry.metrics.inserted == 1
    stream.send(*written(known, FIRST, [order(3)]))
    version = stream.ledger.rows_version
    with pytest.raises(RegistryError, match="cannot be reached"):
        Stream(stream.spark, gone, stream.table).merge()
    assert stream.ledger.rows_version == version
    stream.merge()
    assert [row[0] for row in totals(stream)] == [1, 2, 3]


def test_a_registry_that_gives_an_id_another_meaning_stops_the_batch(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = register(stream.settings, stream.table, FIRST)
    stream.send(*written(known, FIRST, [order(1)]))
    stream.merge()
    stream.send(*written(known, FIRST, [order(2)]))
    real = registries.Registry.schema
    other = register(stream.settings, stream.table, SECOND)
    monkeypatch.setattr(registries.Registry, "schema", lambda self, _, kind: real(self, other, kind))
    with pytest.raises(RegistryError, match=f"Schema {known} of the registry has changed"):
        stream.merge()
    monkeypatch.setattr(registries.Registry, "schema", lambda *_: None)  # deleted: it means no other
    (outcome,) = stream.merge()
    assert outcome.entry.metrics.inserted == 1


@pytest.mark.slow
def test_nothing_is_learnt_of_a_registry_in_which_any_kept_id_means_something_else(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = register(stream.settings, stream.table, FIRST)
    stream.send(*written(known, FIRST, [order(1)]))
    stream.merge()
    other = register(stream.settings, stream.table, SECOND)
    stream.send(*written(other, SECOND, [order(2, customer=None, channel="a")]))
    real = registries.Registry.schema
    monkeypatch.setattr(registries.Registry, "schema", lambda self, _, kind: real(self, other, kind))
    with pytest.raises(RegistryError, match=f"Schema {known} of the registry has changed"):
        stream.merge()
    assert kept_schemas(stream.settings, stream.table).known.keys() == {known}


def test_lines_are_published_by_the_schema_asked_for_and_one_that_does_not_fit_is_refused(
    stream: Stream,
) -> None:
    lines = [b'{"id": 1, "at": "2026-01-01T12:01:00Z", "total": 1}', b'{"id": 2, "at": 1767268800000, "total": 2.5}']
    named = json.dumps({**FIRST, "namespace": stream.table.name})
    assert publish(stream.settings, stream.table, lines, PublishOptions(schema=named)) == 2
    wider = json.dumps({**SECOND, "namespace": stream.table.name})
    line = b'{"id": 3, "at": 1767268800000, "total": null, "customer": {"name": "Ann"}}'
    assert publish(stream.settings, stream.table, [line], PublishOptions(schema=wider)) == 1
    assert publish(stream.settings, stream.table, [line]) == 1
    fields = [*FIRST["fields"], {"name": "new", "type": "string"}]
    unfit = json.dumps({**FIRST, "namespace": stream.table.name, "fields": fields})
    end = look(stream.settings, stream.table.topic).end
    with pytest.raises(RegistryError, match="not compatible"):
        publish(stream.settings, stream.table, [line], PublishOptions(schema=unfit))
    with pytest.raises(TopicError, match="Line 2 cannot be written"):
        publish(stream.settings, stream.table, [line, b'{"id": 4}'], PublishOptions(schema=wider))
    assert sum(look(stream.settings, stream.table.topic).end.values()) <= sum(end.values()) + 1
    (outcome,) = stream.merge()
    assert outcome.entry.commit.rejected == 0
    assert [row[0] for row in totals(stream)] == [1, 2, 3]


def test_a_first_record_is_published_by_a_schema_that_follows_from_the_declaration(stream: Stream) -> None:
    line = b'{"id": 7, "at": "2026-01-01T12:00:00Z", "customer": {"name": "Ann"}}'
    assert publish(stream.settings, stream.table, [line]) == 1
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=1, rejected=0, duplicate=0, inserted=1, updated=0, stale=0)
    assert totals(stream) == [(7, None, "Ann")]


def test_framed_json_is_published_with_the_id_of_a_schema(spark, registry: Settings) -> None:
    columns = [Column("id", "INT", "Number.", required=True)]
    made = stream_of(spark, registry, order_table(columns=columns, rollups=[], format=Json(framed=True)))
    assert publish(registry, made.table, [b'{"id": 1}', b'{"id": 1}']) == 2
    (outcome,) = made.merge()
    assert counts(outcome.entry) == dict(read=2, rejected=0, duplicate=1, inserted=1, updated=0, stale=0)


DECLARED = """
from lakehouse import Avro, Column, StreamTable
columns = [
    Column("id", "DECIMAL(20,0)", "", required=True),
    Column("ordered_at", "TIMESTAMP", "", source="at"),
    Column("total", "DOUBLE", "", between=(0, 1e6)),
]
orders = StreamTable("orders", "{topic}", "", columns, ["id"], format=Avro(), partitions=1)
"""


def test_the_newest_records_are_shown_as_they_would_be_decoded(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = register(stream.settings, stream.table, FIRST)
    stream.send(*written(known, FIRST, [order(1), order(2, total=2e6)]), framed(known + 5000, b""))
    folder = tmp_path / f"lake_{stream.table.name}"
    folder.mkdir()
    (folder / "orders.py").write_text(DECLARED.replace("{topic}", stream.table.topic))
    addresses = {
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers(stream.settings),
        "REGISTRY_URL": registry_url(stream.settings),
    }
    for name, value in {"HOME": tmp_path, "DECLARATIONS": folder, **addresses}.items():
        monkeypatch.setenv(f"LAKEHOUSE_{name}", str(value))
    assert main.run(["peek", "orders", "--json"]) == main.DONE
    records = json.loads(capsys.readouterr().out)["records"]
    assert [each["reason"] for each in records] == [None, "out_of_range", "unknown_schema"]
    assert records[0]["row"]["ordered_at"].startswith("2026-01-01T12:01")
    assert not (tmp_path / "tables").exists()
    main.run(["doctor"])
    assert registry_url(stream.settings) in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_of_very_many_unknown_ids_few_are_asked_for(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()
    real = registries.Registry.schema
    monkeypatch.setattr(
        registries.Registry, "schema", lambda self, each, kind: asked.append(each) or real(self, each, kind)
    )
    monkeypatch.setattr(schema_resolution, "MOST_ASKED", 5)
    known = register(stream.settings, stream.table, FIRST)
    garbage = (framed(each, b"") for each in (*range(10**6, 10**6 + 49), 2**32 - 1))
    stream.send(*garbage, *written(known, FIRST, [order(1), order(1)]))
    (outcome,) = stream.merge()
    assert asked == [known, *range(10**6, 10**6 + 4)]
    assert counts(outcome.entry) == dict(read=52, rejected=50, duplicate=1, inserted=1, updated=0, stale=0)


@pytest.mark.slow
def test_an_id_of_no_record_in_avro_rejects_its_records_and_says_why_also_after_a_replay(stream: Stream) -> None:
    with registries.registry(stream.settings) as talk:
        text = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
        other = talk.register(f"{stream.table.topic}-other", text, "JSON")
    known = register(stream.settings, stream.table, FIRST)
    stream.send(framed(other, b"{}"), *written(known, FIRST, [order(1)]), framed(other, b""))
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=3, rejected=2, duplicate=0, inserted=1, updated=0, stale=0)
    told = {(each.reason, each.samples[0].detail) for each in list_rejected(stream.settings, stream.table)}
    assert told == {("unusable_schema", f"schema {other}: it is a schema of JSON, not of Avro")}
    name = stream.table.rejected_name
    stored = read_ledger(stream.settings.table_uri(name), name)
    stream.replay()
    assert read_ledger(stored.uri, name).version == stored.version


def test_a_table_without_schemas_asks_no_registry(spark, registry: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_resolution, "registry", None)
    columns = [Column("id", "INT", "Number.", required=True)]
    table = order_table(columns=columns, rollups=[], format=Json(framed=True))
    made = stream_of(spark, registry, table)
    made.send(framed(3, b'{"id": 1}'), b'{"id": 2}')
    (outcome,) = made.merge()
    assert counts(outcome.entry) == dict(read=2, rejected=1, duplicate=0, inserted=1, updated=0, stale=0)
    assert not Path(registry.table_uri(table.schemas_name)).exists()
