"""A process ends at each point of its work, and a plain rerun gives the tables of an undisturbed run.

Most steps are interrupted within this process, one after another on the same tables. One process is really killed.
"""

import random
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.kafka import create_topic
from lakehouse.ledger.audit import audit
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.positions import Progress
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.deaths import dying
from lakehouse_tests.helpers.attacks.worker import Job, Point
from lakehouse_tests.helpers.attacks.workers import Worker
from lakehouse_tests.helpers.brokers.streams import hour, send
from lakehouse_tests.helpers.histories.model_values import Order
from lakehouse_tests.helpers.histories.scenes import read_state, records, write
from lakehouse_tests.helpers.tables.base_files import base_folder
from lakehouse_tests.helpers.tables.tables import Tables, footprint

pytestmark = pytest.mark.invariant("1.17")

CREATION = Point("storage.schema_change._create"), Point("storage.schema_change._create", "after")
DELETES_STORED = write("before", "_deletes"), write("after", "_deletes")
# the steps in order, and the points at which each one is interrupted before it runs
STEPS: dict[str, tuple[str, tuple[Point, ...]]] = {
    "batch": (
        "merge",
        (
            *CREATION,  # the merged table
            *CREATION,  # the table of rejected records
            *CREATION,  # the table of deletes
            Point("sources.table_sources.read_records"),
            Point("ingest.batches.commit_batch"),
            write("before", "_rejected"),
            write("after", "_rejected"),
            *DELETES_STORED,
            *DELETES_STORED,  # the next attempt first restores the deletes that count
            Point("ingest.merge.merge_newest"),
            write("before"),
            write("after"),
        ),
    ),
    "feed and rollup": (
        "refresh",
        (
            *(*CREATION, write("before", "_changes"), write("after", "_changes")),
            *(*CREATION, write("before", "_by_location"), write("after", "_by_location")),
        ),
    ),
    "base load": ("load_base", (*CREATION, write("before", "_base"), write("after", "_base"))),
    "base MERGE": ("merge", (write("before"), write("after"))),
    "redrive": (
        "redrive",
        (write("before"), write("after"), write("before", "_rejected"), write("after", "_rejected")),
    ),
    "replay": ("replay", (write("before"), write("after"))),  # its deletes are stored
    "refresh": ("refresh", (write("before", "_changes"), write("after", "_changes"))),
    # the next attempt finds one file in each partition, so its first statement is VACUUM
    "maintenance": ("maintain", (write("before"), write("after"), write("after"), write("after", nth=1))),
    # by a declaration that rejects more: rows are withdrawn
    "read again": (
        "read_again",
        (write("before", "_rejected"), write("after", "_rejected"), write("before"), write("after")),
    ),
    "erase": (
        "erase",
        tuple(
            write(when, suffix)
            for suffix in ("_erased", "_deletes", "_changes", "", "_base", "_rejected")
            for when in ("before", "after")
        ),
    ),
}
HOTTEST = {"redrive": 100.0, "read again": 30.0}  # the maximum that is declared from these steps on


@dataclass
class World:
    """Two tables of one topic: the writers of the first one are interrupted, those of the second are not."""

    spark: SparkSession
    settings: Settings
    topic: str
    folder: str
    finished_steps: list[str] = field(default_factory=list)
    names: tuple[str, str] = field(default_factory=lambda: (f"d_{uuid4().hex[:12]}", f"u_{uuid4().hex[:12]}"))

    def job(self, step: str, name: str) -> Job:
        do, _ = STEPS[step]
        steps = list(STEPS)
        hottest = [HOTTEST[name] for name in steps[: steps.index(step) + 1] if name in HOTTEST] or [70.0]
        return Job(do, name, self.topic, max_records=31, folder=self.folder, hottest=hottest[-1])

    def run(self, step: str) -> None:
        self.job(step, self.names[0]).run(self.spark, self.settings)
        self.finished_steps.append(step)

    def reach(self, step: str) -> None:
        """Run all steps before this one that have not run yet."""
        for earlier_step in list(STEPS)[: list(STEPS).index(step)]:
            if earlier_step not in self.finished_steps:
                self.run(earlier_step)


@pytest.fixture(scope="module")
def world(spark, broker, tmp_path_factory) -> World:
    topic = f"deaths-{uuid4().hex[:8]}"
    base = base_folder(tmp_path_factory.mktemp("base"), {hour(number): float(number) for number in range(3, 9)})
    create_topic(broker, Job("", "t", topic).table)
    rng = random.Random(4)
    for partition in range(3):
        send(broker, topic, records(rng, 10), partition)
    return World(spark, broker, topic, str(base))


def without_base_numbers(state: Any) -> tuple[Any, ...]:
    """The state without the numbers of the commits that merged base rows: an interrupted step makes more commits."""
    *before, merged, changes, rollup, deletes = state

    def place(order: Order | None) -> Order | None:
        return order if order is None or order[0] else order[:1]

    rows = {
        key: replace(row, order=place(row.order), temperature_order=place(row.temperature_order))
        for key, row in merged.items()
    }
    return (*before, rows, changes, rollup, deletes)


def read_progress(world: World) -> Progress | None:
    return read_ledger(world.settings.table_uri(world.names[0]), world.names[0]).progress


@pytest.mark.parametrize("step", STEPS)
def test_the_next_run_finishes_a_step_that_was_interrupted_at_any_point(world: World, step: str) -> None:
    world.reach(step)
    job = world.job(step, world.names[0])
    progress_before = read_progress(world)
    for point in STEPS[step][1]:
        with dying(point, job.name):
            job.run(world.spark, world.settings)
        has_moved = read_progress(world) != progress_before
        assert has_moved == (step == "batch" and point == write("after")), (
            "only the commit of the batch moves the progress"
        )
    world.run(step)
    assert not [finding for finding in audit(Tables(world.settings, job.table).ledger()) if not finding.passed]


def test_the_final_tables_equal_those_of_an_undisturbed_run(world: World) -> None:
    *_, last = STEPS
    world.reach(last)
    if last not in world.finished_steps:
        world.run(last)
    for step in STEPS:
        world.job(step, world.names[1]).run(world.spark, world.settings)
    interrupted_state, undisturbed_state = (
        without_base_numbers(read_state(world.settings, world.job(last, name))) for name in world.names
    )
    assert interrupted_state[0].read == 60
    assert interrupted_state == undisturbed_state


def test_the_merge_of_a_process_that_is_killed_is_finished_by_a_plain_rerun(world: World) -> None:
    """Python and its JVM die together when the MERGE has written its first data file, which no commit names."""
    job = replace(world.job("batch", f"k_{uuid4().hex[:12]}"), max_records=None)
    worker = Worker(world.settings)
    try:
        worker.wait_ready()
        worker.die(job, write("file"))
    finally:
        worker.stop()
    tables = Tables(world.settings, job.table)
    version, unnamed_files = footprint(tables.uri)
    assert (version, tables.ledger().entries) == (0, ())
    assert unnamed_files, "the worker died before it wrote a file"
    rejected_positions = tables.positions()
    job.run(world.spark, world.settings)
    assert tables.ledger().totals.read == 60
    assert tables.positions() == rejected_positions, (
        "the killed process stored its rejected records, and none is stored twice"
    )
    assert not [finding for finding in audit(tables.ledger()) if not finding.passed]
