"""Streaming queries from a topic, which feed a table through ``foreach_batch``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from lakehouse.operations.foreach_batch import foreach_batch
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.brokers.streams import Stream

LIMIT = 120  # seconds for a query to end
Merge = Callable[[DataFrame, int], None]


def options_of(stream: Stream, **options: Any) -> dict[str, str]:
    """The options of Spark's Kafka source for the topic of a stream."""
    defaults = {"kafka.bootstrap.servers": bootstrap_servers(stream.settings), "startingOffsets": "earliest"}
    subscription = {} if {"assign", "subscribe"} & {*options} else {"subscribe": stream.table.topic}
    return {**defaults, **subscription, **{name.replace("__", "."): str(value) for name, value in options.items()}}


def merger(stream: Stream) -> Merge:
    """The function for ``foreachBatch`` of the merged table alone."""
    return foreach_batch(stream.table, stream.settings, only_merged=True)


def start_query(
    stream: Stream, checkpoint: Path, merge: Merge | None = None, *, ends: bool = True, **options: Any
) -> StreamingQuery:
    """Start a query of another session, as a user does; it ends at the present end of the topic if ``ends`` is true."""
    records = stream.spark.newSession().readStream.format("kafka").options(**options_of(stream, **options)).load()
    writer = records.writeStream.foreachBatch(merge or merger(stream)).option("checkpointLocation", str(checkpoint))
    named_writer = writer.queryName(f"q_{uuid4().hex[:8]}")
    return named_writer.trigger(availableNow=True).start() if ends else named_writer.start()


def run_query(stream: Stream, checkpoint: Path, merge: Merge | None = None, **options: Any) -> None:
    """Run a query to its end; raises the error that stopped it."""
    assert start_query(stream, checkpoint, merge, **options).awaitTermination(LIMIT)


def micro_batch(stream: Stream, **options: Any) -> DataFrame:
    """The records of the topic as a query would pass them, without a query."""
    return stream.spark.newSession().read.format("kafka").options(**options_of(stream, **options)).load()
