"""A process is stopped while Spark writes in a JVM of its own: nothing is lost, and no row is written twice."""

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

from lakehouse.local.dagster_home import prepare_dagster_home
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.spark.engine import engine_folder, read_address
from lakehouse_tests.helpers.attacks.stoppable import GATE, NAMES, Gate, compiled, tables
from lakehouse_tests.helpers.brokers.streams import Stream, delete, hour, record
from lakehouse_tests.helpers.engines import running_engine
from lakehouse_tests.helpers.processes import started_by, still_running
from lakehouse_tests.helpers.tables.rows import hour_of, rows_of
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = pytest.mark.timeout(900)

STOPPED = "What is stopped while it writes doubles nothing"
CLI = [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "merge"]
RUN = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "lakehouse.definitions", "--select"]
LIMIT = 60.0  # seconds; ends within ten on an idle machine
TURNS = 10


@dataclass
class World:
    """Two tables, and a gate that holds the processes that write them."""

    streams: dict[str, Stream]
    gate: Gate
    environment: dict[str, str]
    log: Path
    home: Path
    sent_counts: dict[str, int] = field(default_factory=lambda: {"log": 0, "keyed": 0})

    def send(self, kind: str) -> None:
        """Send three records of new hours, and the delete of a stored one; clear the log of the processes."""
        self.log.write_bytes(b"")
        first_hour = self.sent_counts[kind]
        values = [record(time=hour(number)) for number in range(first_hour, first_hour + 3)]
        if kind == "keyed" and first_hour:
            values.append(delete(hour(first_hour - 3)))
        self.streams[kind].send(*values)
        self.sent_counts[kind] += 3

    @contextmanager
    def process(self, command: list[str], kind: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a process that merges the table; afterwards it and its child processes have ended."""
        name = self.streams[kind].table.name
        selection = f"{name},{name}_rejected" if command is RUN else name
        with (
            self.log.open("ab") as log_output,
            subprocess.Popen(
                [*command, selection], env=self.environment, stdout=log_output, stderr=log_output
            ) as process,
        ):
            try:
                yield process
            finally:
                self.gate.open()
                child_processes = started_by(process.pid)
                process.kill()
                assert wait_until(lambda: not still_running(child_processes), LIMIT)

    def require_whole(self, kind: str) -> None:
        """Merge the rest: every sent record is in the table once, or deleted, and the history accounts for it."""
        stream = self.streams[kind]
        stream.merge()
        hours = [hour_of(row) for row in rows_of(stream.settings, stream.table.name)]
        deleted_hours = {*map(hour, range(0, self.sent_counts[kind] - 3, 3))} if kind == "keyed" else set()
        assert sorted(hours) == sorted({*map(hour, range(self.sent_counts[kind]))} - deleted_hours)
        assert stream.ledger.totals.read == self.sent_counts[kind] + len(deleted_hours)
        stream.assert_accounted()


@pytest.fixture(scope="module")
def world(spark: Any, broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "gate").mkdir()
    names = [f"{kind}_{uuid4().hex[:12]}" for kind in ("log", "keyed")]
    streams = dict(zip(("log", "keyed"), (Stream.of(spark, broker, table) for table in tables(*names)), strict=True))
    home_settings = Settings(home=folder / "home", _env_file=None)
    environment = {
        **os.environ,
        "LAKEHOUSE_HOME": str(folder / "home"),
        "LAKEHOUSE_TABLES": broker.tables_root,
        "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers(broker),
        "LAKEHOUSE_DECLARATIONS": "lakehouse_tests.helpers.attacks.stoppable",
        "LAKEHOUSE_SPARK_MASTER": "local[1]",
        "LAKEHOUSE_SPARK_DRIVER_MEMORY": "640m",
        "DAGSTER_HOME": str(prepare_dagster_home(home_settings)),
        "SPARK_CONF_DIR": str(compiled(folder, broker)),
        GATE: str(folder / "gate"),
        NAMES: ",".join(names),
    }
    new_world = World(streams, Gate(folder / "gate"), environment, folder / "output.log", folder / "home")
    for kind in streams:
        new_world.send(kind)
        new_world.require_whole(kind)
    return new_world


def terminate(process: subprocess.Popen[bytes]) -> None:
    process.terminate()


def interrupt_twice(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)  # the second signal arrives while the process handles the first
    process.send_signal(signal.SIGINT)


WAYS: dict[str, tuple[list[str], Callable[[subprocess.Popen[bytes]], None]]] = {
    "SIGTERM": (CLI, terminate),
    "SIGINT twice": (CLI, interrupt_twice),
    "a cancelled run of Dagster": (RUN, terminate),
}


@pytest.mark.invariant("1.17", "11.6", "11.7")
@pytest.mark.parametrize("turn", range(TURNS))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["log", "keyed"])
def test_a_process_stopped_during_its_commit_writes_no_row_twice(world, attack, kind, way, turn):
    """The turns hold the commit before its rows or at its log entry, and open the gate early or never.

    Half of the turns of a table with deletes hold the commit of its deletes.
    """
    command, stop = WAYS[way]
    gate_point, opens_early = ("list", "write")[turn % 2], turn // 2 % 2 == 0
    table = world.streams[kind].table
    holds_deletes = kind == "keyed" and turn // 4 % 2 == 1
    label = "keyed table, the commit of deletes" if holds_deletes else f"{kind} table, the commit"
    with attack(STOPPED, f"{label} held open in Java: {way}"):
        world.send(kind)
        world.gate.arm(table.deletes_name if holds_deletes else table.name, gate_point)
        with world.process(command, kind) as process:
            assert world.gate.is_reached(120), world.log.read_text()
            stop(process)
            if opens_early:
                time.sleep(1)
                world.gate.open()
            process.wait(LIMIT)
        world.require_whole(kind)


@pytest.mark.invariant("1.17", "11.6")
@pytest.mark.parametrize("turn", range(20))
def test_a_process_stopped_at_a_random_moment_writes_no_row_twice(world, attack, turn):
    rng = random.Random(turn)
    kind, signal_number = ("log", "keyed")[turn % 2], (signal.SIGINT, signal.SIGTERM)[turn // 2 % 2]
    with attack(STOPPED, f"{kind} table, at a random moment"):
        world.send(kind)
        world.gate.arm(world.streams[kind].table.name, "list")
        with world.process(CLI, kind) as process:
            assert world.gate.is_reached(120), world.log.read_text()
            world.gate.open()
            time.sleep(rng.uniform(0, 4))
            process.send_signal(signal_number)
            process.wait(LIMIT)
        world.require_whole(kind)


@pytest.mark.invariant("11.5")
def test_the_next_writer_waits_for_a_jvm_that_outlives_its_killed_process(world, attack):
    """The JVM is frozen when its process is killed, as on a busy machine, and continues while another process waits."""
    for kind in ("log", "keyed"):
        with attack(STOPPED, f"{kind} table, the commit held open in Java: SIGKILL of Python alone"):
            world.send(kind)
            world.gate.arm(world.streams[kind].table.name, "write")
            with world.process(CLI, kind) as process:
                assert world.gate.is_reached(120), world.log.read_text()
                jvm_pids = find_jvms(process.pid, None)
                for pid in jvm_pids:
                    os.kill(pid, signal.SIGSTOP)
                process.kill()
                process.wait()
                version = world.streams[kind].ledger.version
                with world.process(CLI, kind) as next_process:
                    assert wait_until(lambda: "Waiting for the statement" in world.log.read_text(), 120), (
                        "the next process does not wait"
                    )
                    assert next_process.poll() is None
                    assert world.streams[kind].ledger.version == version
                    world.gate.open()
                    for pid in jvm_pids:
                        os.kill(pid, signal.SIGCONT)
                    assert next_process.wait(LIMIT) == 0, world.log.read_text()
            world.require_whole(kind)


@pytest.mark.invariant("11.6")
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("place", ["its own JVM", "its own JVM, which plans", "an engine"])
def test_a_command_ends_on_a_signal_even_if_spark_no_longer_answers(world, attack, monkeypatch, place, signal_number):
    """Its JVM is frozen, as with a full heap, or only plans; the command ends without an answer."""
    settings = Settings(home=world.home, spark_master="local[1]", spark_driver_memory="640m", _env_file=None)
    for name in ("SPARK_CONF_DIR", GATE):  # the engine has the same settings as its clients
        monkeypatch.setenv(name, world.environment[name])
    has_engine, only_plans = place == "an engine", place.endswith("plans")
    with attack(STOPPED, f"Spark no longer answers: {place}"):
        world.send("keyed")
        table = world.streams["keyed"].table.name
        with running_engine(settings) if has_engine else nullcontext():
            world.gate.hold(table, "list") if only_plans else world.gate.arm(table, "write")
            with world.process(CLI, "keyed") as process:
                assert world.gate.is_reached(120), world.log.read_text()
                frozen_pids = [] if only_plans else find_jvms(process.pid, settings if has_engine else None)
                for pid in frozen_pids:
                    os.kill(pid, signal.SIGSTOP)
                process.send_signal(signal_number)
                assert process.wait(LIMIT) == 130, world.log.read_text()
                for pid in frozen_pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
        world.require_whole("keyed")
        assert not only_plans or "does not stop" not in world.log.read_text()


def find_jvms(process_id: int, settings: Settings | None) -> list[int]:
    """The JVMs of the engine of these settings, else those that a process started."""
    if settings is None:
        return [pid for pid, args in started_by(process_id).items() if "SparkSubmit" in args]
    address = read_address(engine_folder(settings))
    assert address
    return [address.pid]
