"""The engine: a command that attaches to it, a command that starts its own Spark, and a run of the sensor."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.batches import append, copy_merged_table
from benchmarks.turns import Measurement
from benchmarks.world import World
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.ledger import read_ledger
from lakehouse.local.embedded import draw_port
from lakehouse.local.servers import running_broker
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.spark.engine import engine_folder, read_address
from lakehouse.spark.sessions import build_session, stop_session
from lakehouse_tests.helpers.tables.tables import redeclare

RECORDS, APPENDED_RECORDS = 5, 5_000
_LAKEHOUSE = [sys.executable, "-c", "from lakehouse.cli.main import main; main()"]
_LIMIT_SECONDS = 300.0
_IDLE_SECONDS = 60.0


@dataclass
class Homes:
    """Homes that share one broker: with an engine, without one, with the whole stack, and one for appends."""

    warm: Settings
    cold: Settings
    stack: Settings
    floor: World
    sender: World

    def round(self, measurements: dict[str, Measurement]) -> None:
        """Give each contender one turn, with as many records."""
        self.floor.publish(APPENDED_RECORDS)
        with measurements.setdefault("append 5,000", Measurement()).turn():
            append(self.floor)
        self.floor.merge()
        self.sender.publish(RECORDS)
        with measurements.setdefault("a Spark of its own", Measurement()).turn():
            _run_merge(self.cold)
        with measurements.setdefault("attached", Measurement()).turn():
            _run_merge(self.warm)

    def merge_by_sensor(self, measurement: Measurement) -> None:
        """Publish records and wait until a run of the sensor has merged them."""
        merged_before = _count_merged(self.stack)
        self.sender.publish(RECORDS)
        with measurement.turn():
            _wait_until(lambda: _count_merged(self.stack) > merged_before)


def run(turns: int) -> dict[str, dict[str, Measurement]]:
    """Measure the append and both commands in turns, and the time from publishing until the sensor has merged."""
    with _prepared_homes() as homes:
        measurements: dict[str, Measurement] = {}
        with _running_stack(homes.warm, "engine"):
            for _ in range(2):
                homes.round({})
            for _ in range(turns):
                homes.round(measurements)
        with _running_stack(homes.stack):
            sensor_runs, idle_minute = Measurement(), Measurement()
            for _ in range(2):
                homes.merge_by_sensor(Measurement())
            for _ in range(turns):
                _wait_for_idle()
                homes.merge_by_sensor(sensor_runs)
            _wait_for_idle()
            with idle_minute.turn():
                time.sleep(_IDLE_SECONDS)
        return {
            f"{RECORDS} records": {
                **measurements,
                "published to merged by the sensor": sensor_runs,
                "an idle minute": idle_minute,
            }
        }


def _wait_for_idle() -> None:
    """Wait until the previous run has ended, for a time that is not in step with the ticks of the sensor."""
    time.sleep(8 + time.time() % 5)


def _count_merged(settings: Settings) -> int:
    ledger = read_ledger(settings.table_uri(temperatures.name), temperatures.name)
    return ledger.totals.read


def _run_merge(settings: Settings) -> None:
    environment = {**os.environ, **_environment_of(settings)}
    subprocess.run([*_LAKEHOUSE, "merge", "temperatures"], env=environment, check=True, capture_output=True)


def _environment_of(settings: Settings) -> dict[str, str]:
    return {
        "LAKEHOUSE_HOME": str(settings.home),
        "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers(settings),
        "LAKEHOUSE_DECLARATIONS": "lakehouse.examples.tables.temperatures",  # the ratings need a registry
        "LAKEHOUSE_REVIEWED": "true",  # the sensor makes the first merge
    }


@contextmanager
def _running_stack(settings: Settings, *services: str) -> Iterator[None]:
    command = [*_LAKEHOUSE, "up", *services, "--port", str(draw_port())]
    environment = {**os.environ, **_environment_of(settings)}
    with (settings.home_folder / "up.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait_until(lambda: read_address(engine_folder(settings)))
        yield
    finally:
        process.terminate()
        process.wait(60)


def _wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + _LIMIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)


@contextmanager
def _prepared_homes() -> Iterator[Homes]:
    with tempfile.TemporaryDirectory() as folder:
        root = Settings(home=Path(folder) / "floor")
        with running_broker(root):
            address = bootstrap_servers(root)
            warm, cold, stack = (
                Settings(home=Path(folder) / name, kafka_bootstrap_servers=address)
                for name in ("warm", "cold", "stack")
            )
            for home in (warm, cold, stack):
                home.home_folder.mkdir(parents=True)
            spark = build_session(root)
            try:
                floor = World(root, spark, table=redeclare(temperatures, topic="appended"))
                floor.fill(APPENDED_RECORDS)
                copy_merged_table(floor)
                yield Homes(warm, cold, stack, floor, World(warm, spark))
            finally:
                stop_session(spark)
