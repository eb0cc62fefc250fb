"""``lakehouse up`` as a process: it starts, answers, stops its child processes, and continues with the same data."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from lakehouse.discovery import declared_tables
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import publish, read_topic
from lakehouse.kafka.registry_client import registry
from lakehouse.ledger.ledger import read_ledger
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.sockets import exposed_ports, listening
from lakehouse_tests.helpers.places import DATA
from lakehouse_tests.helpers.processes import started_by, still_running
from lakehouse_tests.helpers.up import Up
from lakehouse_tests.helpers.waiting import wait_until

RECORDS = (DATA / "stream.jsonl").read_bytes().splitlines()
ORDERS_MODULE = """
from lakehouse import Avro, Column, StreamTable, Topic

columns = [Column("id", "BIGINT", "Number.", required=True)]
topic = Topic("orders", partitions=1)
orders = StreamTable("orders", source=topic, doc="Orders.", columns=columns, key=["id"], format=Avro())
"""


def find_spark_pids(up: "Up") -> list[int]:
    """The Java processes that PySpark started."""
    return [pid for pid, args in started_by(up.process.pid).items() if "org.apache.spark.deploy.SparkSubmit" in args]


def find_registry_pids(up: "Up") -> list[int]:
    """The Java processes of a schema registry."""
    processes = started_by(up.process.pid).items()
    return [pid for pid, args in processes if args.split()[0].endswith("java") and "apicurio" in args]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def up(home: Path) -> Iterator[Callable[..., Up]]:
    """Start ``lakehouse up`` in the home; afterwards every process that still runs is stopped."""
    stacks: list[Up] = []

    def start(*services: str, declarations: Path | None = None) -> Up:
        stacks.append(Up(home, *services, declarations=declarations))
        return stacks[-1]

    yield start
    for stack in stacks:
        if stack.process.poll() is None:
            stack.process.terminate()
            stack.process.wait(timeout=30)


def test_the_broker_runs_without_a_declaration_and_dagster_does_not(tmp_path: Path) -> None:
    up = Up(tmp_path / "home", "broker", outside=tmp_path)
    try:
        assert up.wait_for_log("Ctrl-C stops everything"), up.log.read_text()
    finally:
        up.stop()
    assert up.process.returncode == 0
    dagster = Up(tmp_path / "home", "daemon", outside=tmp_path)
    assert dagster.process.wait(60) == 1
    assert "No lakehouse project here" in dagster.log.read_text()


def test_the_whole_stack_answers_and_ctrl_c_leaves_no_process_even_during_a_run(
    up: Callable[..., Up], home: Path
) -> None:
    settings = Settings(home=home, spark_master="local[2]", _env_file=None)
    first_stack = up()
    assert first_stack.wait_for_log(f"Dagster is at http://127.0.0.1:{first_stack.port}"), first_stack.log.read_text()
    with urlopen(f"http://127.0.0.1:{first_stack.port}/server_info", timeout=5) as response:
        assert b"dagster_webserver_version" in response.read()
    assert find_registry_pids(first_stack) == [], "no declared table needs one"
    assert publish(settings, temperatures, RECORDS) == 23

    assert first_stack.wait_for_log("Launched 1 runs", limit=120), first_stack.log.read_text()
    assert wait_until(lambda: len(listening(find_spark_pids(first_stack))) > 3, 60), (
        "the driver, its blocks, gateway and server"
    )
    uri = settings.table_uri("temperatures")
    assert wait_until(Path(uri).exists, 120), "the run has not started"
    stack = started_by(first_stack.process.pid)
    assert len(listening(stack)) > 5, "the broker, its controller and the webserver too"
    assert exposed_ports(stack) == {}
    seconds, remaining_processes = first_stack.stop()
    assert seconds < 10
    assert remaining_processes == {}
    assert first_stack.process.returncode == 0

    second_stack = up()
    assert second_stack.wait_for_log("Dagster is at")
    assert sum(read_topic(settings, "temperatures").end.values()) == 23
    assert wait_until(lambda: read_ledger(uri, "temperatures").totals.read == 23, 150), second_stack.log.read_text()
    seconds, remaining_processes = second_stack.stop(signal.SIGTERM)
    assert seconds < 10
    assert remaining_processes == {}


def test_a_registry_runs_if_a_declared_table_needs_it_and_ends_on_ctrl_c(
    up: Callable[..., Up], home: Path, tmp_path: Path
) -> None:
    settings = Settings(home=home, _env_file=None)
    folder = tmp_path / "lake_of_avro"
    folder.mkdir()
    (folder / "orders.py").write_text(ORDERS_MODULE)
    (orders,) = declared_tables(Settings(declarations=str(folder), _env_file=None))
    stack = up(declarations=folder)
    assert stack.wait_for_log("Dagster is at"), stack.log.read_text()
    assert len(find_registry_pids(stack)) == 1
    assert publish(settings, orders, [b'{"id": 1}', b'{"id": 2}']) == 2
    with registry(settings) as client:
        newest_id = client.newest_id("orders-value")
        assert newest_id is not None
        schema = client.schema(newest_id)
    assert schema is not None
    assert [field["name"] for field in json.loads(schema.text)["fields"]] == ["id"]
    assert exposed_ports(started_by(stack.process.pid)) == {}
    seconds, remaining_processes = stack.stop()
    assert seconds < 10
    assert remaining_processes == {}
    assert stack.process.returncode == 0


def test_a_second_up_of_a_home_is_an_error_of_one_sentence(up: Callable[..., Up], home: Path) -> None:
    first_stack = up("broker")
    assert first_stack.wait_for_log("Up: broker"), first_stack.log.read_text()
    result = subprocess.run(
        [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "up"],
        env={**os.environ, "LAKEHOUSE_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith("The broker of this home is already running")
    assert len(result.stderr.splitlines()) == 1


def test_a_service_that_ends_by_itself_is_named_and_ends_all_others(up: Callable[..., Up]) -> None:
    stack = up("broker")
    assert stack.wait_for_log("Up: broker"), stack.log.read_text()
    processes = started_by(stack.process.pid)
    broker_pid = next(pid for pid, args in processes.items() if args.split()[0].endswith("java"))
    os.kill(broker_pid, signal.SIGKILL)
    assert stack.process.wait(timeout=20) == 1
    assert "The broker has ended with code -9" in stack.log.read_text()
    assert still_running(processes) == {}


def test_nothing_outlives_an_up_that_is_killed(up: Callable[..., Up]) -> None:
    stack = up("broker", "webserver")
    assert stack.wait_for_log("Dagster is at"), stack.log.read_text()
    processes = started_by(stack.process.pid)
    assert len(processes) >= 3
    stack.process.kill()
    stack.process.wait()
    assert wait_until(lambda: still_running(processes) == {}, 25), still_running(processes)
