"""The engine of a home when processes die: a client during its MERGE, the engine itself, a run that is stopped."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import create_topic, publish
from lakehouse.ledger.ledger import read_ledger
from lakehouse.settings import Settings
from lakehouse.spark.engine import EngineProcess, engine_folder, is_engine_running, read_address, read_token
from lakehouse_tests.full.integration.test_up import RECORDS
from lakehouse_tests.helpers.attacks.worker import Job
from lakehouse_tests.helpers.attacks.workers import Worker
from lakehouse_tests.helpers.brokers.sockets import exposed_ports
from lakehouse_tests.helpers.brokers.streams import hour, record, send, unique_table
from lakehouse_tests.helpers.engines import home_of_workers, page, running_engine, runs, writer_of
from lakehouse_tests.helpers.processes import ps, started_by
from lakehouse_tests.helpers.tables.rows import rows_of
from lakehouse_tests.helpers.up import Up
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

_SQL_PROGRAM = """
import sys
from lakehouse.settings import Settings
from lakehouse.spark.sessions import build_session, stop_session
settings = Settings(home=sys.argv[1], spark_master="local[1]", spark_driver_memory="640m", _env_file=None)
session = build_session(settings)
session.sql(sys.argv[2]).collect()
stop_session(session)
"""
# each written row takes at least a third of a second
_SLOW_CONDITION = "length(regexp_replace(repeat(CAST(observed_at AS STRING), 300000), '[0-9]+', 'x')) >= 0"


@dataclass
class World:
    """Two homes with the same tables, whose rows are slow to write; the first home has an engine."""

    engine_home: Settings
    other_home: Settings
    engine: EngineProcess
    job: Job
    workers: list[Worker] = field(default_factory=list)
    sent_count: int = 0

    def worker(self, settings: Settings) -> Worker:
        """Start a worker of this home and wait until it is ready."""
        worker = Worker(settings)
        self.workers.append(worker)
        worker.wait_ready()
        return worker

    def send(self, count: int = 12) -> None:
        hours = [hour(number) for number in range(self.sent_count, self.sent_count + count)]
        send(self.engine_home, self.job.topic, [record(time=time_text) for time_text in hours])
        self.sent_count += count

    def start_merge(self, worker: Worker) -> None:
        """Let a worker merge; return when its MERGE runs on the engine."""
        worker.start(self.job)
        assert wait_until(lambda: runs(writer_of(self.engine_home, self.job.name)), 60)

    def require_whole(self) -> None:
        """Every sent record is in the table once, and the history accounts for it."""
        ledger = read_ledger(self.engine_home.table_uri(self.job.name), self.job.name, whole=True)
        assert ledger.totals.read == self.sent_count
        rows = [row["observed_at"] for row in rows_of(self.engine_home, self.job.name)]
        assert len(rows) == len(set(rows)) == self.sent_count


@pytest.fixture
def world(broker: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    table = unique_table()
    create_topic(broker, table)
    monkeypatch.setenv("LAKEHOUSE_TABLES", str(tmp_path / "tables"))
    engine_home, other_home = (home_of_workers(tmp_path / name, broker) for name in ("warm", "other"))
    with running_engine(engine_home) as engine:
        new_world = World(engine_home, other_home, engine, Job("merge", table.name, table.topic))
        new_world.send(1)
        assert new_world.worker(engine_home).do(new_world.job) == {"done": [1]}
        statement = (
            f"ALTER TABLE delta.`{engine_home.table_uri(table.name)}` ADD CONSTRAINT slow CHECK ({_SLOW_CONDITION})"
        )
        subprocess.run([sys.executable, "-c", _SQL_PROGRAM, str(engine_home.home), statement], check=True)
        yield new_world
        for worker in new_world.workers:
            worker.stop()


@pytest.mark.invariant("11.4")
@pytest.mark.parametrize("next_home", ["another process of the home", "another home with a Spark of its own"])
def test_the_next_writer_waits_for_the_statement_of_a_killed_client(next_home: str, world: World) -> None:
    next_worker = world.worker(world.engine_home if next_home.endswith("of the home") else world.other_home)
    killed_worker = world.worker(world.engine_home)
    world.send()
    world.start_merge(killed_worker)
    writer = writer_of(world.engine_home, world.job.name)
    killed_worker.stop()
    assert runs(writer), "the statement goes on without its client"
    assert "done" in next_worker.do(world.job)
    assert not runs(writer)
    assert writer_of(world.engine_home, world.job.name) is None
    world.require_whole()


@pytest.mark.invariant("11.4", "11.6")
def test_a_client_that_is_stopped_stops_its_statement_first(world: World) -> None:
    worker = world.worker(world.engine_home)
    world.send()
    world.start_merge(worker)
    version = table_version(world)
    os.kill(worker.pid, signal.SIGINT)
    assert worker.wait_for_end(30) == -signal.SIGINT
    assert writer_of(world.engine_home, world.job.name) is None, "the engine still knows the statement"
    assert table_version(world) == version
    assert "done" in world.worker(world.engine_home).do(world.job)
    world.require_whole()


def table_version(world: World) -> int | None:
    return read_ledger(world.engine_home.table_uri(world.job.name), world.job.name).version


@pytest.mark.invariant("11.4")
def test_a_lost_engine_is_an_error_within_seconds_and_the_next_run_continues(world: World) -> None:
    worker = world.worker(world.engine_home)
    world.send()
    world.start_merge(worker)
    address = read_address(engine_folder(world.engine_home))
    assert address
    start_time = time.monotonic()
    os.kill(address.pid, signal.SIGKILL)
    answer = worker.answer()
    assert time.monotonic() - start_time < 10
    assert answer["error"] == "EngineLostError"
    assert "The engine or Spark Connect server has ended" in answer["text"]
    assert writer_of(world.engine_home, world.job.name), "the end of the statement is unknown"
    world.engine.start()
    assert "done" in world.worker(world.engine_home).do(world.job)
    world.require_whole()


def test_the_lock_of_an_engine_is_held_until_its_jvm_ends(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, spark_master="local[1]", spark_driver_memory="640m", _env_file=None)
    folder = engine_folder(settings)
    with running_engine(settings) as engine:
        assert wait_until(lambda: read_address(folder) is not None, 120)
        address = read_address(folder)
        assert address
        (parent,) = ps("-o", "ppid=", "-p", str(address.pid))
        os.kill(address.pid, signal.SIGSTOP)
        os.kill(int(parent), signal.SIGKILL)
        assert wait_until(lambda: engine.exit_code is not None)
        assert is_engine_running(folder)
        os.kill(address.pid, signal.SIGCONT)
        assert wait_until(lambda: not is_engine_running(folder), 60)


@contextmanager
def running_follow(home: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "follow"]
    environment = {**os.environ, "LAKEHOUSE_HOME": str(home), "LAKEHOUSE_SPARK_DRIVER_MEMORY": "1g"}
    with (
        log.open("wb") as log_output,
        subprocess.Popen(command, env=environment, stdout=log_output, stderr=log_output) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def test_up_restarts_its_engine_follow_continues_and_no_log_has_the_token(tmp_path: Path) -> None:
    home, follow_log = tmp_path / "home", tmp_path / "follow.log"
    settings = Settings(home=home, _env_file=None)
    stack = Up(home, "broker", "engine")
    try:
        assert stack.wait_for_log("engine    | ready at 127.0.0.1", 120), stack.log.read_text()
        tokens = [read_token(engine_folder(settings))]
        require_page(settings, stack, tokens[0])
        refused_merge = run_merge(home, memory="700m")
        assert refused_merge.returncode == 1
        assert "other packages, jars or settings" in refused_merge.stderr
        assert "Start lakehouse up again" in refused_merge.stderr
        require_merges_without_traces(settings, 3)
        with running_follow(home, follow_log) as follow_process:
            for number in (1, 2):
                publish(settings, temperatures, RECORDS)
                assert wait_until(partial(has_merged, settings, 3 + number), 120), follow_log.read_text()
                kill_engine(settings, number, stack.wait_for_log)
            assert follow_process.poll() is None
        assert find_stack_traces(settings) == []
        tokens.append(read_token(engine_folder(settings)))
        assert tokens[0] != tokens[1]
        texts = [file.read_text(errors="replace") for file in (stack.log, follow_log, *home.glob("logs/lakehouse/*"))]
        texts += [(home / "engine" / "log").read_text(errors="replace"), *ps("-axwwo", "args=")]
        assert not [token for token in tokens for text in texts if token in text]
        assert "Traceback" not in follow_log.read_text()
    finally:
        _, remaining_processes = stack.stop()
    assert remaining_processes == {}


def run_merge(home: Path, memory: str = "1g") -> subprocess.CompletedProcess[str]:
    """Merge over the engine of this home, by the command line."""
    return subprocess.run(
        [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "merge"],
        env={**os.environ, "LAKEHOUSE_HOME": str(home), "LAKEHOUSE_SPARK_DRIVER_MEMORY": memory},
        capture_output=True,
        text=True,
        check=False,
    )


def require_merges_without_traces(settings: Settings, count: int) -> None:
    """Merges over an engine, each with its own session, leave no stack trace in its log."""
    for number in range(1, count + 1):
        publish(settings, temperatures, RECORDS)
        result = run_merge(settings.home)
        assert (result.returncode, has_merged(settings, number)) == (0, True), result.stderr
        assert "Attaching to the engine" in result.stderr
    assert find_stack_traces(settings) == []


def find_stack_traces(settings: Settings) -> list[str]:
    """The lines of stack traces and of unknown sessions in the log of the engine."""
    log = (engine_folder(settings) / "log").read_text(errors="replace")
    return [line for line in log.splitlines() if line.startswith("\tat ") or "INVALID_HANDLE" in line]


def require_page(settings: Settings, stack: Up, token: str) -> None:
    """Spark's page answers at the address that ``up`` prints, on loopback only, and shows no secret."""
    address = read_address(engine_folder(settings))
    assert address and address.ui.startswith("http://127.0.0.1:")
    assert f"Spark UI {address.ui}" in stack.log.read_text()
    environment = page(f"{address.ui}/environment/")
    assert "spark.ui.retainedJobs" in environment
    assert token not in environment
    assert exposed_ports(started_by(stack.process.pid)) == {}


def has_merged(settings: Settings, batches: int) -> bool:
    return read_ledger(settings.table_uri("temperatures"), "temperatures").totals.batches >= batches


def kill_engine(settings: Settings, number: int, wait_for_log: Callable[[str, float], bool]) -> None:
    if number == 1:
        address = read_address(engine_folder(settings))
        assert address
        os.kill(address.pid, signal.SIGKILL)
        assert wait_for_log("number 1 within an hour; restarting", 30)
