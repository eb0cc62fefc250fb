"""A query that feeds a table is killed; started again, it gives the tables of an undisturbed query."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.kafka import create_topic
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.reliability import Target
from lakehouse_tests.helpers.attacks.worker import Job, Point
from lakehouse_tests.helpers.attacks.workers import Standby, standby
from lakehouse_tests.helpers.brokers.streams import send
from lakehouse_tests.helpers.histories.scenes import read_state, records, write

CASES = {
    "before the MERGE": write("before", nth=1),
    "MERGE: log entry": write("version"),
    "after the MERGE": write("after"),
    "after the second MERGE": write("after", nth=1),
    "between the deletes and the MERGE": write("after", "_deletes"),
    "change feed: after the commit": write("after", "_changes"),
    "between the last commit and the checkpoint": Point("operations.foreach_batch.refresh_all", "after", nth=1),
}


@dataclass
class World:
    """A topic, workers to kill, and the state after an undisturbed query."""

    spark: SparkSession
    settings: Settings
    workers: Standby
    job: Job
    folder: Path
    expected_state: Any

    def new_job(self) -> Job:
        name = f"c_{uuid4().hex[:12]}"
        return replace(self.job, name=name, folder=str(self.folder / name))


@pytest.fixture(scope="module")
def world(spark: SparkSession, broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    job, rng = Job("stream", "t", f"query-{uuid4().hex[:8]}", max_records=30), random.Random(7)
    create_topic(broker, job.table)
    for partition in range(3):
        send(broker, job.topic, records(rng, 10), partition)
    with standby(broker) as workers:
        world = World(spark, broker, workers, job, tmp_path_factory.mktemp("checkpoints"), None)
        undisturbed = world.new_job()
        undisturbed.run(spark, broker)
        world.expected_state = read_state(broker, undisturbed)
        yield world


@pytest.mark.invariant("1.17")
@pytest.mark.parametrize("label", CASES)
def test_a_query_that_was_killed_gives_the_tables_of_an_undisturbed_one(label: str, world: World, attack: Any) -> None:
    job = world.new_job()
    with attack("A crash loses nothing", f"SIGKILL, {label}", target=Target.QUERIES):
        with world.workers.take() as worker:
            worker.die(job, CASES[label])
        job.run(world.spark, world.settings)
        assert read_state(world.settings, job) == world.expected_state
        assert world.expected_state[0].batches > 1
