"""A process that reads files is killed at a point of its work; a plain rerun gives the tables of an undisturbed run."""

import gzip
import os
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.ledger.audit import audit
from lakehouse.ledger.ledger import ledger_of
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.reliability import Target
from lakehouse_tests.helpers.attacks.worker import Form, Job, Point
from lakehouse_tests.helpers.attacks.workers import Standby, standby
from lakehouse_tests.helpers.histories.scenes import records, write
from lakehouse_tests.helpers.tables.rows import hour_of, position, rows_of

CRASH = "A crash loses nothing"
NUMBERED = "sources.files.source.number_files"
CASES: dict[str, tuple[Form, Point]] = {
    "before files are numbered": ("files", Point(NUMBERED)),
    "after files are numbered": ("files", Point(NUMBERED, "after")),
    "before files are read": ("files", Point("sources.files.source.read_numbered")),
    "between two batches": ("files", Point("sources.files.source.read_numbered", nth=1)),
    "after the rejected write": ("files", write("after", "_rejected")),
    "after the start is recorded": ("files", write("after")),
    "MERGE: first data file": ("files", write("file", nth=1)),
    "MERGE: log entry": ("files", write("version", nth=1)),
    "after the commit, before it is reported": ("files", write("after", nth=1)),
    "log table: after files are numbered": ("log of files", Point(NUMBERED, "after")),
    "log table: first data file": ("log of files", write("file", nth=1)),
    "log table: after the commit": ("log of files", write("after", nth=1)),
    "data files: after workers wrote them": ("data files", Point("ingest.batches.take_data_files", "after")),
    "data files: after the rejected write": ("data files", write("after", "_rejected")),
    "data files: log entry": ("data files", write("version", nth=1)),
    "data files: after the commit": ("data files", write("after", nth=1)),
}


@dataclass
class World:
    """A folder of files, and workers to kill."""

    spark: SparkSession
    settings: Settings
    workers: Standby
    folder: Path
    lines: int

    def job(self, form: Form) -> Job:
        return Job("merge", f"f_{uuid4().hex[:12]}", str(self.folder), form=form)

    def state(self, job: Job) -> Any:
        """All that readers of the tables can see, except the times at which files were numbered."""
        ledger = ledger_of(self.settings, job.name, whole=True)
        assert not [finding for finding in audit(ledger) if not finding.passed]
        rows = Counter((hour_of(row), row["temperature_2m"]) for row in rows_of(self.settings, job.name))
        rejected = sorted((position(row), row["reason"]) for row in rows_of(self.settings, job.table.rejected_name))
        files = [(row["number"], row["path"]) for row in rows_of(self.settings, job.table.files_name)]
        return ledger.totals, rows, rejected, sorted(files)


@pytest.fixture(scope="module")
def world(spark: SparkSession, broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, rng, count = tmp_path_factory.mktemp("files"), random.Random(5), 0
    for number in range(4):
        lines = [value for value in records(rng, 12) if value]
        count += len(lines)
        content = b"\n".join(lines) + b"\n"
        file = folder / f"{number}.json{'.gz' if number % 2 else ''}"
        file.write_bytes(gzip.compress(content, mtime=0) if number % 2 else content)
        os.utime(file, (1_700_000_000 + number,) * 2)
    with standby(broker) as workers:
        yield World(spark, broker, workers, folder, count)


@pytest.mark.invariant("1.17", "9.10")
@pytest.mark.parametrize("label", CASES)
def test_a_rerun_after_a_kill_reads_each_file_once(label: str, world: World, attack: Any) -> None:
    form, point = CASES[label]
    undisturbed, job = world.job(form), world.job(form)
    undisturbed.run(world.spark, world.settings)
    with attack(CRASH, f"SIGKILL, {label}", target=Target.FILES):
        with world.workers.take() as worker:
            worker.die(job, point)
        job.run(world.spark, world.settings)
        assert world.state(job) == world.state(undisturbed)
        assert world.state(job)[0].read == world.lines


@pytest.mark.invariant("9.10", "11.1")
@pytest.mark.parametrize("form", ["files", "log of files", "data files"])
def test_two_runs_at_the_same_time_number_and_read_each_file_once(form: Form, world: World, attack: Any) -> None:
    undisturbed, job = world.job(form), world.job(form)
    undisturbed.run(world.spark, world.settings)
    with attack("Two writers lose nothing", f"two runs of {form} at the same time", target=Target.FILES):
        with world.workers.take() as worker, ThreadPoolExecutor() as pool:
            other_run = pool.submit(worker.do, replace(job))
            job.run(world.spark, world.settings)
            assert "error" not in other_run.result()
        job.run(world.spark, world.settings)
        totals, *tables = world.state(job)
        assert tuple(tables) == world.state(undisturbed)[1:]
        assert totals.read == world.lines
