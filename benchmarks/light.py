"""Light operations: how long commands take that only read, and what an idle stack costs."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import dagster as dg

from benchmarks.turns import Measurement, processes_below, take_turns
from benchmarks.world import World
from lakehouse.definitions import defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.local.embedded import draw_port
from lakehouse.local.servers import running_broker
from lakehouse.settings import Settings
from lakehouse.spark.sessions import build_session, stop_session

_MAIN = "from lakehouse.cli.main import main; main()"
_MINUTE_SECONDS = 60.0
_COMMAND_PARTS = {
    "guards": "/bin/sh",
    "registry": "apicurio",
    "broker": "kafka.Kafka",
    "engine": "spark",
    "webserver": "dagster_webserver",
    "daemon": "dagster._daemon",
    "code server": "dagster api grpc",
    "up": " up ",
}


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


def idle_stack() -> list[dict[str, object]]:
    """Measure memory and CPU of the processes of ``lakehouse up`` in a minute without records.

    Return one row per kind of process: their number, MB of memory (shared pages are divided among the processes that
    share them) and CPU seconds, at the end of the minute. The last row sums all, including processes that ended.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LAKEHOUSE_HOME": folder}
        command = [sys.executable, "-c", _MAIN, "up", "--port", str(draw_port())]
        stack = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            time.sleep(_MINUTE_SECONDS)
            processes_before = processes_below(stack.pid)
            time.sleep(_MINUTE_SECONDS)
            processes_after = processes_below(stack.pid)
            kinds = {pid: _kind(pid) for pid in processes_after}
            memory = {pid: _memory(pid) for pid in processes_after}
        finally:
            stack.terminate()
            stack.wait(_MINUTE_SECONDS)
    cpu = {
        pid: process.cpu - (processes_before[pid].cpu if pid in processes_before else 0)
        for pid, process in processes_after.items()
    }
    rows = [
        _row(kind, [pid for pid in processes_after if kinds[pid] == kind], memory, cpu)
        for kind in sorted({*kinds.values()})
    ]
    cpu_sums = [
        sum(process.cpu + process.cpu_of_ended for process in processes.values())
        for processes in (processes_before, processes_after)
    ]
    return [
        *rows,
        _row("all", list(processes_after), memory, cpu) | {"CPU seconds": round(cpu_sums[1] - cpu_sums[0], 2)},
    ]


def _row(kind: str, pids: list[int], memory: dict[int, float], cpu: dict[int, float]) -> dict[str, object]:
    megabytes, seconds = (sum(values[pid] for pid in pids) for values in (memory, cpu))
    return {"": kind, "processes": len(pids), "MB": round(megabytes), "CPU seconds": round(seconds, 2)}


def _kind(pid: int) -> str:
    command = _read_proc(pid, "cmdline").replace("\0", " ")
    return next((kind for kind, part in _COMMAND_PARTS.items() if part in command), "other")


def _memory(pid: int) -> float:
    kilobytes = re.search(r"^Pss:\s+(\d+) kB", _read_proc(pid, "smaps_rollup"), re.MULTILINE)
    return int(kilobytes[1]) / 1000 if kilobytes else 0.0


def _read_proc(pid: int, name: str) -> str:
    """Read a file of ``/proc`` about a process; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""
