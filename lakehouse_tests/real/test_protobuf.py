"""Protobuf with a real registry: records are published, merged and replayed by their schemas."""

from operator import itemgetter

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Protobuf
from lakehouse.kafka import PublishOptions, publish
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.avro_orders import stream_of
from lakehouse_tests.helpers.brokers.registries import order_table
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.tables.rows import rows_of

COLUMNS = [
    Column("id", "BIGINT", "Number of the order.", required=True),
    Column("at", "TIMESTAMP", "When it was placed."),
    Column("note", "STRING", "A note."),
    Column("amounts", "ARRAY<DOUBLE>", "Of each item."),
]
SCHEMA = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  google.protobuf.Timestamp at = 2;
  optional string note = 3;
  repeated double amounts = 4;
  string unread = 5;
}
"""
LINE = b'{"id": 1, "at": "2026-01-01T12:00:00.5Z", "amounts": [1.5, 2], "unread": "x"}'


def rows(stream: Stream) -> list[tuple[object, ...]]:
    """The id, the time as text, the note and the amounts of each row."""
    stored_rows = sorted(rows_of(stream.settings, stream.table.name), key=itemgetter("id"))
    return [(row["id"], row["at"] and f"{row['at']:%H:%M:%S.%f}", row["note"], row["amounts"]) for row in stored_rows]


def test_records_are_written_and_read_by_a_schema_of_the_registry(spark: SparkSession, registry: Settings) -> None:
    stream = stream_of(spark, registry, order_table(columns=COLUMNS, rollups=[], format=Protobuf()))
    assert publish(registry, stream.table, [LINE], PublishOptions(schema=SCHEMA)) == 1
    assert publish(registry, stream.table, [b'{"id": 2, "note": "second"}']) == 1
    outcomes = stream.send_and_merge(b"\x00\x00\x00\x00\x01\x00\xff", b"no frame")
    assert counts(outcomes[0].entry) == dict(read=4, rejected=2, superseded=0, inserted=2, updated=0, stale=0)
    assert rows(stream) == [(1, "12:00:00.500000", None, [1.5, 2.0]), (2, None, "second", [])]
    assert dict(outcomes[0].unmapped_fields) == {"unread": 2}
    (replayed,) = stream.replay()
    assert (replayed.entry.metrics.inserted, replayed.entry.metrics.updated) == (0, 0)
    stream.assert_accounted()


@pytest.mark.slow
def test_the_first_record_is_published_with_a_schema_derived_from_the_declaration(
    spark: SparkSession, registry: Settings
) -> None:
    stream = stream_of(spark, registry, order_table(columns=COLUMNS, rollups=[], format=Protobuf()))
    assert publish(registry, stream.table, [b'{"id": 7, "at": "2026-01-01T12:00:00.5Z", "note": "n"}']) == 1
    (outcome,) = stream.merge()
    assert outcome.entry.commit.rejected == 0
    assert rows(stream) == [(7, "12:00:00.500000", "n", [])]
