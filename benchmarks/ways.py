"""Other ways to merge a topic into a Delta table with Spark, written as their users write them.

They decode with Spark's ``from_json``. None of them rejects or counts records, checks its result, or maintains a feed
or a rollup.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.world import World
from lakehouse.settings.addresses import bootstrap_servers

KEY = ("latitude", "longitude", "observed_at")
SAME_KEY = " AND ".join(f"s.{name} = t.{name}" for name in KEY)
_POSITION = ("timestamp", "partition", "offset")
_EARLIEST = -2  # Spark's number for the earliest offset
_DEFAULT_VACUUM_TASKS = ("spark.sql.sources.parallelPartitionDiscovery.parallelism", "10000")
# the advice of Spark's error: Spark assumes that the table is small, broadcasts all its keys and runs out of memory
_NO_BROADCAST = ("spark.sql.autoBroadcastJoinThreshold", "-1")


@dataclass(frozen=True)
class Form:
    """The rows that a stream makes of records: the columns of their JSON, and those of the table in SQL."""

    key: tuple[str, ...]
    json: str
    columns: Mapping[str, str]

    @property
    def same_key(self) -> str:
        """The condition that the key of ``s`` equals the key of ``t``."""
        return " AND ".join(f"s.{name} = t.{name}" for name in self.key)


_HOUR = "to_timestamp(json.time, \"yyyy-MM-dd'T'HH:mm\")"
_TEMPERATURES = Form(
    KEY,
    "latitude DECIMAL(9,6), longitude DECIMAL(9,6), time STRING, temperature_2m DOUBLE",
    {
        "latitude": "json.latitude",
        "longitude": "json.longitude",
        "observed_at": _HOUR,
        "temperature_2m": "json.temperature_2m",
        "observed_month": f"CAST(date_trunc('MONTH', {_HOUR}) AS DATE)",
    },
)


@dataclass
class PlainLoop:
    """A loop that counts the waiting records, reads them again, merges them by key and runs VACUUM.

    It keeps its position in memory, as the number of counted records. Its table has no partitions. The pauses of the
    loop are left out.
    """

    world: World
    uri: str
    position: dict[int, int] = field(default_factory=dict)

    def merge(self) -> None:
        """Merge the waiting records."""
        records = self._read()
        counts = records.groupBy("partition").count().collect()
        rows = _decode(self._read(), _TEMPERATURES).dropDuplicates(list(KEY)).drop(*_POSITION, "observed_month")
        with _with_setting(self.world.spark, *_NO_BROADCAST):
            merge = _start_merge(self.world.spark, self.uri, rows, SAME_KEY)
            with_update = merge.whenMatchedUpdate(set={"temperature_2m": "s.temperature_2m"})
            with_update.whenNotMatchedInsertAll().execute()
        for row in counts:
            self.position[row["partition"]] = self.position.get(row["partition"], 0) + int(row["count"])

    def vacuum(self) -> None:
        """Run VACUUM with the settings of lakehouse: two tasks list the folders."""
        DeltaTable.forPath(self.world.spark, self.uri).vacuum()

    def stock_vacuum(self) -> None:
        """Run VACUUM with the default settings of Spark."""
        with _with_setting(self.world.spark, *_DEFAULT_VACUUM_TASKS):
            self.vacuum()

    def _read(self) -> DataFrame:
        table = self.world.table
        offsets = {
            str(partition): self.position.get(partition, _EARLIEST)
            for partition in range(table.topic_options.partitions)
        }
        options = {**_topic_options(self.world), "startingOffsets": json.dumps({table.topic: offsets})}
        return self.world.spark.read.format("kafka").options(**options).load()


@dataclass
class Stream:
    """A query of Structured Streaming that merges in ``foreachBatch``, as the documentation of Delta shows it.

    ``pruned`` adds the months of the batch to the condition, which the documentation does not.
    """

    world: World
    uri: str
    pruned: bool = False
    form: Form = _TEMPERATURES
    query: StreamingQuery | None = None
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    end_signal: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def next_batch(self) -> None:
        """Let the running query finish its batch and merge the next one.

        Between two calls the query waits inside its batch, so it uses no time outside its turn.
        """
        if self.query is None:
            self.query = self._start_writer().foreachBatch(self._merge_and_wait).start()
        else:
            self.go.release()
        while not self.end_signal.acquire(timeout=1):
            if error := self.query.exception():
                raise error

    def merge_once(self) -> None:
        """Start the query, merge the waiting records and stop the query."""
        self._start_writer().trigger(availableNow=True).foreachBatch(self._upsert).start().awaitTermination()

    def close(self) -> None:
        """Stop the query."""
        self.go.release()
        if self.query:
            self.query.stop()

    def _start_writer(self) -> DataStreamWriter:
        options = {**_topic_options(self.world), "startingOffsets": "earliest"}
        rows = _decode(self.world.spark.readStream.format("kafka").options(**options).load(), self.form)
        return rows.writeStream.option("checkpointLocation", f"{self.uri}.checkpoint")

    def _merge_and_wait(self, rows: DataFrame, number: int) -> None:
        self._upsert(rows, number)
        self.end_signal.release()
        self.go.acquire()

    def _upsert(self, rows: DataFrame, _: int) -> None:
        newest_rows = _newest_rows(rows, self.form)
        condition = self.form.same_key
        if self.pruned:
            newest_rows = newest_rows.persist()
            months = ", ".join(f"DATE'{row[0]}'" for row in newest_rows.select("observed_month").distinct().collect())
            condition += f" AND t.observed_month IN ({months})"
        with _with_setting(rows.sparkSession, *_NO_BROADCAST):
            merge = _start_merge(rows.sparkSession, self.uri, newest_rows, condition)
            merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        newest_rows.unpersist()


def _start_merge(spark: SparkSession, uri: str, rows: DataFrame, condition: str) -> DeltaMergeBuilder:
    return DeltaTable.forPath(spark, uri).alias("t").merge(F.broadcast(rows.alias("s")), condition)


@contextmanager
def _with_setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    value_before = spark.conf.get(name) or ""
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, value_before)


def _topic_options(world: World) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap_servers(world.settings), "subscribe": world.table.topic}


def _decode(records: DataFrame, form: Form) -> DataFrame:
    parsed_records = records.select(*_POSITION, F.from_json(F.col("value").cast("string"), form.json).alias("json"))
    return parsed_records.selectExpr(*_POSITION, *(f"{sql} AS {name}" for name, sql in form.columns.items()))


def _newest_rows(rows: DataFrame, form: Form) -> DataFrame:
    values = f"struct({', '.join(name for name in form.columns if name not in form.key)})"
    order = f"struct({', '.join(_POSITION)})"
    newest_rows = rows.groupBy(*form.key).agg(F.expr(f"max_by({values}, {order})").alias("newest"))
    return newest_rows.select(*form.key, "newest.*")
