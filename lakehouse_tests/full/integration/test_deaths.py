"""A process ends at each point of its work, and a plain rerun makes everything as if nothing had happened.

The ends inside this process come one after another, each in what the last one left. One process is really killed.
"""

import random
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.kafka import create_topic
from lakehouse.ledger.audit import audit
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.positions import Progress
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.worker import Job, Point, dying
from lakehouse_tests.helpers.attacks.workers import Worker
from lakehouse_tests.helpers.brokers.streams import hour, send
from lakehouse_tests.helpers.histories.scenes import read_state, records, write
from lakehouse_tests.helpers.tables.base_files import base_folder
from lakehouse_tests.helpers.tables.tables import Tables, footprint

pytestmark = pytest.mark.invariant(1, 3, 8, 10)

MADE = Point("storage.schema_change.apply._create"), Point("storage.schema_change.apply._create", "after")
# What is done, in order, and where it ends before it is done; only an end after a commit leaves something to find
STEPS: dict[str, tuple[str, tuple[Point, ...]]] = {
    "batch": (
        "merge",
        (
            *MADE,  # the merged table
            *MADE,  # the rejected one
            Point("ingest.batches.read_records"),
            Point("ingest.batches.merge_decided"),
            write("before", "_rejected"),
            write("after", "_rejected"),
            write("before"),
            write("after"),
        ),
    ),
    "feed and rollup": (
        "refresh",
        (
            *(*MADE, write("before", "_changes"), write("after", "_changes")),
            *(*MADE, write("before", "_by_location"), write("after", "_by_location")),
        ),
    ),
    "base load": ("load_base", (*MADE, write("before", "_base"), write("after", "_base"))),
    "base MERGE": ("merge", (write("before"), write("after"))),
    "redrive": (
        "redrive",
        (write("before"), write("after"), write("before", "_rejected"), write("after", "_rejected")),
    ),
    "replay": ("replay", (write("before"), write("after"))),
    "refresh": ("refresh", (write("before", "_changes"), write("after", "_changes"))),
    # the second finds one file for each partition, so that VACUUM is its first statement
    "maintenance": ("maintain", (write("before"), write("after"), write("after"), write("after", nth=1))),
}


@dataclass
class World:
    """Two tables of one topic: one that is written without disturbance, and one whose writers die."""

    spark: SparkSession
    settings: Settings
    topic: str
    folder: str
    done: list[str] = field(default_factory=list)
    names: tuple[str, str] = field(default_factory=lambda: (f"d_{uuid4().hex[:12]}", f"u_{uuid4().hex[:12]}"))

    def job(self, step: str, name: str) -> Job:
        do, _ = STEPS[step]
        later = list(STEPS).index(step) >= list(STEPS).index("redrive")
        return Job(do, name, self.topic, max_records=22, folder=self.folder, hottest=100.0 if later else 70.0)

    def run(self, step: str) -> None:
        self.job(step, self.names[0]).run(self.spark, self.settings)
        self.done.append(step)

    def reach(self, step: str) -> None:
        """Do what comes before a step and was not done yet."""
        for before in list(STEPS)[: list(STEPS).index(step)]:
            if before not in self.done:
                self.run(before)


@pytest.fixture(scope="module")
def world(spark, broker, tmp_path_factory) -> World:
    topic = f"deaths-{uuid4().hex[:8]}"
    base = base_folder(tmp_path_factory.mktemp("base"), {hour(number): float(number) for number in range(3, 9)})
    create_topic(broker, Job("", "t", topic).table)
    drawn = random.Random(4)
    for partition in range(3):
        send(broker, topic, records(drawn, 10), partition)
    return World(spark, broker, topic, str(base))


def progress(world: World) -> Progress | None:
    return read_ledger(world.settings.table_uri(world.names[0]), world.names[0]).progress


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_ends_at_each_of_its_points_is_finished_by_the_next_run(world: World, step: str) -> None:
    world.reach(step)
    job = world.job(step, world.names[0])
    before = progress(world)
    for point in STEPS[step][1]:
        with dying(point, job.name):
            job.run(world.spark, world.settings)
        moved = progress(world) != before
        assert moved == (step == "batch" and point == write("after")), "only its commit moves the progress"
    world.run(step)
    assert not [found for found in audit(Tables(world.settings, job.table).ledger()) if not found.passed]


def test_in_the_end_all_is_as_if_nothing_had_happened(world: World) -> None:
    *steps, last = STEPS
    world.reach(last)
    for step in steps:
        world.job(step, world.names[1]).run(world.spark, world.settings)
    died, undisturbed = (read_state(world.settings, world.job(last, name)) for name in world.names)
    assert died[0].read == 42
    assert died == undisturbed


def test_a_process_that_is_killed_in_its_merge_leaves_what_a_plain_rerun_finishes(world: World) -> None:
    """It dies when the first data file of its MERGE is there, which no commit names; Python and its JVM at once."""
    job = replace(world.job("batch", f"k_{uuid4().hex[:12]}"), max_records=None)
    worker = Worker(world.settings)
    try:
        worker.wait_ready()
        worker.die(job, write("file"))
    finally:
        worker.stop()
    tables = Tables(world.settings, job.table)
    version, left = footprint(tables.uri)
    assert (version, tables.ledger().entries) == (0, ())
    assert left, "it died before there was a file"
    rejected = tables.positions()
    job.run(world.spark, world.settings)
    assert tables.ledger().totals.read == 42
    assert tables.positions() == rejected, "it had stored what it rejected, and nothing is stored twice"
    assert not [found for found in audit(tables.ledger()) if not found.passed]
