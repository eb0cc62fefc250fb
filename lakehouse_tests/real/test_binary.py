"""Columns of bytes on a real broker: both writers store, change, derive, replay and query exactly the same bytes."""

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any
from uuid import uuid4

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Measure, Protobuf, RecordKey, Rollup, StreamTable, Topic
from lakehouse.derived.refresh import refresh_changes, refresh_rollup
from lakehouse.kafka import create_topic, publish
from lakehouse.ledger.commits import Entry
from lakehouse.operations.verify import verify_rollup
from lakehouse.query import query
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.avro_orders import stream_of
from lakehouse_tests.helpers.brokers.registries import order_table
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.tables.rows import rows_of

EVERY_BYTE = bytes(range(256))
KEY = b"\xff\x00key"
COLUMNS = (
    Column("id", "BIGINT", "Number of the item.", required=True),
    Column("photo", "BINARY", "A photo.", written="base64"),
    Column("token", "BINARY", "A token.", written="base64url", keep=True, null_erases=True),
    Column("digest", "BINARY", "A digest.", written="hex", null_values=("00",)),
    Column("raw", "BINARY", "The key.", source=RecordKey()),
)


def binary_stream(spark: SparkSession, settings: Settings) -> Stream:
    name = f"items_{uuid4().hex[:8]}"
    rollup = Rollup(f"{name}_by_id", by=["id"], measures={"n": Measure("count(*)", "BIGINT", "")}, doc="By number.")
    table = StreamTable(
        name, source=Topic(name, partitions=1), doc="Items.", columns=COLUMNS, key=["id"], rollups=[rollup]
    )
    create_topic(settings, table)
    return Stream(spark, settings, table)


def item(number: int, photo: bytes | str | None = None, **fields: Any) -> bytes:
    text = b64encode(photo).decode() if isinstance(photo, bytes) else photo
    return json.dumps({"id": number, "photo": text, **fields}).encode()


def photos(stream: Stream) -> dict[int, tuple[Any, ...]]:
    """The bytes of each row, by its number."""
    rows = rows_of(stream.settings, stream.table.name)
    return {row["id"]: (row["photo"], row["token"], row["digest"], row["raw"]) for row in rows}


def send_and_check(stream: Stream) -> list[Entry]:
    """Send new rows, then changes and texts of another form; check rows, feed and a query; return the commits."""
    token = urlsafe_b64encode(EVERY_BYTE).decode().rstrip("=")
    new_items = [item(1, EVERY_BYTE, token=token, digest="00FF"), item(2, b"", token="", digest="00"), item(3)]
    (first,) = stream.send_and_merge(*new_items, key=KEY)
    assert photos(stream) == {
        1: (EVERY_BYTE, EVERY_BYTE, b"\0\xff", KEY),
        2: (b"", b"", None, KEY),
        3: (None,) * 3 + (KEY,),
    }
    refresh_changes(stream.context)
    refresh_rollup(stream.context, stream.table.rollups[0])

    stream.send(item(1, b"new"), item(2, b"", token=None), item(4, EVERY_BYTE), item(5, "AR=="), item(6, "AQ"), key=KEY)
    (second,) = stream.merge()
    assert photos(stream) == {
        1: (b"new", EVERY_BYTE, None, KEY),
        2: (b"", None, None, KEY),
        3: (None, None, None, KEY),
        4: (EVERY_BYTE, None, None, KEY),
    }
    assert [reason for _, _, reason in stream.rejected()] == ["wrong_type", "wrong_type"]
    changes = refresh_changes(stream.context)
    assert (changes.changed, changes.rebuilt) == (3, False)
    feed = "SELECT id, hex(photo_before), hex(photo_after) FROM {changes} WHERE source_version = %d ORDER BY id"
    every_digit = EVERY_BYTE.hex().upper()
    expected = [(1, every_digit, b"new".hex().upper()), (2, "", ""), (4, None, every_digit)]
    assert stream.sql(feed % second.entry.version) == expected
    refresh_rollup(stream.context, stream.table.rollups[0])
    assert verify_rollup(stream.context, stream.table.rollups[0]).passed
    result = query(stream.settings, f"SELECT id, photo, octet_length(photo) FROM {stream.table.name} ORDER BY id")
    assert result.rows == [(1, b"new", 3), (2, b"", 0), (3, None, None), (4, EVERY_BYTE, 256)]
    return [first.entry, second.entry]


@pytest.mark.slow
@pytest.mark.invariant("10.4")
def test_both_writers_store_the_same_bytes_and_a_replay_changes_nothing(spark: SparkSession, broker: Settings) -> None:
    stream, other_stream = binary_stream(spark, broker), binary_stream(spark, broker)
    first, second = send_and_check(stream)
    with by_spark():
        assert [*map(counts, send_and_check(other_stream))] == [counts(first), counts(second)]
    writers = [
        DeltaTable(tested_stream.uri).history(1)[0]["engineInfo"].split("-")[0]
        for tested_stream in (stream, other_stream)
    ]
    assert writers == ["delta", "Apache"]
    for tested_stream in (stream, other_stream):
        rows = photos(tested_stream)
        (replayed,) = tested_stream.replay()
        assert (replayed.entry.metrics.inserted, replayed.entry.metrics.updated) == (0, 0)
        assert photos(tested_stream) == rows
        tested_stream.assert_accounted()
    DeltaTable(stream.uri).restore(first.version)
    assert refresh_changes(stream.context).changed == 3, "the feed is compared with the table"
    restored_photo = "SELECT hex(photo_after) FROM {changes} WHERE photo_before = X'6E6577'"
    assert stream.sql(restored_photo) == [(EVERY_BYTE.hex().upper(),)]


@pytest.mark.slow
def test_bytes_of_protobuf_are_published_by_a_derived_schema_and_merged(
    spark: SparkSession, registry: Settings
) -> None:
    columns = [COLUMNS[0], Column("photo", "BINARY", "A photo.")]
    stream = stream_of(spark, registry, order_table(columns=columns, rollups=[], format=Protobuf()))
    assert publish(registry, stream.table, [item(1, EVERY_BYTE), item(2)]) == 2
    (outcome,) = stream.merge()
    assert outcome.entry.commit.rejected == 0
    rows = {row["id"]: row["photo"] for row in rows_of(registry, stream.table.name)}
    assert rows == {1: EVERY_BYTE, 2: None}
    stream.assert_accounted()
