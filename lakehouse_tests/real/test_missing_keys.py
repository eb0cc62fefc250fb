"""Rows whose key a compacted topic no longer has: compaction removed their deletes before they were merged."""

from dataclasses import replace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.declaration import (
    Column,
    Deletes,
    FieldIs,
    HeaderIs,
    RecordHeader,
    RecordKey,
    StreamTable,
    Tombstone,
    Version,
)
from lakehouse.errors import ConflictError, DataLossError, DeclarationError, LakehouseError
from lakehouse.ingest.missing_keys import delete_missing, find_missing_keys, require_tombstones
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.brokers.clients import delete_before, with_client
from lakehouse_tests.helpers.brokers.streams import Stream, unique_table
from lakehouse_tests.helpers.commands import lakehouse_says
from lakehouse_tests.helpers.tables.rows import rows_of
from lakehouse_tests.helpers.waiting import wait_until

NAME = Column("name", "STRING", "Name.", source=RecordKey(), required=True)
REVISION = Column("revision", "INT", "Revision.", source=RecordHeader("revision"))


def table_of_names(**changes: object) -> StreamTable:
    """A table of amounts by name, whose tombstones delete rows."""
    return unique_table(
        columns=[NAME, Column("amount", "INT", "Amount.")],
        key=["name"],
        base=None,
        late=None,
        checks=[],
        partition_by=None,
        samples=None,
        rollups=[],
        deletes=Deletes(when=Tombstone()),
        partitions=1,
        **changes,
    )


@pytest.fixture
def stream(spark: SparkSession, broker: Settings) -> Stream:
    """Three names, all merged."""
    stream = Stream.create(spark, broker, **vars(table_of_names()))
    for key in (b"a", b"b", b"c"):
        stream.send(b'{"amount": 1}', key=key)
    stream.merge()
    return stream


def names(stream: Stream) -> set[str]:
    return {row["name"] for row in rows_of(stream.settings, stream.table.name)}


def keys_after_another(stream: Stream) -> set[bytes]:
    """Send one record, which closes the segment before it for compaction; return the keys of all records."""
    stream.send(b'{"amount": 1}', key=b"other")
    partition = TopicPartition(stream.table.topic, 0)

    async def read(consumer: AIOKafkaConsumer) -> set[bytes]:
        consumer.assign([partition])
        await consumer.seek_to_beginning()
        keys, end = set(), (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            fetched = await consumer.getmany(partition, timeout_ms=100)
            keys |= {record.key for records in fetched.values() for record in records}
        return keys

    return with_client(AIOKafkaConsumer, stream.settings, read)


def rename(stream: Stream, name: str) -> None:
    """Give the row of a name a key that the topic does not have, as if its records had been compacted away."""
    DeltaTable(stream.uri).update(updates={"name": "'gone'"}, predicate=f"name = '{name}'")


@pytest.mark.invariant("9.14")
def test_a_row_whose_key_the_topic_no_longer_has_is_deleted_and_no_other(stream: Stream) -> None:
    stream.send(b"{", key=b"b")  # invalid, and the newest record of its key
    stream.merge()
    rename(stream, "c")
    missing_keys = find_missing_keys(stream.context)
    assert (missing_keys.count, missing_keys.first_keys) == (1, ["gone"])
    entry = delete_missing(stream.context, missing_keys)
    assert (entry.commit.kind, entry.metrics.deleted) == ("missing", 1)
    assert names(stream) == {"a", "b"}
    (stored_delete,) = rows_of(stream.settings, stream.table.deletes_name)
    assert (stored_delete["name"], stored_delete["_record"]["position"]) == ("gone", 2)
    assert find_missing_keys(stream.context).count == 0
    stream.send_and_merge(b'{"amount": 2}', key=b"gone")
    assert names(stream) == {"a", "b", "gone"}, "a newer record is a row"
    stream.assert_accounted()


def test_a_key_of_filtered_records_is_not_missing(stream: Stream) -> None:
    filtered = replace(stream, table=replace(stream.table, where=FieldIs("amount", [2])))
    assert find_missing_keys(filtered.context).count == 0


def test_a_key_that_cannot_be_read_stops_before_anything_is_deleted(stream: Stream) -> None:
    stream.send(b"{}", key=b"\xff")
    rename(stream, "a")
    with pytest.raises(LakehouseError, match=r"key of a record cannot be read.*partition 0, offset 3"):
        find_missing_keys(stream.context)


def test_a_row_whose_record_may_have_expired_is_not_missing(stream: Stream) -> None:
    rename(stream, "a")
    delete_before(stream.settings, stream.table.topic, {0: 1})
    assert find_missing_keys(stream.context).count == 0


@pytest.mark.slow
def test_a_row_that_changed_since_is_not_deleted(stream: Stream) -> None:
    rename(stream, "a")
    missing_keys = find_missing_keys(stream.context)
    stream.send_and_merge(b'{"amount": 2}', key=b"gone")
    with pytest.raises(ConflictError, match="has changed since its keys were read"):
        delete_missing(stream.context, missing_keys)
    assert find_missing_keys(stream.context).among(missing_keys).count == 0
    assert names(stream) == {"b", "c", "gone"}
    stream.merge()
    stream.assert_accounted()


@pytest.mark.parametrize(
    "changes",
    [
        {"deletes": Deletes(when=FieldIs("operation", ["DELETE"]))},
        {"columns": [NAME, REVISION], "version": Version("revision", nulls="oldest")},
        {"where": HeaderIs("type", ["a"])},
    ],
)
def test_a_missing_key_shows_no_delete_if_something_else_decides(changes: Any) -> None:
    table = replace(table_of_names(), **changes)
    with pytest.raises(DeclarationError, match="does not show that its row was deleted"):
        require_tombstones(table)


@pytest.mark.slow
@pytest.mark.invariant("9.14")
def test_the_command_deletes_what_compaction_has_removed(
    spark: SparkSession, broker: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(spark, broker, table_of_names())
    configs = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    new_topic = NewTopic(stream.table.topic, 1, 1, topic_configs={**configs, "delete.retention.ms": "10000"})
    with_client(AIOKafkaAdminClient, broker, lambda admin: admin.create_topics([new_topic]))
    for key in (b"a", b"b"):
        stream.send(b'{"amount": 1}', key=key)
    stream.merge()
    stream.send(None, key=b"a")
    assert wait_until(lambda: b"a" not in keys_after_another(stream), 180)
    with pytest.raises(DataLossError, match=r"repair missing-keys"):
        stream.merge()
    monkeypatch.setenv("LAKEHOUSE_HOME", str(broker.home))
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers(broker))
    monkeypatch.setattr("lakehouse.discovery.declared_tables", lambda _: (stream.table,))
    result = lakehouse_says("repair", "missing-keys", stream.table.name, "--yes")
    assert result.code == 0, result.err
    assert "1 row deleted" in result.out
    assert names(stream) == {"b", "other"}
    stream.assert_accounted()
