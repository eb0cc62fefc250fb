"""What is measured on: a home of its own with a broker, a session, and a merged table that holds rows."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from lakehouse.declaration import StreamTable
from lakehouse.derived.refresh import refresh_changes, refresh_rollup
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.batches import merge_all, plan_next, prepare
from lakehouse.ingest.decode import decode_records
from lakehouse.kafka import create_topic, publish, read_records
from lakehouse.local.broker import running_broker
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse.spark.sessions import build_session, stop_session
from lakehouse.storage.row_order import ORDER, merged_layout
from lakehouse.storage.table_context import TableContext

START = datetime(2019, 1, 1, tzinfo=UTC)
HOURS = 24 * 31  # of January, in which batches fall
_ROWS_OF_A_TASK = 1_000_000  # hour after hour, so that each writes few months


@dataclass
class World:
    """A home whose broker runs, a session, and a table of hours at so many places."""

    settings: Settings
    spark: SparkSession
    places: int = 6
    table: StreamTable = temperatures
    published: int = 0

    @property
    def context(self) -> TableContext:
        """What a batch works with."""
        return TableContext(self.spark, self.settings, self.table, "benchmark")

    def fill(self, rows: int, *, as_changes: bool = True) -> None:
        """Make the merged table and give it so many rows, as base rows are: hour after hour at all places.

        Where they are not to count ``as_changes``, the feed does not tell them; the rollups do.
        """
        create_topic(self.settings, self.table)
        prepare(self.context)
        if not as_changes:
            refresh_changes(self.context)
        hours = f"timestampadd(HOUR, CAST(id DIV {self.places} AS INT), TIMESTAMP'{START:%Y-%m-%d %H:%M:%S}')"
        tasks = max(2, rows // _ROWS_OF_A_TASK)
        numbers = self.spark.range(0, rows, 1, tasks).selectExpr("id", f"{hours} AS observed_at")
        month = self.table.partition_by.expression if self.table.partition_by else ""
        columns = (
            f"CAST(id % {self.places} % 90 AS DECIMAL(9,6)) AS latitude",
            f"CAST(id % {self.places} DIV 90 / 1000 AS DECIMAL(9,6)) AS longitude",
            "observed_at",
            "CAST(id % 300 AS DOUBLE) / 10 AS temperature_2m",
            f"{month} AS observed_month",
            *(f"{base_order()} AS _record", f"named_struct('temperature_2m', {base_order()}) AS _kept"),
        )
        layout = merged_layout(self.table, self.settings)
        writer = numbers.selectExpr(*columns).write.format("delta").mode("append")
        writer.option("dataChange", str(as_changes).lower()).save(layout.uri)
        refresh_changes(self.context)
        for rollup in self.table.rollups:
            refresh_rollup(self.context, rollup)

    def publish(self, records: int, months: int = 1) -> None:
        """Publish so many records, of which half update a row and half bring one."""
        lines = (self.line(number, months) for number in range(records))
        self.published += publish(self.settings, self.table, lines)

    def line(self, number: int, months: int) -> bytes:
        """A record: an even one of a row that is there, an odd one of a place that has none in that hour yet."""
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
        """The records that wait, decoded, as a batch reads them."""
        plan = plan_next(self.settings, self.table)
        return decode_records(read_records(self.spark, self.settings, plan), self.table)

    def merge(self) -> None:
        """Merge what waits."""
        merge_all(self.context)

    def derive(self) -> None:
        """Bring feed and rollups up to the merged table."""
        refresh_changes(self.context)
        for rollup in self.table.rollups:
            refresh_rollup(self.context, rollup)


def base_order() -> str:
    """Where a base row stands, in SQL."""
    nulls = ", ".join(f"'{each.name}', CAST(NULL AS {each.type})" for each in ORDER if each.name != "base")
    return f"named_struct({nulls}, 'base', 0L)"


@contextmanager
def new_world(places: int = 6) -> Iterator[World]:
    """A home in a temporary folder, with everything started; all of it is gone afterwards."""
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
    """A home for each name, with a topic and tables of its own, over one broker and one session."""
    with new_world() as shared:
        servers = bootstrap_servers(shared.settings)
        homes = [shared.settings.home / f"home{number}" for number in range(len(names))]
        yield {
            name: World(
                Settings(home=home, kafka_bootstrap_servers=servers),
                shared.spark,
                places,
                replace(temperatures, topic=home.name),
            )
            for name, home in zip(names, homes, strict=True)
        }
