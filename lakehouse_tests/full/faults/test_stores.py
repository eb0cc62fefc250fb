"""Tables in a real object store that loses answers, refuses, waits and dies: nothing is lost, nothing is doubled."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from lakehouse_tests.helpers.attacks import foreign_spark
from lakehouse_tests.helpers.attacks.reliability import Attack, Target
from lakehouse_tests.helpers.attacks.store_scenes import (
    StoreScene,
    StoreWorld,
    Writers,
    assert_clear,
    await_request,
    fault_count,
    running_world,
    unanswered_count,
)
from lakehouse_tests.helpers.tables.proxy_server import Fault, Kind
from lakehouse_tests.helpers.waiting import wait_until

TROUBLE = "A store in trouble loses nothing"
CRASH = "A crash loses nothing"


def of_commits(kind: Kind, **options: Any) -> Fault:
    """A fault of requests that create an entry of a log."""
    return Fault(kind, method="PUT", commits_only=True, **options)


@pytest.fixture(scope="module", params=["s3", "azure"])
def world(broker, request) -> Iterator[StoreWorld]:
    with running_world(broker, request.param) as world:
        yield world


@pytest.fixture(scope="module")
def writers(world) -> Iterator[Writers]:
    writers = Writers(world.settings)
    yield writers
    writers.stop()


@pytest.fixture(scope="module")
def started_scene(world, writers) -> StoreScene:
    scene = StoreScene.create(world, 7)
    scene.send(24)
    scene.assert_right_after(*writers.take())
    return scene


@pytest.fixture
def scene(started_scene) -> StoreScene:
    started_scene.send(12)
    started_scene.world.proxy.clear_faults()
    started_scene.world.proxy.reset()
    return started_scene


FAULTS = {
    "every second answer to a commit is lost": [of_commits("lose answer", every=2)],
    "three answers to commits in a row are lost": [of_commits("lose answer", times=3)],
    "the connection ends before every second commit": [of_commits("cut", every=2)],
    "500 and 503 for a quarter of the requests": [
        Fault("answer", every=7, status=500, code="InternalError"),
        Fault("answer", every=9),
    ],
    "a commit takes 0.2 seconds longer": [of_commits("delay", seconds=0.2)],
}


@pytest.mark.parametrize("method", FAULTS)
def test_a_merge_through_a_failing_store_is_exact(scene, writers, attack, method):
    for fault in FAULTS[method]:
        scene.world.proxy.add_fault(fault)
    counts: list[int] = []
    with attack(TROUBLE, method, times=lambda: sum(counts), target=scene.world.target):
        answers = scene.merge(*writers.take())
        counts.append(fault_count(scene.world))
        assert counts[0] > 0
        for answer in answers:
            assert_clear(answer)
        scene.assert_right_after(*writers.take())


MOMENTS = {
    "while tables are read": ("GET", ""),
    "after a data file": ("PUT", r"\.parquet$"),
    "after a log entry": ("PUT", r"\d\.json$"),
}


@pytest.mark.parametrize("is_missed", [False, True], ids=["back at once", "back after refused requests"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_merge_into_a_store_that_is_killed_is_exact(scene, writers, attack, is_missed, moment):
    (worker,) = writers.take()
    store, method = scene.world.store, f"the store is {scene.world.store.ending} {moment}, and started again"
    with attack(TROUBLE, method, target=scene.world.target):
        worker.start(scene.job)
        await_request(scene.world, *MOMENTS[moment])
        store.stop()
        assert not is_missed or wait_until(lambda: unanswered_count(scene.world) >= 3, 60)
        store.start()
        answer = worker.answer()
        assert_clear(answer)
        scene.assert_right_after(worker)


@pytest.mark.parametrize("times", [None, 1], ids=["until the run ends", "for one request"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_merge_whose_keys_expire_is_exact(scene, writers, attack, moment, times):
    (worker,) = writers.take()
    with attack(TROUBLE, f"the keys expire {moment}", target=scene.world.target):
        worker.start(scene.job)
        await_request(scene.world, *MOMENTS[moment])
        scene.world.proxy.add_fault(Fault("answer", status=403, code="ExpiredToken", times=times))
        answer = worker.answer()
        assert_clear(answer)
        assert "error" in answer or times or moment == "after a log entry"
        scene.assert_right_after(worker)


@pytest.mark.parametrize("part", range(5))
def test_a_merge_that_is_killed_at_some_request_is_exact_after_a_rerun(scene, writers, attack, part):
    (worker,) = writers.take()
    assert "done" in worker.do(scene.job)
    request_count = len(scene.world.proxy.requests())
    scene.send(12)
    fatal_number = max(1, int(request_count * scene.rng.uniform(part, part + 1) / 5.5))
    kill_at(scene, writers, attack, "SIGKILL at a random request", Fault("hang", every=fatal_number, times=1))


@pytest.mark.parametrize("kind", ["hang", "hold answer"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_merge_that_is_killed_at_a_commit_is_exact_after_a_rerun(scene, writers, attack, kind, number):
    method = f"SIGKILL {'before' if kind == 'hang' else 'after'} the store creates a log entry"
    kill_at(scene, writers, attack, method, of_commits(kind, every=number, times=1))


def kill_at(scene: StoreScene, writers: Writers, attack: Attack, method: str, fault: Fault) -> None:
    """Kill the process that merges when a request gets a fault; the next process must make everything right."""
    (worker,) = writers.take()
    scene.world.proxy.reset()
    scene.world.proxy.add_fault(fault)
    with attack(CRASH, method, target=scene.world.target):
        worker.start(scene.job)
        assert wait_until(lambda: fault_count(scene.world) > 0, 120)
        writers.kill(worker)
        scene.assert_right_after(*writers.take())


class OtherWriter:
    """A program that appends to another table and compacts ours, again and again."""

    def __init__(self, scene: StoreScene) -> None:
        self.other_uri = scene.world.settings.table_uri(f"others_{uuid4().hex[:12]}")
        self.uri = scene.tables.uri
        self.appended_count, self.compacted_count, self.conflict_count = 0, 0, 0

    def write_until(self, stopped: Event) -> None:
        while not stopped.is_set():
            write_deltalake(self.other_uri, pa.table({"number": [self.appended_count]}), mode="append")
            self.appended_count += 1
            try:
                DeltaTable(self.uri).optimize.compact()
                self.compacted_count += 1
            except CommitFailedError:
                self.conflict_count += 1

    @property
    def numbers(self) -> list[int]:
        return sorted(DeltaTable(self.other_uri).to_pyarrow_table()["number"].to_pylist())


@pytest.mark.parametrize("turn", range(2))
def test_two_processes_and_another_program_at_once_lose_nothing(scene, writers, attack, turn):
    workers, program, stopped = writers.take(2), OtherWriter(scene), Event()
    scene.world.proxy.add_fault(of_commits("delay", seconds=0.1))
    with attack("Two writers lose nothing", "two merges, and deltalake, which compacts", target=scene.world.target):
        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(program.write_until, stopped)
            for worker in workers:
                worker.start(replace(scene.job, max_records=8))
            try:
                answers = [worker.answer() for worker in workers]
            finally:
                stopped.set()
            work.result(60)
        for answer in answers:
            assert "done" in answer or answer["error"] == "ConflictError", answer
        first_numbers, second_numbers = (set(answer.get("done", ())) for answer in answers)
        assert not first_numbers & second_numbers
        scene.assert_right_after(workers[0])
        assert program.compacted_count > 0
        assert program.numbers == [*range(program.appended_count)]


def rows_of_writer(*writers: str) -> pa.Table:
    schema = pa.schema([("writer", pa.string()), ("row", pa.int32())])
    return pa.table({"writer": writers, "row": [0] * len(writers)}, schema=schema)


def start_spark(uri: str, writer: str, count: int, log_store: str) -> "subprocess.Popen[str]":
    """Start a Spark that appends rows one by one."""
    command = [sys.executable, "-m", foreign_spark.__name__, uri, writer, str(count), log_store]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def appended_by(spark: "subprocess.Popen[str]") -> list[int]:
    """The rows whose commit a Spark reported."""
    output, errors = spark.communicate(timeout=300)
    assert spark.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


@pytest.mark.parametrize("turn", range(2))
def test_two_sparks_that_race_while_answers_are_lost_lose_nothing(world, attack, turn):
    uri, count = world.settings.table_uri(f"raced_{uuid4().hex[:12]}"), 20
    write_deltalake(uri, rows_of_writer())
    world.proxy.clear_faults()
    world.proxy.add_fault(of_commits("lose answer", every=5))
    with attack("Two writers lose nothing", "two Sparks race, and lose every fifth answer", lambda: 40, world.target):
        with start_spark(uri, "a", count, "ours") as first, start_spark(uri, "b", count, "ours") as second:
            appended_rows = [appended_by(first), appended_by(second)]
        assert appended_rows == [[*range(count)]] * 2
        rows = DeltaTable(uri).to_pyarrow_table().sort_by([("writer", "ascending"), ("row", "ascending")])
        assert rows.to_pylist() == [{"writer": writer, "row": row} for writer in "ab" for row in range(count)]


def test_a_spark_of_another_program_replaces_a_commit_in_s3(world):
    """Delta's own log store looks first and writes then: without a condition, what is committed in between is gone.

    In Azure it renames an entry as ours does, which has the condition.
    """
    uri = world.settings.table_uri("foreign")
    write_deltalake(uri, rows_of_writer("first"))
    world.proxy.clear_faults()
    world.proxy.reset()
    world.proxy.add_fault(of_commits("delay", times=1, seconds=5.0))
    with start_spark(uri, "foreign", 1, "own") as foreign:
        assert wait_until(lambda: fault_count(world) > 0, 120)
        write_deltalake(uri, rows_of_writer("ours"), mode="append")
        assert appended_by(foreign) == [0]
    ours = ["ours"] if world.target == Target.AZURE else []
    assert sorted(DeltaTable(uri).to_pyarrow_table()["writer"].to_pylist()) == ["first", "foreign", *ours]
