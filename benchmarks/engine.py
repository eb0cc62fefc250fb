"""The engine: a command that attaches to it beside one that starts a Spark of its own, and a run of the sensor."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.batches import append, make_twins
from benchmarks.turns import Measured
from benchmarks.world import World
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.ledger import read_ledger
from lakehouse.local.broker import running_broker
from lakehouse.local.ports import draw_port
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse.spark.engine import engine_folder, read_address
from lakehouse.spark.sessions import build_session, stop_session

RECORDS, APPENDED = 5, 5_000
_LAKEHOUSE = [sys.executable, "-c", "from lakehouse.cli.main import main; main()"]
_LIMIT = 300.0
_IDLE = 60.0


@dataclass
class Homes:
    """Homes over one broker: with an engine, without one, with the whole stack, and one to append in."""

    warm: Settings
    cold: Settings
    stack: Settings
    floor: World
    sender: World

    def round(self, measured: dict[str, Measured]) -> None:
        """Let each have its turn with as many records."""
        self.floor.publish(APPENDED)
        with measured.setdefault("append 5,000", Measured()).turn():
            append(self.floor)
        self.floor.merge()
        self.sender.publish(RECORDS)
        with measured.setdefault("a Spark of its own", Measured()).turn():
            _merge(self.cold)
        with measured.setdefault("attached", Measured()).turn():
            _merge(self.warm)

    def by_the_sensor(self, measured: Measured) -> None:
        """Publish, and wait until a run of the sensor has merged it, and has ended."""
        merged = _merged(self.stack)
        self.sender.publish(RECORDS)
        with measured.turn():
            _wait(lambda: _merged(self.stack) > merged)


def run(turns: int) -> dict[str, dict[str, Measured]]:
    """Measure in turns: the append, a merge by either command, and from published to merged by the sensor."""
    with _homes() as homes:
        measured: dict[str, Measured] = {}
        with _up(homes.warm, "engine"):
            for _ in range(2):
                homes.round({})
            for _ in range(turns):
                homes.round(measured)
        with _up(homes.stack):
            sensor, idle = Measured(), Measured()
            for _ in range(2):
                homes.by_the_sensor(Measured())
            for _ in range(turns):
                _rest()
                homes.by_the_sensor(sensor)
            _rest()
            with idle.turn():
                time.sleep(_IDLE)
        return {f"{RECORDS} records": {**measured, "published to merged by the sensor": sensor, "an idle minute": idle}}


def _rest() -> None:
    """Let the run before end, and fall out of step with the sensor's ticks."""
    time.sleep(8 + time.time() % 5)


def _merged(settings: Settings) -> int:
    ledger = read_ledger(settings.table_uri(temperatures.name), temperatures.name)
    return ledger.totals.read


def _merge(settings: Settings) -> None:
    environment = {**os.environ, **_variables(settings)}
    subprocess.run([*_LAKEHOUSE, "merge", "temperatures"], env=environment, check=True, capture_output=True)


def _variables(settings: Settings) -> dict[str, str]:
    return {
        "LAKEHOUSE_HOME": str(settings.home),
        "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers(settings),
        "LAKEHOUSE_DECLARATIONS": "lakehouse.examples.tables.temperatures",  # the ratings want a registry
    }


@contextmanager
def _up(settings: Settings, *services: str) -> Iterator[None]:
    command = [*_LAKEHOUSE, "up", *services, "--port", str(draw_port())]
    environment = {**os.environ, **_variables(settings)}
    with (settings.home_folder / "up.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait(lambda: read_address(engine_folder(settings)))
        yield
    finally:
        process.terminate()
        process.wait(60)


def _wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + _LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)


@contextmanager
def _homes() -> Iterator[Homes]:
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
                floor = World(root, spark, table=replace(temperatures, topic="appended"))
                floor.fill(APPENDED)
                make_twins(floor)
                yield Homes(warm, cold, stack, floor, World(warm, spark))
            finally:
                stop_session(spark)
