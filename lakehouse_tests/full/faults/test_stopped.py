"""A process is stopped while Spark writes, in a Java of its own: nothing is lost, and no row stands twice."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lakehouse.kafka import create_topic
from lakehouse.local.dagster_home import prepare_dagster_home
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse.spark.engine import engine_folder, read_address
from lakehouse_tests.helpers.attacks.stoppable import GATE, NAMES, Gate, compiled, tables
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.engines import running_engine
from lakehouse_tests.helpers.processes import started_by, still_running
from lakehouse_tests.helpers.tables.rows import rows_of
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = [pytest.mark.invariant(1, 11), pytest.mark.timeout(900)]

STOPPED = "What is stopped while it writes doubles nothing"
CLI = [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "merge"]
RUN = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "lakehouse.definitions", "--select"]
LIMIT = 60.0  # seconds for what ends within ten, on a machine that is busy
TURNS = 10


@dataclass
class World:
    """Two tables, and processes that write them through a gate."""

    streams: dict[str, Stream]
    gate: Gate
    environment: dict[str, str]
    log: Path
    home: Path
    sent: dict[str, int] = field(default_factory=lambda: {"log": 0, "keyed": 0})

    def send(self, kind: str) -> None:
        """Send three records of new hours; what processes said before is forgotten."""
        self.log.write_bytes(b"")
        begun = self.sent[kind]
        self.streams[kind].send(*(record(time=hour(number)) for number in range(begun, begun + 3)))
        self.sent[kind] += 3

    @contextmanager
    def process(self, command: list[str], kind: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process that merges the table; all that it started has ended afterwards."""
        name = self.streams[kind].table.name
        chosen = f"{name},{name}_rejected" if command is RUN else name
        with (
            self.log.open("ab") as out,
            subprocess.Popen([*command, chosen], env=self.environment, stdout=out, stderr=out) as process,
        ):
            try:
                yield process
            finally:
                self.gate.open()
                family = started_by(process.pid)
                process.kill()
                assert wait_until(lambda: not still_running(family), LIMIT)

    def require_whole(self, kind: str) -> None:
        """A plain rerun merges what is left: all that was sent stands once, and the history accounts for it."""
        stream = self.streams[kind]
        stream.merge()
        hours = [row["observed_at"] for row in rows_of(stream.settings, stream.table.name)]
        assert len(hours) == len(set(hours)) == self.sent[kind]
        assert stream.ledger.totals.read == self.sent[kind]
        stream.assert_accounted()


@pytest.fixture(scope="module")
def world(spark: Any, broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "gate").mkdir()
    names = [f"{kind}_{uuid4().hex[:12]}" for kind in ("log", "keyed")]
    streams = dict(zip(("log", "keyed"), (Stream(spark, broker, table) for table in tables(*names)), strict=True))
    for stream in streams.values():
        create_topic(broker, stream.table)
    own = Settings(home=folder / "home", _env_file=None)
    environment = {
        **os.environ,
        "LAKEHOUSE_HOME": str(folder / "home"),
        "LAKEHOUSE_TABLES": broker.tables_root,
        "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers(broker),
        "LAKEHOUSE_DECLARATIONS": "lakehouse_tests.helpers.attacks.stoppable",
        "LAKEHOUSE_SPARK_MASTER": "local[1]",
        "LAKEHOUSE_SPARK_DRIVER_MEMORY": "640m",
        "DAGSTER_HOME": str(prepare_dagster_home(own)),
        "SPARK_CONF_DIR": str(compiled(folder, broker)),
        GATE: str(folder / "gate"),
        NAMES: ",".join(names),
    }
    made = World(streams, Gate(folder / "gate"), environment, folder / "said", folder / "home")
    for kind in streams:
        made.send(kind)
        made.require_whole(kind)
    return made


def terminate(process: subprocess.Popen[bytes]) -> None:
    process.terminate()


def interrupt_twice(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)  # the second comes while the first is answered
    process.send_signal(signal.SIGINT)


WAYS: dict[str, tuple[list[str], Callable[[subprocess.Popen[bytes]], None]]] = {
    "SIGTERM": (CLI, terminate),
    "SIGINT twice": (CLI, interrupt_twice),
    "a cancelled run of Dagster": (RUN, terminate),
}


@pytest.mark.parametrize("turn", range(TURNS))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["log", "keyed"])
def test_what_is_stopped_while_its_commit_is_held_open_in_java_doubles_nothing(world, attack, kind, way, turn):
    """By turns: before the rows are written, as the log entry is; and Java goes on soon, or never by itself."""
    command, stop = WAYS[way]
    where, goes_on = ("list", "write")[turn % 2], turn // 2 % 2 == 0
    with attack(STOPPED, f"{kind} table, the commit held open in Java: {way}"):
        world.send(kind)
        world.gate.arm(world.streams[kind].table.name, where)
        with world.process(command, kind) as process:
            assert world.gate.reached(120), world.log.read_text()
            stop(process)
            if goes_on:
                time.sleep(1)
                world.gate.open()
            process.wait(LIMIT)
        world.require_whole(kind)


@pytest.mark.parametrize("turn", range(20))
def test_what_is_stopped_at_a_random_moment_doubles_nothing(world, attack, turn):
    drawn = random.Random(turn)
    kind, number = ("log", "keyed")[turn % 2], (signal.SIGINT, signal.SIGTERM)[turn // 2 % 2]
    with attack(STOPPED, f"{kind} table, at a random moment"):
        world.send(kind)
        world.gate.arm(world.streams[kind].table.name, "list")
        with world.process(CLI, kind) as process:
            assert world.gate.reached(120), world.log.read_text()
            world.gate.open()
            time.sleep(drawn.uniform(0, 4))
            process.send_signal(number)
            process.wait(LIMIT)
        world.require_whole(kind)


def test_a_java_that_outlives_its_killed_process_has_ended_before_the_table_is_written_again(world, attack):
    """It is frozen as its process is killed, as on a machine that is busy, and goes on when another one writes."""
    for kind in ("log", "keyed"):
        with attack(STOPPED, f"{kind} table, the commit held open in Java: SIGKILL of Python alone"):
            world.send(kind)
            world.gate.arm(world.streams[kind].table.name, "write")
            with world.process(CLI, kind) as process:
                assert world.gate.reached(120), world.log.read_text()
                java = javas(process.pid, None)
                for pid in java:
                    os.kill(pid, signal.SIGSTOP)
                process.kill()
                process.wait()
                version = world.streams[kind].ledger.version
                with world.process(CLI, kind) as other:
                    assert wait_until(lambda: "Waiting for the statement" in world.log.read_text(), 120), (
                        "it does not wait"
                    )
                    assert other.poll() is None
                    assert world.streams[kind].ledger.version == version
                    world.gate.open()
                    for pid in java:
                        os.kill(pid, signal.SIGCONT)
                    assert other.wait(LIMIT) == 0, world.log.read_text()
            world.require_whole(kind)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("place", ["a Java of its own", "a Java of its own, which plans", "an engine"])
def test_a_verb_whose_spark_answers_nothing_any_more_ends_all_the_same(world, attack, monkeypatch, place, number):
    """Its Java is frozen, as one whose heap is full, or only plans; without an end of its own the verb would wait."""
    settings = Settings(home=world.home, spark_master="local[1]", spark_driver_memory="640m", _env_file=None)
    for name in ("SPARK_CONF_DIR", GATE):  # an engine is started by the same settings as its clients
        monkeypatch.setenv(name, world.environment[name])
    served, plans = place == "an engine", place.endswith("plans")
    with attack(STOPPED, f"Spark answers nothing any more: {place}"):
        world.send("keyed")
        table = world.streams["keyed"].table.name
        with running_engine(settings) if served else nullcontext():
            world.gate.hold(table, "list") if plans else world.gate.arm(table, "write")
            with world.process(CLI, "keyed") as process:
                assert world.gate.reached(120), world.log.read_text()
                frozen = [] if plans else javas(process.pid, settings if served else None)
                for pid in frozen:
                    os.kill(pid, signal.SIGSTOP)
                process.send_signal(number)
                assert process.wait(LIMIT) == 130, world.log.read_text()
                for pid in frozen:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
        world.require_whole("keyed")
        assert not plans or "does not stop" not in world.log.read_text()


def javas(process: int, home: Settings | None) -> list[int]:
    """The Java of the engine of a home, else of a process."""
    if home is None:
        return [pid for pid, args in started_by(process).items() if "SparkSubmit" in args]
    address = read_address(engine_folder(home))
    assert address
    return [address.pid]
