"""JSON with a real registry: records are published, checked, merged and replayed by their schemas and references."""

import json

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Json
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.errors import TopicError
from lakehouse.kafka import PublishOptions, publish
from lakehouse.kafka.registry_client import registry as registry_client
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.avro_orders import stream_of
from lakehouse_tests.helpers.brokers.registries import order_table
from lakehouse_tests.helpers.brokers.streams import counts
from lakehouse_tests.helpers.tables.rows import rows_of

COLUMNS = [Column("id", "BIGINT", "Number of the order.", required=True), Column("note", "STRING", "A note.")]
SCHEMA = {"type": "object", "required": ["id"], "properties": {"note": {"type": "string", "pattern": "^[a-z]+$"}}}


@pytest.mark.slow
def test_records_are_checked_by_the_schemas_of_the_registry(spark: SparkSession, registry: Settings) -> None:
    form = Json(framed=True, checked=True)
    stream = stream_of(spark, registry, order_table(columns=COLUMNS, rollups=[], format=form))
    schema = PublishOptions(schema=json.dumps(SCHEMA))
    assert publish(registry, stream.table, [b'{"id": 1, "note": "first"}'], schema) == 1
    with pytest.raises(TopicError, match="does not fit schema"):
        publish(registry, stream.table, [b'{"id": 2, "note": "2"}'])
    with registry_client(registry) as client:
        schema_id = client.newest_id(f"{stream.table.topic}-value") or 0
    stream.send(add_frame(schema_id, b'{"id": 3, "note": "3"}'), add_frame(schema_id, b'{"id": 4, "note": "ok"}'))
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=3, rejected=1, superseded=0, inserted=2, updated=0, stale=0)
    assert sorted(row["id"] for row in rows_of(stream.settings, stream.table.name)) == [1, 4]
    (rejected_row,) = rows_of(stream.settings, stream.table.rejected_name)
    assert rejected_row["reason"] == "schema_violation"
    assert rejected_row["detail"].startswith("'note' is text '3': it does not match")
    (replayed,) = stream.replay()
    assert (replayed.entry.metrics.inserted, replayed.entry.metrics.updated) == (0, 0)
    stream.assert_accounted()
