"""Two processes write the same tables at once: one of them makes each commit, and no commit is lost."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lakehouse.errors import ConflictError
from lakehouse.kafka import create_topic, read_topic
from lakehouse.storage import lock, table_context
from lakehouse.storage.lock import table_lock
from lakehouse_tests.helpers.attacks.worker import Job
from lakehouse_tests.helpers.attacks.workers import Worker
from lakehouse_tests.helpers.brokers.registries import register
from lakehouse_tests.helpers.brokers.streams import Stream, delete, hour, record
from lakehouse_tests.helpers.histories.avro_histories import AS_TEXT
from lakehouse_tests.helpers.histories.scenes import WITH_STATION, as_avro, in_arrays
from lakehouse_tests.helpers.histories.upsets import assert_all_is_right
from lakehouse_tests.helpers.tables.base_files import base_folder
from lakehouse_tests.helpers.tables.rows import hour_of, rows_of
from lakehouse_tests.helpers.tables.tables import Tables

pytestmark = pytest.mark.invariant("11.1")

ONE_WRITER = "One writer at a time"
HOURS = range(12)
HOT_TEMPERATURE = 80.0
DELETED_SHARE = 0.25  # of the records
READ_LABELS = {
    "log": "into a log table",
    "avro": "of Avro, with schemas that both store",
    "elements": "of records with many rows, among another type",
}


@dataclass
class Race:
    """A topic, its tables, two warm processes that write them, and the expected rows."""

    stream: Stream
    workers: list[Worker]
    job: Job
    rng: random.Random
    rows: dict[str, float | None] = field(default_factory=dict)
    base: dict[str, float] = field(default_factory=dict)
    deleted_hours: set[str] = field(default_factory=set)
    sent_count: int = 0

    def send(self, count: int) -> None:
        """Send rows, updates, deletes and malformed records; all records of a key go to one partition."""
        for partition in range(3):
            values: list[bytes | None] = [b"{"] * self.rng.randrange(2)
            for _ in range(count // 3):
                time = hour(self.rng.choice(HOURS[partition::3]))
                if self.rng.random() < DELETED_SHARE:
                    values.append(delete(time))
                    self.deleted_hours.add(time)
                    self.rows.pop(time, None)
                    continue
                value = self.rng.choice([None, *(round(self.rng.uniform(-20, 40), 1) for _ in range(4))])
                values.append(record(time=time, temperature_2m=value))
                self.rows[time] = self.rows.get(time) if value is None else value
            self.stream.send(*values, partition=partition)
            self.sent_count += len(values)

    def merge_rest(self, answers: list[dict[str, Any]]) -> None:
        """Merge what is left by a run that never won: a person, or the sensor, starts it again."""
        if any("error" in answer for answer in answers):
            assert "done" in self.workers[0].do(self.job)

    def run(self, *jobs: Job) -> list[dict[str, Any]]:
        """Let both run a job at once; one that never wins stops with a conflict."""
        for worker, job in zip(self.workers, jobs, strict=True):
            worker.start(job)
        answers = [worker.answer() for worker in self.workers]
        for answer in answers:
            assert "done" in answer or answer["error"] == "ConflictError", answer
        return answers

    @property
    def tables(self) -> Tables:
        return Tables(self.stream.settings, self.stream.table)

    def assert_right(self) -> None:
        """Everything sent is merged exactly once, and no record, base row or value before a delete comes back."""
        given_values = {time: value for time, value in self.rows.items() if value is not None}
        base_rows = {time: value for time, value in self.base.items() if time not in self.deleted_hours}
        assert self.stream.temperatures() == {**self.rows, **base_rows, **given_values}
        assert {f"{key[2]:%Y-%m-%dT%H:%M}" for key in self.tables.deletes()} == self.deleted_hours
        assert self.stream.ledger.totals.read == self.sent_count
        assert self.stream.ledger.progress.positions == read_topic(self.stream.settings, self.job.topic).end
        self.stream.assert_accounted()


@pytest.fixture(scope="module")
def workers(registry) -> Iterator[list[Worker]]:
    workers = [Worker(registry), Worker(registry)]
    for worker in workers:
        worker.wait_ready()
    yield workers
    for worker in workers:
        worker.stop()


@pytest.fixture(scope="module")
def started_race(spark, broker, workers) -> Race:
    name = f"r_{uuid4().hex[:12]}"
    job = Job("merge", name, name, max_records=8)
    create_topic(broker, job.table)
    return Race(Stream(spark, broker, job.table), workers, job, random.Random(5))


@pytest.fixture
def race(started_race) -> Race:
    started_race.send(12)
    return started_race


@pytest.mark.parametrize("turn", range(20))
def test_two_processes_merge_each_batch_once(race, attack, turn):
    numbers_before = {entry.commit.number for entry in race.stream.ledger.entries}
    with attack(ONE_WRITER, "two processes merge at once"):
        answers = race.run(race.job, race.job)
        first_numbers, second_numbers = (set(answer.get("done", ())) for answer in answers)
        assert not first_numbers & second_numbers
        race.merge_rest(answers)
        race.assert_right()
        numbers_after = {entry.commit.number for entry in race.stream.ledger.entries}
        assert first_numbers | second_numbers <= numbers_after - numbers_before
        assert (
            any("error" in answer for answer in answers)
            or first_numbers | second_numbers == numbers_after - numbers_before
        )
        numbers_before = numbers_after
    race.send(12)


@pytest.mark.parametrize("form", [*["log", "avro"] * 3, "elements"])
def test_two_processes_read_a_new_topic_once(spark, registry, workers, attack, form):
    name = f"n_{uuid4().hex[:12]}"
    job = Job("merge", name, name, max_records=8, form=form)
    create_topic(registry, job.table)
    race = Race(Stream(spark, registry, job.table), workers, job, random.Random())
    hours = [hour(number) for number in range(24)]
    values: list[bytes | None] = [record(time=time) for time in hours]
    if form == "avro":
        ids = register(registry, job.table, AS_TEXT), register(registry, job.table, WITH_STATION)
        values = as_avro(ids, values)
    if form == "elements":
        values = in_arrays(values)
    for partition in range(job.table.topic_options.partitions):
        race.stream.send(*values[partition :: job.table.topic_options.partitions], partition=partition)
    with attack(ONE_WRITER, f"two processes read a new topic at once: {READ_LABELS[form]}"):
        race.run(job, job)
        race.stream.merge()
        assert Counter(map(hour_of, rows_of(registry, name))) == Counter(hours)
        if form == "avro":
            assert sorted(row["id"] for row in rows_of(registry, job.table.schemas_name)) == sorted(ids)
        race.stream.assert_accounted()


@pytest.mark.parametrize("turn", range(5))
def test_a_merge_and_maintenance_at_once(race, attack, turn):
    with attack(ONE_WRITER, "a merge and maintenance at once"):
        race.merge_rest(race.run(race.job, replace(race.job, do="maintain")))
        race.assert_right()
    race.send(12)


def test_a_merge_and_a_redrive_at_once(race, attack):
    race.run(race.job, race.job)
    for number in range(3):
        race.send(6)
        hot_hour = hour(100 + number)
        race.stream.send(record(time=hot_hour, temperature_2m=HOT_TEMPERATURE))
        race.rows[hot_hour] = HOT_TEMPERATURE
        race.sent_count += 1
        with attack(ONE_WRITER, "a merge and a redrive at once"):
            redrive = replace(race.job, do="redrive", hottest=100.0)
            race.run(race.job, redrive)
            assert "done" in race.workers[0].do(redrive)
            race.assert_right()
            assert "out_of_range" not in {reason for *_, reason in race.stream.rejected()}


def test_a_merge_and_a_base_load_at_once(race, attack, tmp_path: Path):
    for number in range(3):
        race.base = {hour(n): float(n % 20 + number) for n in (*HOURS, 200)}
        job = replace(race.job, folder=str(base_folder(tmp_path / "base", race.base)))
        with attack(ONE_WRITER, "a merge and a base load at once"):
            race.run(job, replace(job, do="load_base"))
            assert "done" in race.workers[0].do(job)
            race.assert_right()
        race.send(12)


def test_two_processes_refresh_feed_and_rollup_at_once(race, attack):
    for _ in range(3):
        race.run(race.job, race.job)
        with attack(ONE_WRITER, "two refreshes at once"):
            refresh = replace(race.job, do="refresh")
            race.run(refresh, refresh)
            versions = race.stream.sql("SELECT DISTINCT source_version, number FROM {changes}")
            assert len(versions) == len({version for version, _ in versions}), "a version is recorded twice"
            assert_all_is_right(race.stream)
        race.send(12)


@pytest.mark.invariant("11.2")
def test_a_merge_waits_for_the_process_that_writes_the_table(race, attack, monkeypatch):
    race.send(3)
    ledger_before = race.stream.ledger
    monkeypatch.setattr(lock, "_PATIENCE", 0.1)
    monkeypatch.setattr(table_context, "_ATTEMPTS", 2)
    with attack(ONE_WRITER, "another process holds the table's lock"):
        with table_lock(race.stream.uri, race.job.name), pytest.raises(ConflictError, match="was locked for"):
            race.stream.merge()
        assert race.stream.ledger == ledger_before
        race.stream.merge()
        race.assert_right()
