"""A home with an engine: a process that writes attaches to it, and its rows are those of a session of its own."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse.spark.engine import engine_folder, lives
from lakehouse_tests.helpers.attacks.worker import Job
from lakehouse_tests.helpers.attacks.workers import Worker
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.engines import home_of_workers, running_engine, writer_of
from lakehouse_tests.helpers.processes import started_by
from lakehouse_tests.helpers.tables.rows import rows_of

pytestmark = pytest.mark.invariant(11)


def test_five_records_over_the_engine_give_the_rows_of_a_session_of_ones_own(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    own = Stream.create(spark, broker)
    own.send(*(record(time=hour(number), temperature_2m=20.0 + number) for number in range(4)), record(time=hour(0)))
    warm, name = home_of_workers(tmp_path, broker), own.table.name
    with running_engine(warm):
        worker = Worker(warm)
        try:
            own.merge()
            worker.wait_ready()
            assert worker.do(Job("merge", name, own.table.topic)) == {"done": [1]}
            assert not [args for args in started_by(worker.pid).values() if "java" in args], "a Spark of its own"
            assert writer_of(warm, name) is None
        finally:
            worker.stop()
    assert not lives(engine_folder(warm))
    assert by_hour(warm, name) == by_hour(broker, name)


def by_hour(settings: Settings, name: str) -> list[dict[str, object]]:
    return sorted(rows_of(settings, name), key=lambda row: row["observed_at"])
