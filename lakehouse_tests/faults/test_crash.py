"""A process is killed amid its work; a plain rerun makes everything as if nothing had happened."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.audit import audit
from lakehouse.serve import table_names
from lakehouse.settings import Settings
from lakehouse.topic import create_topic
from lakehouse_tests.faults.tables import Tables
from lakehouse_tests.faults.worker import Job, Point
from lakehouse_tests.faults.workers import Standby, standby
from lakehouse_tests.streams import ABSENT, hour, record, send

CRASH = "A crash loses nothing"
SCENES = {"merge": ("merge", "refresh")}


@dataclass(frozen=True)
class Case:
    """One kill: in which step of which scene, and at which point of it."""

    how: str
    point: Point
    scene: str = "merge"
    step: int = 0


def write(when: str, suffix: str = "", nth: int = 0, **more: Any) -> Point:
    return Point("write", when, nth, suffix, **more)


FEW = [
    Case("before reading", Point("ingest.read_records", nth=1)),
    Case("after the rejected write", write("after", "_rejected")),
    Case("MERGE: first data file", write("file", nth=1)),
    Case("after the commit, before anybody heard", write("after")),
    Case("MERGE: Python alone", write("file", alone=True)),
    Case("change feed: first data file", write("file", "_changes"), step=1),
]
MANY = [case for case in FEW for _ in range(5)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", MANY if metafunc.config.getoption("--torture") else FEW, ids=lambda case: case.how)


@dataclass
class World:
    """A topic, a session that is warm, and workers to lose."""

    spark: SparkSession
    settings: Settings
    standby: Standby
    topic: str
    sent: int
    undisturbed: dict[str, Any] = field(default_factory=dict)

    def jobs(self, scene: str) -> list[Job]:
        """The steps of a scene over tables of their own."""
        first = Job("", f"c_{uuid4().hex[:12]}", self.topic, max_records=self.sent // 2 + 1)
        return [replace(first, do=do) for do in SCENES[scene]]

    def run(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.run(self.spark, self.settings)

    def expected(self, scene: str) -> Any:
        if scene not in self.undisturbed:
            jobs = self.jobs(scene)
            self.run(jobs)
            self.undisturbed[scene] = self.told(jobs[-1])
        return self.undisturbed[scene]

    def told(self, job: Job) -> Any:
        """All that a reader of the tables can see, but for the numbers of commits; the accounting holds."""
        tables = Tables(self.settings, job.table)
        ledger = tables.ledger()
        assert not [finding for finding in audit(ledger) if not finding.passed]
        names = [name.removeprefix(job.name) for name in table_names(self.settings) if name.startswith(job.name)]
        changes = Counter((*change[:3], *change[4:]) for change in tables.changes())
        return ledger.totals, names, tables.merged(), tables.rejected(ledger), changes, tables.rollup()


def records(drawn: random.Random, many: int) -> list[bytes | None]:
    """Rows, updates, duplicates and records that may not enter, in any order."""
    values: list[bytes | None] = [b"{", None, record(time=hour(3), temperature_2m=80.0), record(temperature_2m=90.0)]
    for _ in range(many):
        kept = drawn.choice([ABSENT, None, *(round(drawn.uniform(-20, 40), 1) for _ in range(6))])
        values.append(record(time=hour(drawn.choice([*range(6), 800])), temperature_2m=kept))
    drawn.shuffle(values)
    return values


@pytest.fixture(scope="module")
def world(spark: SparkSession, broker: Settings) -> Iterator[World]:
    topic = f"crash-{uuid4().hex[:8]}"
    create_topic(broker, Job("", "t", topic).table)
    drawn = random.Random(4)
    for partition in range(3):
        send(broker, topic, records(drawn, 10), partition)
    with standby(broker) as workers:
        yield World(spark, broker, workers, topic, sent=42)


def test_a_plain_rerun_after_a_kill_makes_everything_as_if_nothing_had_happened(case, world, attack):
    jobs = world.jobs(case.scene)
    world.run(jobs[: case.step])
    expected = world.expected(case.scene)
    with attack(CRASH, f"SIGKILL, {case.how}"):
        with world.standby.take() as worker:
            worker.die(jobs[case.step], case.point)
        world.run(jobs[case.step :])
        told = world.told(jobs[-1])
        assert told[0].read == world.sent
        assert told == expected
