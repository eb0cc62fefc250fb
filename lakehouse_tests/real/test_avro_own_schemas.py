"""Avro without a registry: records are published, merged, redriven and replayed by the schemas of the declaration."""

from dataclasses import replace
from operator import itemgetter

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Avro, Column
from lakehouse.kafka import publish
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.avro_orders import stream_of
from lakehouse_tests.helpers.brokers.registries import order_table
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.tables.rows import rows_of

FIRST = """
{"type": "record", "name": "shop.Order", "fields": [
  {"name": "id", "type": "long"},
  {"name": "note", "type": ["null", "string", "long"]}
]}
"""
SECOND = FIRST.replace("]}\n", ', {"name": "gift", "type": "boolean"}]}')
COLUMNS = [
    Column("id", "BIGINT", "Number of the order.", required=True),
    Column("text", "STRING", "A note that is a text.", source=("note", "string")),
    Column("number", "BIGINT", "A note that is a number.", source=("note", "long")),
]


def rows(stream: Stream) -> list[tuple[object, ...]]:
    stored_rows = sorted(rows_of(stream.settings, stream.table.name), key=itemgetter("id"))
    return [(row["id"], row["text"], row["number"]) for row in stored_rows]


@pytest.mark.slow
def test_single_objects_are_merged_by_the_schemas_of_the_declaration(spark: SparkSession, registry: Settings) -> None:
    one_schema = Avro(schemas=[FIRST], named_branches=True)
    stream = stream_of(spark, registry, order_table(columns=COLUMNS, rollups=[], format=one_schema))
    assert publish(registry, stream.table, [b'{"id": 1, "note": {"string": "a"}}', b'{"id": 2, "note": null}']) == 2
    newer = Avro(schemas=[FIRST, SECOND], named_branches=True)
    newer_value = newer.writer()(b'{"id": 3, "note": {"long": 5}, "gift": true}')
    (outcome,) = stream.send_and_merge(newer_value, b"\x00\x00\x00\x00\x01\x02")
    assert counts(outcome.entry) == dict(read=4, rejected=2, superseded=0, inserted=2, updated=0, stale=0)
    assert rows(stream) == [(1, "a", None), (2, None, None)]
    stream.table = replace(stream.table, format=newer)
    stream.replay()
    assert rows(stream) == [(1, "a", None), (2, None, None), (3, None, 5)]
