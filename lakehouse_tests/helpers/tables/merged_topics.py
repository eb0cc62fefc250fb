"""Merged tables that say what they have read of a topic, written without Spark."""

from typing import Any
from zlib import crc32

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakehouse.declaration import StreamTable
from lakehouse.kafka import newest_records, read_topic
from lakehouse.ledger.commit_values import LastRecord
from lakehouse.ledger.commits import Commit
from lakehouse.settings import Settings


def last_record(settings: Settings, table: StreamTable, position: int) -> LastRecord:
    """Return what a batch notes of the record that is at a position of the first partition."""
    message = next(m for m in newest_records(settings, table.topic, 10) if m.offset == position)
    assert message.value
    time = message.milliseconds * 1000
    return LastRecord(position=position, time=time, checksum=crc32(message.value), greatest_time=time)


def write_merged_table(settings: Settings, table: StreamTable, *last_records: LastRecord, **fields: Any) -> None:
    """Write a merged table with a batch that ended with each of these records."""
    source = read_topic(settings, table.topic).source
    for number, last in enumerate(last_records, 1):
        assert last.position is not None
        ends = {"stream": table.topic, "source": source, "progress": {0: last.position + 1}, "last_records": {0: last}}
        commit = Commit(kind="batch", number=number, attempt=str(number), table_version=number - 1, **(ends | fields))
        commit_to_table(settings, table, commit)


def commit_to_table(settings: Settings, table: StreamTable, commit: Commit) -> None:
    """Make a commit that changes no row; the first one makes the table."""
    uri, row = settings.table_uri(table.name), pa.table({"id": [1]})
    if not DeltaTable.is_deltatable(uri):
        write_deltalake(uri, row)
    properties = CommitProperties(custom_metadata={"userMetadata": commit.model_dump_json()})
    merge = DeltaTable(uri).merge(row, "s.id = t.id", "s", "t", commit_properties=properties)
    merge.when_matched_update_all().execute()
