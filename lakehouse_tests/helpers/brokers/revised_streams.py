"""A table whose records have a revision that orders them, with deletes and truncates."""

from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Version
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream, counts, record

BY_REVISION = Version("revision", nulls="oldest")
"""The version of tables whose records may have no revision."""


def stream_with_revisions(spark: SparkSession, broker: Settings, type_: str = "INT", **options: Any) -> Stream:
    """Create a table whose version is the revision, and its topic with one partition."""
    columns = [*temperatures.columns, Column("revision", type_, "Orders the records.")]
    return Stream.create(spark, broker, columns=columns, version=BY_REVISION, partitions=1, **options)


def row(hour: str, revision: int, **fields: Any) -> bytes:
    return record(time=hour, revision=revision, **fields)


def delete(hour: str, revision: int) -> bytes:
    return row(hour, revision, operation="DELETE", temperature_2m=None)


def truncate(revision: int) -> bytes:
    return b'{"operation": "TRUNCATE", "revision": %d}' % revision


def outcome(stream: Stream, *values: bytes) -> dict[str, int]:
    """Merge values in one batch; return its counts that are not zero."""
    (merge_outcome,) = stream.send_and_merge(*values)
    entry = merge_outcome.entry
    deletes_counts = {"deleted": entry.metrics.deleted, "without_row": entry.commit.deletes_without_row}
    stream.assert_accounted()
    return {name: count for name, count in (counts(entry) | deletes_counts).items() if count}


def stored_deletes(stream: Stream) -> int:
    """Count the rows of the table of deletes, without Spark."""
    table = DeltaTable(stream.settings.table_uri(stream.table.deletes_name))
    return int(table.to_pyarrow_table().num_rows)
