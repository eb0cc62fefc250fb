"""Light operations: how long commands take that only read."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import dagster as dg

from benchmarks.turns import Measurement, take_turns
from benchmarks.world import World
from lakehouse.definitions import defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.local.servers import running_broker
from lakehouse.settings import Settings
from lakehouse.spark.sessions import build_session, stop_session

_MAIN = "from lakehouse.cli.main import main; main()"


def run(turns: int) -> dict[str, Measurement]:
    """Measure an empty Python, commands that only read, the definitions and a tick of the sensor, in turns."""
    with (
        _merged_home() as settings,
        tempfile.TemporaryDirectory() as folder,
        dg.DagsterInstance.local_temp(folder) as dagster,
    ):
        contenders: dict[str, Callable[[], object]] = {
            "python": partial(_run_python, settings, "pass"),
            "lakehouse --help": partial(run_command, settings, "--help"),
            "lakehouse merge --help": partial(run_command, settings, "merge", "--help"),
            "lakehouse status": partial(run_command, settings, "status"),
            "Dagster's definitions": partial(_run_python, settings, "import lakehouse.definitions"),
            "a tick of the sensor": sensor_tick(settings, dagster),
        }
        take_turns(2, contenders)
        return take_turns(turns, contenders)


@contextmanager
def _merged_home() -> Iterator[Settings]:
    """Yield a home with a broker and a table that has merged all of its topic."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder), spark_master="local[2]")
        with running_broker(settings):
            spark = build_session(settings)
            try:
                world = World(settings, spark)
                world.fill(1_000)
                world.publish(100)
                world.merge()
            finally:
                stop_session(spark)
            yield settings


def run_command(settings: Settings, *arguments: str) -> None:
    """Run a command of lakehouse from start to end."""
    _run_python(settings, _MAIN, *arguments)


def _run_python(settings: Settings, code: str, *arguments: str) -> None:
    environment = {**os.environ, "LAKEHOUSE_HOME": str(settings.home)}
    if settings.kafka_bootstrap_servers:
        environment["LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS"] = settings.kafka_bootstrap_servers
    subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, check=True)


def sensor_tick(settings: Settings, instance: dg.DagsterInstance) -> Callable[[], None]:
    """Return a function that evaluates the sensor as the daemon does, in a warm process."""
    sensor = defs.resolve_sensor_def("temperatures_sensor")
    resources = {"lakehouse": LakehouseResource.with_settings(settings)}

    def tick() -> None:
        with dg.build_sensor_context(instance, resources=resources) as context:
            sensor.evaluate_tick(context)

    return tick
