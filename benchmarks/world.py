"""The environment of a benchmark: a home with a broker, a session, and a merged table with rows."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from lakehouse.declaration import StreamTable
from lakehouse.derived.refresh import refresh_changes, refresh_rollup
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.batches import merge_all, plan_next, prepare
from lakehouse.ingest.decode import decode_records
from lakehouse.kafka import create_topic, publish, read_records
from lakehouse.local.servers import running_broker
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.spark.sessions import build_session, stop_session
from lakehouse.storage.row_order import ORDER, merged_layout
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.tables.tables import redeclare

START = datetime(2019, 1, 1, tzinfo=UTC)
HOURS = 24 * 31  # of January, the month of all batches
_ROWS_PER_TASK = 1_000_000  # in the order of the hours, so that a task writes few months


@dataclass
class World:
    """A home with a running broker, a session, and a table of hourly temperatures at ``places`` places."""

    settings: Settings
    spark: SparkSession
    places: int = 6
    table: StreamTable = temperatures
    published: int = 0

    @property
    def context(self) -> TableContext:
        """The context of a batch."""
        return TableContext(self.spark, self.settings, self.table, "benchmark")

    def fill(self, rows: int, *, as_changes: bool = True) -> None:
        """Create the merged table and write ``rows`` base rows: all places, hour after hour.

        Without ``as_changes`` the feed omits these rows; the rollups include them.
        """
        create_topic(self.settings, self.table)
        prepare(self.context)
        if not as_changes:
            refresh_changes(self.context)
        hour_sql = f"timestampadd(HOUR, CAST(id DIV {self.places} AS INT), TIMESTAMP'{START:%Y-%m-%d %H:%M:%S}')"
        tasks = max(2, rows // _ROWS_PER_TASK)
        numbers = self.spark.range(0, rows, 1, tasks).selectExpr("id", f"{hour_sql} AS observed_at")
        month_sql = self.table.partition_by.expression if self.table.partition_by else ""
        columns = (
            f"CAST(id % {self.places} % 90 AS DECIMAL(9,6)) AS latitude",
            f"CAST(id % {self.places} DIV 90 / 1000 AS DECIMAL(9,6)) AS longitude",
            "observed_at",
            "CAST(id % 300 AS DOUBLE) / 10 AS temperature_2m",
            f"{month_sql} AS observed_month",
            *(f"{base_order()} AS _record", f"named_struct('temperature_2m', {base_order()}) AS _kept"),
        )
        layout = merged_layout(self.table, self.settings)
        writer = numbers.selectExpr(*columns).write.format("delta").mode("append")
        writer.option("dataChange", str(as_changes).lower()).save(layout.uri)
        refresh_changes(self.context)
        for rollup in self.table.rollups:
            refresh_rollup(self.context, rollup)

    def publish(self, records: int, months: int = 1) -> None:
        """Publish ``records`` records: half of them update a row, the others insert one."""
        lines = (self.line(number, months) for number in range(records))
        self.published += publish(self.settings, self.table, lines)

    def line(self, number: int, months: int) -> bytes:
        """Return a record: an even number updates a row, an odd number inserts a row of a new place."""
        hour = START + timedelta(days=31 * (number % months), hours=number // 2 // self.places % HOURS)
        place = number // 2 % self.places
        if number % 2:
            place += 1000 + self.published % 1_000_000
        reading = {
            "latitude": place % 90,
            "longitude": place // 90 / 1000,
            "time": f"{hour:%Y-%m-%dT%H:%M}",
            "temperature_2m": (number + self.published) % 400 / 10,
        }
        return json.dumps(reading).encode()

    def read(self) -> DataFrame:
        """Read and decode the waiting records, as a batch does."""
        plan = plan_next(self.settings, self.table)
        return decode_records(read_records(self.spark, self.settings, plan), self.table)

    def merge(self) -> None:
        """Merge the waiting records."""
        merge_all(self.context)

    def derive(self) -> None:
        """Refresh the feed and the rollups."""
        refresh_changes(self.context)
        for rollup in self.table.rollups:
            refresh_rollup(self.context, rollup)


def base_order() -> str:
    """Return the SQL of the position of a base row."""
    nulls = ", ".join(f"'{part.name}', CAST(NULL AS {part.type})" for part in ORDER if part.name != "base")
    return f"named_struct({nulls}, 'base', 0L)"


@contextmanager
def new_world(places: int = 6) -> Iterator[World]:
    """Yield a home in a temporary folder with broker and session; remove all of it afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder), spark_master="local[2]")
        with running_broker(settings):
            spark = build_session(settings)
            try:
                yield World(settings, spark, places)
            finally:
                stop_session(spark)


@contextmanager
def new_worlds(names: Sequence[str], places: int) -> Iterator[dict[str, World]]:
    """Yield one home per name, with its own topic and tables; they share one broker and one session."""
    with new_world() as shared_world:
        servers = bootstrap_servers(shared_world.settings)
        homes = [shared_world.settings.home / f"home{number}" for number in range(len(names))]
        yield {
            name: World(
                Settings(home=home, kafka_bootstrap_servers=servers),
                shared_world.spark,
                places,
                redeclare(temperatures, topic=home.name),
            )
            for name, home in zip(names, homes, strict=True)
        }
