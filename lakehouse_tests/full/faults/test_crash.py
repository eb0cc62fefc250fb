"""A process is killed at every point of its work; a plain rerun gives the tables of an undisturbed run."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from pyspark.sql import SparkSession

from lakehouse.errors import LakehouseError
from lakehouse.kafka import create_topic
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.worker import Form, Job, Point
from lakehouse_tests.helpers.attacks.workers import Standby, standby
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.brokers.registries import register
from lakehouse_tests.helpers.brokers.streams import delete, hour, record, send
from lakehouse_tests.helpers.histories.avro_histories import AS_TEXT
from lakehouse_tests.helpers.histories.scenes import (
    DELETED_HOURS,
    WITH_STATION,
    as_avro,
    in_arrays,
    read_state,
    records,
    write,
)
from lakehouse_tests.helpers.tables.base_files import base_folder
from lakehouse_tests.helpers.tables.rows import hour_of, rows_of
from lakehouse_tests.helpers.tables.tables import Tables, footprint

CRASH = "A crash loses nothing"
FORMS: tuple[Form, ...] = "avro", "truncates", "elements", "topics"  # those with a topic of their own
TRUNCATED_HOUR = hour(801)  # has a row only until the truncate
SCENES = {
    "merge": ("merge", "refresh"),
    "base": ("merge", "load_base", "merge", "refresh"),
    "redrive": ("merge", "redrive", "refresh"),
    "replay": ("merge", "replay", "refresh"),
    # base rows are in a file of their own, so maintenance has files to compact
    "maintain": ("merge", "load_base", "merge", "refresh", "maintain"),
    "log": ("merge", "redrive", "replay", "refresh"),
    "avro": ("merge", "refresh"),
    "truncates": ("merge", "replay", "refresh"),
    "elements": ("merge", "redrive", "replay", "refresh"),
    "topics": ("merge", "redrive", "replay", "refresh"),
}


@dataclass(frozen=True)
class Case:
    """One kill: the scene, the step of the scene and the point in the step."""

    label: str
    point: Point
    scene: str = "merge"
    step: int = 0
    then: Point | None = None  # where the rerun is killed too


# how many commits the interrupted statement has made at these points
COMMITS_AT_POINT = {"file": 0, "version": 1}
BETWEEN = write("after", "_deletes", 1)
CASES = [
    Case("before reading", Point("sources.table_sources.read_records", nth=1)),
    Case("after the rejected write", write("after", "_rejected")),
    Case("MERGE: first data file", write("file", nth=1)),
    Case("after the commit, before it is reported", write("after")),
    Case("MERGE: Python alone", write("file", alone=True)),
    Case("change feed: first data file", write("file", "_changes"), step=1),
    Case("before the tables are created", Point("storage.schema_change._create")),
    Case("between the tables", Point("storage.schema_change._create", "after")),
    Case("before the table of deletes is created", Point("storage.schema_change._create", "after", nth=1)),
    Case("after the tables are created", Point("storage.schema_change._create", "after", nth=2)),
    Case("after reading", Point("ingest.batches.commit_batch")),
    Case("rejected write: first data file", write("file", "_rejected")),
    Case("rejected write: log entry", write("version", "_rejected")),
    *(Case(f"deletes: first data file, batch {nth + 1}", write("file", "_deletes", nth)) for nth in (0, 1)),
    *(Case(f"deletes: log entry, batch {nth + 1}", write("version", "_deletes", nth)) for nth in (0, 1)),
    *(Case(f"between the deletes and the MERGE, batch {n + 1}", write("after", "_deletes", n)) for n in (0, 1)),
    Case("deletes: Python alone", write("file", "_deletes", alone=True)),
    *(
        Case(f"restore of deletes that do not count: {label}", BETWEEN, then=write(when, "_deletes"))
        for label, when in (("before", "before"), ("log entry", "version"), ("after the commit", "after"))
    ),
    *(Case("deletes without Spark: some time", write("delay", "_deletes", delay=d, quick=True)) for d in (0.002, 0.01)),
    Case("before the MERGE", write("before", nth=1)),
    Case("MERGE: log entry is written", write("log")),
    Case("MERGE: log entry", write("version", nth=1)),
    Case("after the last commit, before it is reported", write("after", nth=1)),
    Case("MERGE: Python alone", write("log", nth=1, alone=True)),
    *(Case("MERGE: some time", write("delay", nth=n % 2, delay=0.2 * 1.6**n)) for n in range(7)),
    *(Case("without Spark: some time", write("delay", delay=0.001 * 1.9**n, quick=True)) for n in range(7)),
    Case("change feed: log entry", write("version", "_changes"), step=1),
    Case("change feed: after the commit", write("after", "_changes"), step=1),
    Case("rollup: before it is created", Point("storage.schema_change._create", nth=1), step=1),
    Case("rollup: first data file", write("file", "_by_location"), step=1),
    Case("rollup: after the commit", write("after", "_by_location"), step=1),
    Case("base load: first data file", write("file", "_base"), "base", 1),
    Case("base load: after the commit", write("after", "_base"), "base", 1),
    Case("base MERGE: first data file", write("file"), "base", 2),
    Case("base MERGE: after the commit", write("after"), "base", 2),
    Case("redrive: first data file", write("file"), "redrive", 1),
    Case("redrive: after the commit", write("after"), "redrive", 1),
    Case("redrive: marking, first data file", write("file", "_rejected"), "redrive", 1),
    Case("redrive: after marking", write("after", "_rejected"), "redrive", 1),
    Case("replay: after the commit", write("after"), "replay", 1),
    Case("maintenance: first file of OPTIMIZE", write("file"), "maintain", 4),
    Case("maintenance: OPTIMIZE done", write("after"), "maintain", 4),
    Case("maintenance: VACUUM started", write("version", nth=1), "maintain", 4),
    Case("maintenance: VACUUM done", write("after", nth=1), "maintain", 4),
    Case("maintenance: ledger carried forward", write("after", nth=2), "maintain", 4),
    Case("log table: after the rejected write", write("after", "_rejected"), "log"),
    Case("log table, append: first data file", write("file", nth=1), "log"),
    Case("log table, append: log entry", write("version", nth=1), "log"),
    Case("log table, append: after the commit, before it is reported", write("after"), "log"),
    Case("log table, append: Python alone", write("log", alone=True), "log"),
    *(
        Case("log table, without Spark: some time", write("delay", delay=n, quick=True), "log")
        for n in (0.002, 0.01, 0.05)
    ),
    Case("log table, redrive: first data file", write("file"), "log", 1),
    Case("log table, redrive: after the commit", write("after"), "log", 1),
    Case("log table, replay: after the commit", write("after"), "log", 2),
    Case("log table, rollup: first data file", write("file", "_by_location"), "log", 3),
    Case("Avro, schemas: before they are stored", write("before", "_schemas"), "avro"),
    Case("Avro, schemas: first data file", write("file", "_schemas"), "avro"),
    Case("Avro, schemas: log entry", write("version", "_schemas"), "avro"),
    Case("Avro, schemas: after the commit", write("after", "_schemas"), "avro"),
    Case("Avro, MERGE: first data file", write("file", nth=1), "avro"),
    Case("Avro: between the deletes and the MERGE", write("after", "_deletes"), "avro"),
    # the commit of the truncate is between those of the two batches
    Case("truncate: first data file", write("file", nth=1), "truncates"),
    Case("truncate: log entry", write("version", nth=1), "truncates"),
    Case("between the truncate and its batch", write("after", nth=1), "truncates"),
    Case("between the truncate and its batch, deletes stored", BETWEEN, "truncates"),
    Case("batch of a truncate: first data file", write("file", nth=2), "truncates"),
    Case("batch of a truncate: after the commit", write("after", nth=2), "truncates"),
    Case("elements: after the rejected write", write("after", "_rejected"), "elements"),
    Case("elements: between the deletes and the MERGE", write("after", "_deletes"), "elements"),
    Case("elements, MERGE: first data file", write("file", nth=1), "elements"),
    Case("elements, MERGE: log entry", write("version"), "elements"),
    Case("elements, redrive: after the commit", write("after"), "elements", 1),
    Case("elements, redrive: marking, first data file", write("file", "_rejected"), "elements", 1),
    Case("elements, replay: after the commit", write("after"), "elements", 2),
    Case("topics: after the rejected write", write("after", "_rejected"), "topics"),
    *(Case(f"topics: after batch {nth + 1}", write("after", nth=nth), "topics") for nth in range(4)),  # two of each
    *(
        Case(f"topics: between the deletes and the MERGE, batch {n + 1}", write("after", "_deletes", n), "topics")
        for n in (1, 2)
    ),
    Case("topics: restore of deletes that do not count", BETWEEN, "topics", then=write("after", "_deletes")),
    Case("topics, second topic: log entry", write("version", nth=2), "topics"),
    Case("topics, redrive: after the commit", write("after"), "topics", 1),
    Case("topics, redrive: after marking", write("after", "_rejected"), "topics", 1),
    Case("topics, replay: after the commit", write("after", nth=1), "topics", 2),
]


@dataclass
class World:
    """A topic, base files, a warm session, and workers to kill."""

    spark: SparkSession
    settings: Settings
    standby: Standby
    topic: str
    folder: str
    sent_counts: dict[str, int]
    expected_states: dict[str, Any] = field(default_factory=dict)

    def jobs(self, scene: str) -> list[Job]:
        """The steps of a scene, over new tables."""
        form: Any = scene if scene in ("log", *FORMS) else "json"
        topic = f"{self.topic}-{form}" if form in FORMS else self.topic
        limit = self.sent_counts[topic] // (4 if form == "topics" else 2) + 1
        options: dict[str, Any] = dict(max_records=limit, folder=self.folder, form=form)
        first = Job("", f"c_{uuid4().hex[:12]}", topic, **options)
        redrives = [do for do in SCENES[scene] if do == "redrive"]
        return [replace(first, do=do, hottest=100.0 if redrives and do != "merge" else 70.0) for do in SCENES[scene]]

    def run(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.run(self.spark, self.settings)

    def expected_state(self, scene: str) -> Any:
        if scene not in self.expected_states:
            jobs = self.jobs(scene)
            self.run(jobs)
            self.expected_states[scene] = read_state(self.settings, jobs[-1])
        return self.expected_states[scene]


@pytest.fixture(scope="module")
def world(spark: SparkSession, registry: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    topic = f"crash-{uuid4().hex[:8]}"
    tables = {form: Job("", "t", f"{topic}-{form}", form=form).table for form in FORMS}
    base = base_folder(tmp_path_factory.mktemp("base"), {hour(number): float(number) for number in range(3, 9)})
    for form in ("json", *FORMS):
        job = Job("", "t", f"{topic}-{form}" if form in FORMS else topic, form=form)
        for name in job.topics:
            create_topic(registry, job.table.in_topic(name) if job.table.topics else job.table)
    ids = register(registry, tables["avro"], AS_TEXT), register(registry, tables["avro"], WITH_STATION)
    rng, sent_counts = random.Random(4), Counter[str]()
    for partition in range(3):
        values = records(rng, 10)
        sent = {topic: values, tables["avro"].topic: as_avro(ids, values), tables["elements"].topic: in_arrays(values)}
        sent[tables["truncates"].topic] = truncated = [*values]
        truncated[0] = record(time=TRUNCATED_HOUR) if partition == 0 else values[0]
        truncated[-3] = record(operation="TRUNCATE") if partition == 1 else values[-3]
        half = len(values) // 2
        sent[f"{topic}-topics-1"], sent[f"{topic}-topics-2"] = values[:half], values[half:]
        for name, sent_values in sent.items():
            send(registry, name, sent_values, partition)
            sent_counts[name] += len(sent_values)
    sent_counts[f"{topic}-topics"] = sent_counts[topic]
    with standby(registry) as workers:
        yield World(spark, registry, workers, topic, str(base), sent_counts)


@pytest.mark.invariant("1.17")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_a_plain_rerun_after_a_kill_gives_the_tables_of_an_undisturbed_run(case, world, attack):
    jobs = world.jobs(case.scene)
    world.run(jobs[: case.step])
    expected_state = world.expected_state(case.scene)
    with attack(CRASH, f"SIGKILL, {case.label}"):
        uri = world.settings.table_uri(jobs[case.step].name + case.point.suffix)
        version_before, files_before = footprint(uri)
        with world.standby.take() as worker:
            worker.die(jobs[case.step], case.point)
        if case.point.when in COMMITS_AT_POINT:
            version_after, files_after = footprint(uri)
            extra_commits = version_after - version_before - case.point.nth - COMMITS_AT_POINT[case.point.when]
            assert extra_commits in ((0, 1) if case.point.alone else (0,)), (
                "only a JVM without its Python process may still finish its statement"
            )
            assert extra_commits or case.point.when != "file" or files_after - files_before, (
                "the worker died before it wrote a file"
            )
        if case.then:
            with world.standby.take() as worker:
                worker.die(jobs[case.step], case.then)
        world.run(jobs[case.step :])
        state = read_state(world.settings, jobs[-1])
        assert state[0].read == world.sent_counts[jobs[-1].topic]
        assert state == expected_state
        assert case.scene == "log" or not {TRUNCATED_HOUR, *DELETED_HOURS} & merged_hours(world.settings, jobs[-1])


def merged_hours(settings: Settings, job: Job) -> set[str]:
    return {hour_of(row) for row in rows_of(settings, job.name)}


GAP_POINTS = {
    "before its commit": write("before"),
    "its log entry": write("version"),
    "after its commit": write("after"),
}


@pytest.mark.invariant("1.17", "9.6")
def test_a_kill_while_a_gap_is_recorded_records_it_once(world, attack):
    template = Job("merge", "t", f"gap-{uuid4().hex[:8]}")
    create_topic(world.settings, template.table)
    committed_labels = ("its log entry", "after its commit")
    jobs = {label: replace(template, name=f"g_{uuid4().hex[:12]}") for label in ["undisturbed", *GAP_POINTS]}
    send(world.settings, template.topic, [record(time=hour(number)) for number in range(5)])
    world.run(list(jobs.values()))
    later_values = [record(time=hour(number)) for number in range(5, 10)]
    send(world.settings, template.topic, [*later_values, delete(hour(0)), delete(hour(6))])
    deletion = {TopicPartition(template.topic, 0): RecordsToDelete(before_offset=8)}
    with_client(AIOKafkaAdminClient, world.settings, lambda admin: admin.delete_records(deletion))
    states = {}
    for label, job in jobs.items():
        acceptance = replace(job, do="accept_gap")
        if label in GAP_POINTS:
            with attack(CRASH, f"SIGKILL, accepting a gap, {label}"), world.standby.take() as worker:
                worker.die(acceptance, GAP_POINTS[label])
        with suppress(LakehouseError) if label in committed_labels else nullcontext():
            world.run([acceptance])
        world.run([job, replace(job, do="refresh")])
        gaps = [entry.commit.gap for entry in Tables(world.settings, job.table).ledger().entries if entry.commit.gap]
        states[label] = (gaps, read_state(world.settings, job))
    assert all(state == states["undisturbed"] for state in states.values())
    assert merged_hours(world.settings, jobs["undisturbed"]) == {hour(number) for number in (1, 2, 3, 4, 8, 9)}
