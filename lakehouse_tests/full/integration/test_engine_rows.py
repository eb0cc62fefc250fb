"""A process attaches to the engine of its home and writes the same rows as with its own session."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse.spark.engine import engine_folder, is_engine_running
from lakehouse_tests.helpers.attacks.worker import Job
from lakehouse_tests.helpers.attacks.workers import Worker
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.engines import home_of_workers, running_engine, writer_of
from lakehouse_tests.helpers.processes import started_by
from lakehouse_tests.helpers.tables.rows import rows_of

pytestmark = pytest.mark.invariant("11.4")


def test_records_merged_over_an_engine_give_the_rows_of_an_own_session(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream.create(spark, broker)
    stream.send(*(record(time=hour(number), temperature_2m=20.0 + number) for number in range(4)), record(time=hour(0)))
    engine_settings, name = home_of_workers(tmp_path, broker), stream.table.name
    with running_engine(engine_settings):
        worker = Worker(engine_settings)
        try:
            stream.merge()
            worker.wait_ready()
            assert worker.do(Job("merge", name, stream.table.topic)) == {"done": [1]}
            assert not [args for args in started_by(worker.pid).values() if "java" in args], (
                "the worker started its own Spark"
            )
            assert writer_of(engine_settings, name) is None
        finally:
            worker.stop()
    assert not is_engine_running(engine_folder(engine_settings))
    assert rows_by_hour(engine_settings, name) == rows_by_hour(broker, name)


def rows_by_hour(settings: Settings, name: str) -> list[dict[str, object]]:
    return sorted(rows_of(settings, name), key=lambda row: row["observed_at"])
