"""``lakehouse up`` as a process: it starts, answers, stops with all it started, and goes on with the same data."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from lakehouse.discovery import declared_tables
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import look, publish
from lakehouse.kafka.registry_client import registry
from lakehouse.ledger.ledger import read_ledger
from lakehouse.local.ports import draw_port
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.sockets import exposed, listening
from lakehouse_tests.helpers.places import DATA, ROOT
from lakehouse_tests.helpers.processes import started_by, still_running
from lakehouse_tests.helpers.waiting import wait_until

RECORDS = (DATA / "stream.jsonl").read_bytes().splitlines()
DECLARED = """
from lakehouse import Avro, Column, StreamTable

columns = [Column("id", "BIGINT", "Number.", required=True)]
orders = StreamTable("orders", "orders", "Orders.", columns, ["id"], format=Avro(), partitions=1)
"""


def spark_of(up: "Up") -> list[int]:
    """The Java processes that PySpark started."""
    return [pid for pid, args in started_by(up.process.pid).items() if "org.apache.spark.deploy.SparkSubmit" in args]


def registry_of(up: "Up") -> list[int]:
    """The Java processes that are a schema registry."""
    running = started_by(up.process.pid).items()
    return [pid for pid, args in running if args.split()[0].endswith("java") and "apicurio" in args]


class Up:
    """One ``lakehouse up`` of a home, of the tables that are declared in a folder, else of those of all tests.

    ``outside`` is a folder without a project, in which no table is declared.
    """

    def __init__(self, home: Path, *services: str, declared: Path | None = None, outside: Path | None = None) -> None:
        self.port = draw_port()
        self.log = home / "up.log"
        home.mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
        environment |= {"LAKEHOUSE_DECLARATIONS": str(declared)} if declared else {}
        environment |= {"LAKEHOUSE_DECLARATIONS": ""} if outside else {}
        command = [sys.executable, "-c", "from lakehouse.cli.main import main; main()"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "up", *services, "--port", str(self.port)],
                cwd=outside or ROOT,
                env={**environment, "LAKEHOUSE_HOME": str(home), "LAKEHOUSE_SPARK_DRIVER_MEMORY": "1g"},
                stdout=log,
                stderr=log,
            )

    def says(self, text: str, limit: float = 90.0) -> bool:
        return wait_until(lambda: text in self.log.read_text() or self.process.poll() is not None, limit) and (
            text in self.log.read_text()
        )

    def stop(self, number: signal.Signals = signal.SIGINT) -> tuple[float, dict[int, str]]:
        """Ask it to stop; how many seconds that took and which of its processes are left."""
        processes = started_by(self.process.pid)
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(timeout=30)
        took = time.monotonic() - began
        return took, still_running(processes)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def up(home: Path) -> Iterator[Callable[..., Up]]:
    """Start ``lakehouse up`` in the home; whatever is left afterwards is killed."""
    made: list[Up] = []

    def start(*services: str, declared: Path | None = None) -> Up:
        made.append(Up(home, *services, declared=declared))
        return made[-1]

    yield start
    for each in made:
        if each.process.poll() is None:
            each.process.terminate()
            each.process.wait(timeout=30)


def test_the_broker_runs_without_a_declaration_and_dagster_does_not(tmp_path: Path) -> None:
    up = Up(tmp_path / "home", "broker", outside=tmp_path)
    try:
        assert up.says("Ctrl-C stops everything"), up.log.read_text()
    finally:
        up.stop()
    assert up.process.returncode == 0
    dagster = Up(tmp_path / "home", "daemon", outside=tmp_path)
    assert dagster.process.wait(60) == 1
    assert "No lakehouse project here" in dagster.log.read_text()


def test_the_whole_stack_answers_and_ctrl_c_leaves_nothing_even_during_a_run(up: Callable[..., Up], home: Path) -> None:
    settings = Settings(home=home, spark_master="local[2]", _env_file=None)
    first = up()
    assert first.says(f"Dagster is at http://127.0.0.1:{first.port}"), first.log.read_text()
    with urlopen(f"http://127.0.0.1:{first.port}/server_info", timeout=5) as answer:
        assert b"dagster_webserver_version" in answer.read()
    assert registry_of(first) == [], "no declared table needs one"
    assert publish(settings, temperatures, RECORDS) == 23

    assert first.says("Launched 1 runs", limit=120), first.log.read_text()
    assert wait_until(lambda: len(listening(spark_of(first))) > 3, 60), "the driver, its blocks, gateway and server"
    uri = settings.table_uri("temperatures")
    assert wait_until(Path(uri).exists, 120), "the run has begun"
    stack = started_by(first.process.pid)
    assert len(listening(stack)) > 5, "the broker, its controller and the webserver too"
    assert exposed(stack) == {}
    took, left = first.stop()
    assert took < 10
    assert left == {}
    assert first.process.returncode == 0

    second = up()
    assert second.says("Dagster is at")
    assert sum(look(settings, "temperatures").end.values()) == 23
    assert wait_until(lambda: read_ledger(uri, "temperatures").totals.read == 23, 150), second.log.read_text()
    took, left = second.stop(signal.SIGTERM)
    assert took < 10
    assert left == {}


def test_a_registry_is_run_where_a_declared_table_needs_it_and_ctrl_c_ends_it(
    up: Callable[..., Up], home: Path, tmp_path: Path
) -> None:
    settings = Settings(home=home, _env_file=None)
    folder = tmp_path / "lake_of_avro"
    folder.mkdir()
    (folder / "orders.py").write_text(DECLARED)
    (orders,) = declared_tables(Settings(declarations=str(folder), _env_file=None))
    stack = up(declared=folder)
    assert stack.says("Dagster is at"), stack.log.read_text()
    assert len(registry_of(stack)) == 1
    assert publish(settings, orders, [b'{"id": 1}', b'{"id": 2}']) == 2
    with registry(settings) as talk:
        newest = talk.newest("orders-value")
        assert newest is not None
        schema = talk.schema(newest)
    assert schema is not None
    assert [field["name"] for field in json.loads(schema.text)["fields"]] == ["id"]
    assert exposed(started_by(stack.process.pid)) == {}
    took, left = stack.stop()
    assert took < 10
    assert left == {}
    assert stack.process.returncode == 0


def test_a_second_up_of_a_home_says_so_in_one_sentence(up: Callable[..., Up], home: Path) -> None:
    first = up("broker")
    assert first.says("Up: broker"), first.log.read_text()
    said = subprocess.run(
        [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "up"],
        env={**os.environ, "LAKEHOUSE_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert said.returncode == 1
    assert said.stderr.startswith("The broker of this home is already running")
    assert len(said.stderr.splitlines()) == 1


def test_a_service_that_ends_by_itself_ends_all_with_its_name(up: Callable[..., Up]) -> None:
    stack = up("broker")
    assert stack.says("Up: broker"), stack.log.read_text()
    processes = started_by(stack.process.pid)
    broker = next(pid for pid, args in processes.items() if args.split()[0].endswith("java"))
    os.kill(broker, signal.SIGKILL)
    assert stack.process.wait(timeout=20) == 1
    assert "The broker has ended with code -9" in stack.log.read_text()
    assert still_running(processes) == {}


def test_nothing_outlives_an_up_that_is_killed(up: Callable[..., Up]) -> None:
    stack = up("broker", "webserver")
    assert stack.says("Dagster is at"), stack.log.read_text()
    processes = started_by(stack.process.pid)
    assert len(processes) >= 3
    stack.process.kill()
    stack.process.wait()
    assert wait_until(lambda: still_running(processes) == {}, 25), still_running(processes)
