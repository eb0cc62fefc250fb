"""Lines are published as Avro or framed JSON, with a schema in a real registry."""

import json

import pytest

from lakehouse.declaration import Column, Json
from lakehouse.errors import RegistryError, TopicError
from lakehouse.kafka import PublishOptions, publish, read_topic
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.avro_orders import stream_of, totals
from lakehouse_tests.helpers.brokers.registries import FIRST, SECOND, order_table
from lakehouse_tests.helpers.brokers.streams import Stream, counts


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
    assert counts(outcome.entry) == dict(read=1, rejected=0, superseded=0, inserted=1, updated=0, stale=0)
    assert totals(stream) == [(7, None, "Ann")]


def test_framed_json_is_published_with_the_id_of_a_schema(spark, registry: Settings) -> None:
    columns = [Column("id", "INT", "Number.", required=True)]
    stream = stream_of(spark, registry, order_table(columns=columns, rollups=[], format=Json(framed=True)))
    assert publish(registry, stream.table, [b'{"id": 1}', b'{"id": 1}']) == 2
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=2, rejected=0, superseded=1, inserted=1, updated=0, stale=0)
