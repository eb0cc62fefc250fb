"""Other ways to merge a topic into a Delta table with Spark, each as those write it who use it.

None of them rejects, counts or proves anything, or keeps a feed or a rollup. They decode by Spark's ``from_json``.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.world import World
from lakehouse.settings.broker_address import bootstrap_servers

KEY = ("latitude", "longitude", "observed_at")
SAME_KEY = " AND ".join(f"s.{name} = t.{name}" for name in KEY)
_JSON = "latitude DECIMAL(9,6), longitude DECIMAL(9,6), time STRING, temperature_2m DOUBLE"
_PLACE = ("timestamp", "partition", "offset")
_EARLIEST = -2  # as Spark writes it
_VACUUM_TASKS = ("spark.sql.sources.parallelPartitionDiscovery.parallelism", "10000")
# as Spark's error advises: it takes the table for small, broadcasts all its keys and runs out of memory
_NO_BROADCAST = ("spark.sql.autoBroadcastJoinThreshold", "-1")


@dataclass
class PlainLoop:
    """Count what waits, read it again, MERGE it by its key, VACUUM. Where it is stands in memory: so many were counted.

    Its table is not partitioned. The pauses of the loop are left out.
    """

    world: World
    uri: str
    position: dict[int, int] = field(default_factory=dict)

    def merge(self) -> None:
        """Merge what waits."""
        records = self._read()
        counted = records.groupBy("partition").count().collect()
        rows = _decoded(self._read()).dropDuplicates(list(KEY)).drop(*_PLACE, "observed_month")
        with _set(self.world.spark, *_NO_BROADCAST):
            merge = _merge(self.world.spark, self.uri, rows, SAME_KEY)
            matched = merge.whenMatchedUpdate(set={"temperature_2m": "s.temperature_2m"})
            matched.whenNotMatchedInsertAll().execute()
        for row in counted:
            self.position[row["partition"]] = self.position.get(row["partition"], 0) + int(row["count"])

    def vacuum(self) -> None:
        """VACUUM as our sessions do it: folders are listed in two tasks."""
        DeltaTable.forPath(self.world.spark, self.uri).vacuum()

    def stock_vacuum(self) -> None:
        """VACUUM as Spark does it where nobody set anything."""
        with _set(self.world.spark, *_VACUUM_TASKS):
            self.vacuum()

    def _read(self) -> DataFrame:
        table = self.world.table
        starts = {str(part): self.position.get(part, _EARLIEST) for part in range(table.partitions)}
        options = {**_topic(self.world), "startingOffsets": json.dumps({table.topic: starts})}
        return self.world.spark.read.format("kafka").options(**options).load()


@dataclass
class Stream:
    """A query of Structured Streaming that merges in ``foreachBatch``, as Delta's documentation shows it.

    ``pruned`` names the batch's months in the condition, which the documentation does not.
    """

    world: World
    uri: str
    pruned: bool = False
    query: StreamingQuery | None = None
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    done: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def next_batch(self) -> None:
        """Let the query, which stays up, end its batch and merge the next.

        Between two calls it waits inside its batch: it neither asks the broker nor starts before its turn.
        """
        if self.query is None:
            self.query = self._written().foreachBatch(self._hold).start()
        else:
            self.go.release()
        while not self.done.acquire(timeout=1):
            if error := self.query.exception():
                raise error

    def once(self) -> None:
        """Start the query, let it merge what waits, and end it."""
        self._written().trigger(availableNow=True).foreachBatch(self._upsert).start().awaitTermination()

    def close(self) -> None:
        """End the query."""
        self.go.release()
        if self.query:
            self.query.stop()

    def _written(self) -> DataStreamWriter:
        options = {**_topic(self.world), "startingOffsets": "earliest"}
        rows = _decoded(self.world.spark.readStream.format("kafka").options(**options).load())
        return rows.writeStream.option("checkpointLocation", f"{self.uri}.checkpoint")

    def _hold(self, rows: DataFrame, number: int) -> None:
        self._upsert(rows, number)
        self.done.release()
        self.go.acquire()

    def _upsert(self, rows: DataFrame, _: int) -> None:
        newest = _newest(rows)
        same = SAME_KEY
        if self.pruned:
            newest = newest.persist()
            months = ", ".join(f"DATE'{row[0]}'" for row in newest.select("observed_month").distinct().collect())
            same += f" AND t.observed_month IN ({months})"
        with _set(rows.sparkSession, *_NO_BROADCAST):
            merge = _merge(rows.sparkSession, self.uri, newest, same)
            merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        newest.unpersist()


def _merge(spark: SparkSession, uri: str, rows: DataFrame, same: str) -> DeltaMergeBuilder:
    return DeltaTable.forPath(spark, uri).alias("t").merge(F.broadcast(rows.alias("s")), same)


@contextmanager
def _set(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name) or ""
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def _topic(world: World) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap_servers(world.settings), "subscribe": world.table.topic}


def _decoded(records: DataFrame) -> DataFrame:
    parsed = records.select(*_PLACE, F.from_json(F.col("value").cast("string"), _JSON).alias("json"))
    hour = "to_timestamp(json.time, \"yyyy-MM-dd'T'HH:mm\") AS observed_at"
    rows = parsed.selectExpr(*_PLACE, "json.latitude", "json.longitude", hour, "json.temperature_2m")
    return rows.selectExpr("*", "CAST(date_trunc('MONTH', observed_at) AS DATE) AS observed_month")


def _newest(rows: DataFrame) -> DataFrame:
    values, order = "struct(temperature_2m, observed_month)", f"struct({', '.join(_PLACE)})"
    return rows.groupBy(*KEY).agg(F.expr(f"max_by({values}, {order})").alias("newest")).select(*KEY, "newest.*")
