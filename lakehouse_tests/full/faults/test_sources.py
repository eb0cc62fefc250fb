"""Readers of files and of another table are killed, race and meet full disks; each record counts once."""

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import TableError
from lakehouse.ledger.audit import audit
from lakehouse.ledger.ledger import ledger_of
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.reliability import Attack, Target
from lakehouse_tests.helpers.attacks.source_tables import AREAS_FILE, HIGHEST
from lakehouse_tests.helpers.attacks.worker import Form, Job, Point
from lakehouse_tests.helpers.attacks.workers import Standby, standby
from lakehouse_tests.helpers.histories.scenes import write
from lakehouse_tests.helpers.histories.upsets import Disk, mounted
from lakehouse_tests.helpers.tables.followed import FollowedTable
from lakehouse_tests.helpers.tables.rows import rows_of

CRASH, ONCE, LOST = "A crash loses nothing", "Two writers lose nothing", "Nothing is lost"
READ = "sources.tables.source.read_table_rows"
KILLS: dict[str, tuple[Form, Point]] = {
    "after its log is read": ("changes", Point("sources.tables.source.lost_versions", "after", nth=1)),
    "before the rows are read": ("changes", Point(READ)),
    "between two batches": ("changes", Point(READ, nth=1)),
    "after the rejected write": ("changes", write("after", "_rejected")),
    "after the start is recorded": ("changes", write("after")),
    "deletes: first data file": ("changes", write("file", "_deletes")),
    "between the deletes and the MERGE": ("changes", write("after", "_deletes")),
    "MERGE: first data file": ("changes", write("file", nth=1)),
    "MERGE: log entry": ("changes", write("version", nth=1)),
    "after the commit, before it is reported": ("changes", write("after", nth=1)),
    "after the second commit": ("changes", write("after", nth=2)),
    "log: before the rows are read": ("log of changes", Point(READ)),
    "log: first data file": ("log of changes", write("file", nth=1)),
    "log: after the commit": ("log of changes", write("after", nth=1)),
}


def new_job(form: Form, place: str) -> Job:
    return Job("merge", f"s_{uuid4().hex[:12]}", place, max_records=6, form=form)


def change(accounts: FollowedTable, rng: random.Random) -> None:
    """Upsert and delete accounts in three versions; some amounts are rejected."""
    for _ in range(2):
        accounts.upsert({id_: rng.randrange(HIGHEST + 10) for id_ in rng.sample(range(12), 5)})
    accounts.delete(f"id = {rng.randrange(12)}")


@dataclass
class Readings:
    """A folder of files for the table with rules, and what the table must be: the rows, and the rejected ids."""

    folder: Path
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    rows: dict[int, int] = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)
    count: int = 0

    def land(self, areas: set[int]) -> None:
        """Replace the file of the areas, and write a file of readings that the rules judge by it."""
        self._write(AREAS_FILE, "area\n" + "".join(f"{area}\n" for area in sorted(areas)))
        lines = list[str]()
        for _ in range(6):
            id_, amount, area = (self.rng.randrange(*bounds) for bounds in ((0, 9), (-2, 6), (0, 4)))
            lines.append(json.dumps({"id": id_, "amount": amount, "area": area}))
            if amount >= 0 and area in areas:
                self.rows[id_] = amount
            else:
                self.rejected["negative" if amount < 0 else "no_area"] += 1
        self.count += len(lines)
        self._write(f"{self.count:05}.json", "\n".join(lines) + "\n")

    def _write(self, name: str, text: str) -> None:
        (self.folder / "_unfinished").write_text(text)
        os.utime(self.folder / "_unfinished", (1_700_000_000 + self.count,) * 2)
        (self.folder / "_unfinished").rename(self.folder / name)


@dataclass
class World:
    """A warm session, and workers to race with and to kill."""

    spark: SparkSession
    settings: Settings
    workers: Standby

    def run(self, job: Job) -> None:
        job.run(self.spark, self.settings)

    def run_twice(self, job: Job) -> None:
        """Run a job here and in a worker at the same time; then what is left."""
        with self.workers.take() as worker, ThreadPoolExecutor() as pool:
            other_run = pool.submit(worker.do, job)
            self.run(job)
            answer = other_run.result()
            assert answer.get("error", "ConflictError") == "ConflictError", answer
        self.run(job)


def rows_in(settings: Settings, job: Job) -> Counter[tuple[Any, ...]]:
    """Count the rows of the table by their declared columns; its history has every record."""
    assert all(finding.passed for finding in audit(ledger_of(settings, job.name, whole=True)))
    names = [column.name for column in job.table.columns]
    return Counter(tuple(row[name] for name in names) for row in rows_of(settings, job.name))


def state(settings: Settings, job: Job) -> Any:
    """All that readers of the tables can see."""
    rejected = Counter(
        (row["position"]["partition"], row["position"]["position"], row["reason"])
        for row in rows_of(settings, job.table.rejected_name)
    )
    return ledger_of(settings, job.name, whole=True).totals, rows_in(settings, job), rejected


def assert_follows(settings: Settings, job: Job, accounts: FollowedTable) -> None:
    assert sorted(rows_in(settings, job).elements()) == accounts.rows(HIGHEST)


def assert_judged(settings: Settings, job: Job, readings: Readings) -> None:
    assert {id_: amount for id_, amount, _ in rows_in(settings, job).elements()} == readings.rows
    assert Counter(row["reason"] for row in rows_of(settings, job.table.rejected_name)) == readings.rejected
    assert ledger_of(settings, job.name, whole=True).totals.read == readings.count


@pytest.fixture(scope="module")
def world(spark: SparkSession, broker: Settings) -> Iterator[World]:
    with standby(broker) as workers:
        yield World(spark, broker, workers)


@pytest.fixture
def accounts(tmp_path: Path) -> FollowedTable:
    accounts = FollowedTable(tmp_path / "accounts")
    accounts.upsert({id_: id_ * 9 for id_ in range(12)})
    return accounts


@pytest.fixture
def readings(tmp_path: Path) -> Readings:
    (tmp_path / "in").mkdir()
    return Readings(tmp_path / "in")


@pytest.mark.invariant("1.17", "9.11")
@pytest.mark.parametrize("label", KILLS)
def test_a_rerun_after_a_kill_reads_each_version_once(
    label: str, world: World, accounts: FollowedTable, attack: Attack
) -> None:
    form, point = KILLS[label]
    undisturbed, job = new_job(form, accounts.uri), new_job(form, accounts.uri)
    is_first_run = point.nth == 0 and label.startswith("after the start")
    if not is_first_run:
        for first in (undisturbed, job):
            world.run(first)
        for _ in range(3):
            change(accounts, random.Random(accounts.version))
    world.run(undisturbed)
    with attack(CRASH, f"SIGKILL, {label}", target=Target.OTHER_TABLES):
        with world.workers.take() as worker:
            worker.die(job, point)
        world.run(job)
        assert state(world.settings, job) == state(world.settings, undisturbed)
        if form == "changes":
            assert_follows(world.settings, job, accounts)


@pytest.mark.invariant("9.11", "11.1")
@pytest.mark.parametrize("form", ["changes", "log of changes"])
def test_two_runs_at_the_same_time_read_each_version_once(
    form: Form, world: World, accounts: FollowedTable, attack: Attack
) -> None:
    job = new_job(form, accounts.uri)
    first_version = accounts.version
    rows_before = Counter(("insert", *row) for row in accounts.rows(HIGHEST))
    for turn in range(4):
        with attack(ONCE, f"two runs of {form} of another table at the same time", target=Target.OTHER_TABLES):
            world.run_twice(job)
            if form == "changes":
                assert_follows(world.settings, job, accounts)
            elif turn:
                changes = accounts.changes(first_version + 1)
                valid_changes = Counter({row: n for row, n in changes.items() if row[2] <= HIGHEST})
                seen = Counter({(kind, *row): n for (*row, kind), n in rows_in(world.settings, job).items()})
                assert seen == rows_before + valid_changes
        for _ in range(2):
            change(accounts, random.Random(accounts.version))


@pytest.mark.invariant("8.16", "11.1")
def test_two_runs_at_the_same_time_judge_each_record_once(world: World, readings: Readings, attack: Attack) -> None:
    job = new_job("rules", str(readings.folder))
    for turn in range(6):
        areas = {turn % 4, (turn + 1) % 4}
        for _ in range(3):
            readings.land(areas)
        with attack(ONCE, "two runs of files with rules at the same time", target=Target.FILES):
            world.run_twice(job)
            assert_judged(world.settings, job, readings)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    with mounted(tmp_path_factory.mktemp("disk") / "tables", "8m") as disk:
        yield disk


@dataclass
class SmallLake:
    """A session, and settings of tables on a small disk."""

    spark: SparkSession
    settings: Settings
    disk: Disk

    def run(self, job: Job) -> None:
        job.run(self.spark, self.settings)

    def run_when_full(self, job: Job, free_kib: int) -> None:
        """Run a job with some space, which fails or not; then with all of it. A failure names the disk."""
        self.disk.fill(free_kib * 1024)
        try:
            with suppress(TableError) if free_kib else pytest.raises(TableError):
                self._run_or_name_the_disk(job)
        finally:
            self.disk.clear()
        self.run(job)

    def _run_or_name_the_disk(self, job: Job) -> None:
        try:
            self.run(job)
        except TableError as error:
            if not re.search(r"^No space left on device.*Free some space and run it again", str(error)):
                pytest.fail(f"Another error: {error}")
            raise


@pytest.fixture(scope="module")
def small_lake(spark: SparkSession, disk: Disk, tmp_path_factory: pytest.TempPathFactory) -> SmallLake:
    settings = Settings(home=tmp_path_factory.mktemp("home"), tables=str(disk.folder), _env_file=None)
    return SmallLake(spark, settings, disk)


@pytest.mark.invariant("1.17", "9.10")
def test_a_disk_that_is_full_while_files_are_merged_loses_no_record(
    small_lake: SmallLake, readings: Readings, attack: Attack
) -> None:
    job = new_job("rules", str(readings.folder))
    readings.land({0, 1})
    small_lake.run(job)
    for free_kib in range(0, 96, 12):
        readings.land({free_kib % 3, 1})
        readings.land({free_kib % 3, 1})
        with attack(LOST, "disk full while files are merged", target=Target.FILES):
            small_lake.run_when_full(job, free_kib)
            assert_judged(small_lake.settings, job, readings)


@pytest.mark.invariant("1.17", "9.11")
@pytest.mark.parametrize("form", ["changes", "log of changes"])
def test_a_disk_that_is_full_while_another_table_is_merged_loses_no_change(
    form: Form, small_lake: SmallLake, accounts: FollowedTable, attack: Attack
) -> None:
    job, undisturbed = new_job(form, accounts.uri), new_job(form, accounts.uri)
    elsewhere = Settings(home=small_lake.settings.home / form.replace(" ", "_"), _env_file=None)
    small_lake.run(job)
    undisturbed.run(small_lake.spark, elsewhere)
    for free_kib in range(0, 64, 12):
        change(accounts, random.Random(free_kib))
        with attack(LOST, "disk full while another table is merged", target=Target.OTHER_TABLES):
            small_lake.run_when_full(job, free_kib)
            if form == "changes":
                assert_follows(small_lake.settings, job, accounts)
    undisturbed.run(small_lake.spark, elsewhere)
    assert state(small_lake.settings, job)[1:] == state(elsewhere, undisturbed)[1:]
