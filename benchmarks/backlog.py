"""A backlog: how long merging a whole topic takes, relative to reading and decoding it without writing.

Every record has a different key: one reading per place and hour. In time order, a batch falls into a few months.
Scattered, every batch falls into all months.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from uuid import uuid4

from benchmarks.turns import Measurement, take_turns
from benchmarks.world import START, World, new_world
from lakehouse.declaration import StreamTable
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.batches import Request, merge_all, plan_next
from lakehouse.ingest.decode import decode_records
from lakehouse.kafka import create_topic, delete_topic, read_records
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.tables.tables import redeclare

WARM_UP_RECORDS = 500_000  # records that are merged twice before the measurement
PLACES = 114  # five million records are five years of hours at each
_STEP = 7_368_787  # a prime number, which scatters the record numbers
_PRODUCER_OPTIONS = {
    "kafka.compression.type": "zstd",
    "kafka.batch.size": "262144",
    "kafka.linger.ms": "20",
    "kafka.delivery.timeout.ms": "900000",  # the broker shares its cores with other processes
}


def run(turns: int, count: int) -> dict[str, dict[str, Measurement]]:
    """Measure backlogs of ``count`` records in turns; return measurements by kind of backlog, then by contender."""
    measurements = {}
    with new_world() as world:
        with backlog(world, WARM_UP_RECORDS, 1, is_scattered=False) as table:
            _measure(world, table, 2)
        for is_scattered in (False, True):
            for partitions in (1, 12):
                with backlog(world, count, partitions, is_scattered=is_scattered) as table:
                    order = "scattered" if is_scattered else "in time order"
                    topic = f"{partitions} partition{'s' if partitions > 1 else ''}"
                    measurements[f"{order}, {topic}"] = _measure(world, table, turns)
    return measurements


def _measure(world: World, table: StreamTable, turns: int) -> dict[str, Measurement]:
    def read() -> None:
        plan = plan_next(world.settings, table, Request(max_records=1_000_000_000))
        decoded_records = decode_records(read_records(world.spark, world.settings, plan), table)
        decoded_records.write.format("noop").mode("overwrite").save()

    def merge() -> None:
        merge_all(replace(world, table=replace(table, name=f"t_{uuid4().hex[:8]}")).context)

    return take_turns(turns, {"read and decode": read, "merge": merge})


@contextmanager
def backlog(world: World, count: int, partitions: int, *, is_scattered: bool) -> Iterator[StreamTable]:
    """Yield a new table whose topic has ``count`` records, published by Spark in order; delete the topic afterwards."""
    topic = f"backlog-{uuid4().hex[:8]}"
    table = redeclare(temperatures, topic=topic, base=None, references=(), rollups=())
    create_topic(world.settings, table, partitions)
    options = {"kafka.bootstrap.servers": bootstrap_servers(world.settings), "topic": topic, **_PRODUCER_OPTIONS}
    number_sql = f"id * {_STEP} % {count}" if is_scattered else "id"
    numbers = world.spark.range(0, count, 1, 1).selectExpr(f"{number_sql} AS number")
    hour_sql = f"timestampadd(HOUR, CAST(number DIV {PLACES} AS INT), TIMESTAMP'{START:%Y-%m-%d %H:%M:%S}')"
    readings = numbers.selectExpr(
        f"CAST(number % {PLACES} - 50 AS DECIMAL(9,6)) AS latitude",
        "CAST(13.4 AS DECIMAL(9,6)) AS longitude",
        f"date_format({hour_sql}, \"yyyy-MM-dd'T'HH:mm\") AS time",
        "CAST(number % 400 AS DOUBLE) / 10 AS temperature_2m",
    )
    records = readings.selectExpr("concat_ws('|', latitude, longitude, time) AS key", "to_json(struct(*)) AS value")
    records.write.format("kafka").options(**options).save()
    try:
        yield table
    finally:
        delete_topic(world.settings, topic)
