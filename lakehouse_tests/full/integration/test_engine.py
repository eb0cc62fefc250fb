"""The engine of a home when processes die: a client in its MERGE, the engine itself, a run that is stopped."""

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
from lakehouse.spark.engine import EngineProcess, engine_folder, lives, read_address, read_token
from lakehouse_tests.full.integration.test_up import RECORDS, Up
from lakehouse_tests.helpers.attacks.worker import Job
from lakehouse_tests.helpers.attacks.workers import Worker
from lakehouse_tests.helpers.brokers.sockets import exposed
from lakehouse_tests.helpers.brokers.streams import hour, record, send, unique_table
from lakehouse_tests.helpers.engines import home_of_workers, page, running_engine, runs, writer_of
from lakehouse_tests.helpers.processes import ps, started_by
from lakehouse_tests.helpers.tables.rows import rows_of
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = [pytest.mark.invariant(11), pytest.mark.timeout(600)]

_SQL = """
import sys
from lakehouse.settings import Settings
from lakehouse.spark.sessions import build_session, stop_session
settings = Settings(home=sys.argv[1], spark_master="local[1]", spark_driver_memory="640m", _env_file=None)
session = build_session(settings)
session.sql(sys.argv[2]).collect()
stop_session(session)
"""
# each row that is written takes the third part of a second or more
_SLOWLY = "length(regexp_replace(repeat(CAST(observed_at AS STRING), 300000), '[0-9]+', 'x')) >= 0"


@dataclass
class World:
    """Two homes with the same tables, of which the first has an engine; the tables' rows are slow to write."""

    warm: Settings
    other: Settings
    engine: EngineProcess
    job: Job
    workers: list[Worker] = field(default_factory=list)
    sent: int = 0

    def worker(self, settings: Settings) -> Worker:
        """A worker of this home, which is ready."""
        made = Worker(settings)
        self.workers.append(made)
        made.wait_ready()
        return made

    def send(self, many: int = 12) -> None:
        hours = [hour(number) for number in range(self.sent, self.sent + many)]
        send(self.warm, self.job.topic, [record(time=each) for each in hours])
        self.sent += many

    def caught_in_its_merge(self, worker: Worker) -> None:
        """Let a worker merge; return while its MERGE runs on the engine."""
        worker.start(self.job)
        assert wait_until(lambda: runs(writer_of(self.warm, self.job.name)), 60)

    def require_whole(self) -> None:
        """All that was sent is in the table, once, and the history accounts for it."""
        ledger = read_ledger(self.warm.table_uri(self.job.name), self.job.name, whole=True)
        assert ledger.totals.read == self.sent
        rows = [row["observed_at"] for row in rows_of(self.warm, self.job.name)]
        assert len(rows) == len(set(rows)) == self.sent


@pytest.fixture
def world(broker: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    table = unique_table()
    create_topic(broker, table)
    monkeypatch.setenv("LAKEHOUSE_TABLES", str(tmp_path / "tables"))
    warm, other = (home_of_workers(tmp_path / name, broker) for name in ("warm", "other"))
    with running_engine(warm) as engine:
        made = World(warm, other, engine, Job("merge", table.name, table.topic))
        made.send(1)
        assert made.worker(warm).do(made.job) == {"done": [1]}
        statement = f"ALTER TABLE delta.`{warm.table_uri(table.name)}` ADD CONSTRAINT slow CHECK ({_SLOWLY})"
        subprocess.run([sys.executable, "-c", _SQL, str(warm.home), statement], check=True)
        yield made
        for worker in made.workers:
            worker.stop()


@pytest.mark.parametrize("which", ["another process of the home", "another home with a Spark of its own"])
def test_what_a_killed_client_left_running_has_ended_before_the_table_is_written_again(
    which: str, world: World
) -> None:
    next_one = world.worker(world.warm if which.endswith("of the home") else world.other)
    killed = world.worker(world.warm)
    world.send()
    world.caught_in_its_merge(killed)
    left = writer_of(world.warm, world.job.name)
    killed.stop()
    assert runs(left), "the statement goes on without its client"
    assert "done" in next_one.do(world.job)
    assert not runs(left)
    assert writer_of(world.warm, world.job.name) is None
    world.require_whole()


def test_a_client_that_is_stopped_stops_its_statement_first(world: World) -> None:
    worker = world.worker(world.warm)
    world.send()
    world.caught_in_its_merge(worker)
    version = footing(world)
    os.kill(worker.pid, signal.SIGINT)
    assert worker.ended(30) == -signal.SIGINT
    assert writer_of(world.warm, world.job.name) is None, "the engine has not answered"
    assert footing(world) == version
    assert "done" in world.worker(world.warm).do(world.job)
    world.require_whole()


def footing(world: World) -> int | None:
    return read_ledger(world.warm.table_uri(world.job.name), world.job.name).version


def test_the_end_of_the_engine_is_an_error_within_seconds_and_the_next_run_goes_on(world: World) -> None:
    worker = world.worker(world.warm)
    world.send()
    world.caught_in_its_merge(worker)
    address = read_address(engine_folder(world.warm))
    assert address
    began = time.monotonic()
    os.kill(address.pid, signal.SIGKILL)
    told = worker.answer()
    assert time.monotonic() - began < 10
    assert told["error"] == "EngineLostError"
    assert "The engine or Spark Connect server has ended" in told["text"]
    assert writer_of(world.warm, world.job.name), "nobody said how the statement ended"
    world.engine.start()
    assert "done" in world.worker(world.warm).do(world.job)
    world.require_whole()


def test_the_lock_of_an_engine_is_free_when_its_java_is_dead_and_not_before(tmp_path: Path) -> None:
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
        assert lives(folder)
        os.kill(address.pid, signal.SIGCONT)
        assert wait_until(lambda: not lives(folder), 60)


@contextmanager
def following(home: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "follow"]
    environment = {**os.environ, "LAKEHOUSE_HOME": str(home), "LAKEHOUSE_SPARK_DRIVER_MEMORY": "1g"}
    with log.open("wb") as out, subprocess.Popen(command, env=environment, stdout=out, stderr=out) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def test_up_starts_its_engine_again_follow_goes_on_and_nobody_tells_the_token(tmp_path: Path) -> None:
    home, told = tmp_path / "home", tmp_path / "follow.log"
    settings = Settings(home=home, _env_file=None)
    stack = Up(home, "broker", "engine")
    try:
        assert stack.says("engine    | ready at 127.0.0.1", 120), stack.log.read_text()
        tokens = [read_token(engine_folder(settings))]
        require_page(settings, stack, tokens[0])
        refused = merge(home, memory="700m")
        assert refused.returncode == 1
        assert "other packages, jars or settings" in refused.stderr
        assert "Start lakehouse up again" in refused.stderr
        require_quiet_merges(settings, 3)
        with following(home, told) as follow:
            for number in (1, 2):
                publish(settings, temperatures, RECORDS)
                assert wait_until(partial(has_merged, settings, 3 + number), 120), told.read_text()
                kill_engine(settings, number, stack.says)
            assert follow.poll() is None
        assert traces_of_java(settings) == []
        tokens.append(read_token(engine_folder(settings)))
        assert tokens[0] != tokens[1]
        texts = [file.read_text(errors="replace") for file in (stack.log, told, *home.glob("logs/lakehouse/*"))]
        texts += [(home / "engine" / "log").read_text(errors="replace"), *ps("-axwwo", "args=")]
        assert not [token for token in tokens for text in texts if token in text]
        assert "Traceback" not in told.read_text()
    finally:
        _, left = stack.stop()
    assert left == {}


def merge(home: Path, memory: str = "1g") -> subprocess.CompletedProcess[str]:
    """Merge over the engine of this home, as a person does."""
    return subprocess.run(
        [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "merge"],
        env={**os.environ, "LAKEHOUSE_HOME": str(home), "LAKEHOUSE_SPARK_DRIVER_MEMORY": memory},
        capture_output=True,
        text=True,
        check=False,
    )


def require_quiet_merges(settings: Settings, many: int) -> None:
    """Merges of the command line over an engine, each by a session of its own, leave no trace in its log."""
    for number in range(1, many + 1):
        publish(settings, temperatures, RECORDS)
        merged = merge(settings.home)
        assert (merged.returncode, has_merged(settings, number)) == (0, True), merged.stderr
        assert "Attaching to the engine" in merged.stderr
    assert traces_of_java(settings) == []


def traces_of_java(settings: Settings) -> list[str]:
    """What the log of the engine holds of stack traces, and of sessions that it no longer knows."""
    log = (engine_folder(settings) / "log").read_text(errors="replace")
    return [line for line in log.splitlines() if line.startswith("\tat ") or "INVALID_HANDLE" in line]


def require_page(settings: Settings, stack: Up, token: str) -> None:
    """Spark's page answers where ``up`` says, on loopback alone, and tells no secret."""
    address = read_address(engine_folder(settings))
    assert address and address.ui.startswith("http://127.0.0.1:")
    assert f"Spark UI {address.ui}" in stack.log.read_text()
    environment = page(f"{address.ui}/environment/")
    assert "spark.ui.retainedJobs" in environment
    assert token not in environment
    assert exposed(started_by(stack.process.pid)) == {}


def has_merged(settings: Settings, batches: int) -> bool:
    return read_ledger(settings.table_uri("temperatures"), "temperatures").totals.batches >= batches


def kill_engine(settings: Settings, number: int, says: Callable[[str, float], bool]) -> None:
    if number == 1:
        address = read_address(engine_folder(settings))
        assert address
        os.kill(address.pid, signal.SIGKILL)
        assert says("number 1 within an hour; restarting", 30)
