"""Light things: what a person waits for who only looks, and what the stack costs that has nothing to do."""

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

from benchmarks.turns import Measured, processes_below, take_turns
from benchmarks.world import World
from lakehouse.definitions import defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.local.broker import running_broker
from lakehouse.local.ports import draw_port
from lakehouse.settings import Settings
from lakehouse.spark.sessions import build_session, stop_session

_COMMAND = "from lakehouse.cli.main import main; main()"
_MINUTE = 60.0
_NAMES = {
    "guards": "/bin/sh",
    "registry": "apicurio",
    "broker": "kafka.Kafka",
    "engine": "spark",
    "webserver": "dagster_webserver",
    "daemon": "dagster._daemon",
    "code server": "dagster api grpc",
    "up": " up ",
}


def run(turns: int) -> dict[str, Measured]:
    """Measure, in turns, Python that does nothing, commands that only look, the definitions, and a sensor's tick."""
    with _home() as settings, tempfile.TemporaryDirectory() as folder, dg.DagsterInstance.local_temp(folder) as dagster:
        contenders: dict[str, Callable[[], object]] = {
            "python": partial(_python, settings, "pass"),
            "lakehouse --help": partial(look, settings, "--help"),
            "lakehouse merge --help": partial(look, settings, "merge", "--help"),
            "lakehouse status": partial(look, settings, "status"),
            "Dagster's definitions": partial(_python, settings, "import lakehouse.definitions"),
            "a tick of the sensor": ticks(settings, dagster),
        }
        take_turns(2, contenders)
        return take_turns(turns, contenders)


@contextmanager
def _home() -> Iterator[Settings]:
    """A home with a broker and a merged table that has all of its topic."""
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


def look(settings: Settings, *arguments: str) -> None:
    """Run a command of ours from start to end."""
    _python(settings, _COMMAND, *arguments)


def _python(settings: Settings, code: str, *arguments: str) -> None:
    environment = {**os.environ, "LAKEHOUSE_HOME": str(settings.home)}
    if settings.kafka_bootstrap_servers:
        environment["LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS"] = settings.kafka_bootstrap_servers
    subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, check=True)


def ticks(settings: Settings, instance: dg.DagsterInstance) -> Callable[[], None]:
    """The sensor as the daemon evaluates it, in a process that is warm."""
    sensor = defs.resolve_sensor_def("temperatures_sensor")
    resources = {"lakehouse": LakehouseResource.with_settings(settings)}

    def tick() -> None:
        with dg.build_sensor_context(instance, resources=resources) as context:
            sensor.evaluate_tick(context)

    return tick


def idle_stack() -> list[dict[str, object]]:
    """What each process of ``lakehouse up`` holds and uses in a minute in which nothing is published.

    One row for each kind of process: how many they are, MB of memory (shared pages divided among those that share
    them) and CPU seconds, all at the end of that minute. The last row is of all, with those that ended in it.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LAKEHOUSE_HOME": folder}
        command = [sys.executable, "-c", _COMMAND, "up", "--port", str(draw_port())]
        up = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            time.sleep(_MINUTE)
            before = processes_below(up.pid)
            time.sleep(_MINUTE)
            after = processes_below(up.pid)
            kinds = {pid: _kind(pid) for pid in after}
            memory = {pid: _memory(pid) for pid in after}
        finally:
            up.terminate()
            up.wait(_MINUTE)
    cpu = {pid: process.cpu - (before[pid].cpu if pid in before else 0) for pid, process in after.items()}
    rows = [_row(kind, [pid for pid in after if kinds[pid] == kind], memory, cpu) for kind in sorted({*kinds.values()})]
    spent = [sum(process.cpu + process.cpu_of_ended for process in each.values()) for each in (before, after)]
    return [*rows, _row("all", list(after), memory, cpu) | {"CPU seconds": round(spent[1] - spent[0], 2)}]


def _row(kind: str, pids: list[int], memory: dict[int, float], cpu: dict[int, float]) -> dict[str, object]:
    megabytes, seconds = (sum(each[pid] for pid in pids) for each in (memory, cpu))
    return {"": kind, "processes": len(pids), "MB": round(megabytes), "CPU seconds": round(seconds, 2)}


def _kind(pid: int) -> str:
    command = _read_proc(pid, "cmdline").replace("\0", " ")
    return next((kind for kind, part in _NAMES.items() if part in command), "other")


def _memory(pid: int) -> float:
    kilobytes = re.search(r"^Pss:\s+(\d+) kB", _read_proc(pid, "smaps_rollup"), re.MULTILINE)
    return int(kilobytes[1]) / 1000 if kilobytes else 0.0


def _read_proc(pid: int, file_name: str) -> str:
    """Return a file of /proc/PID; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/{file_name}").read_text()
    except OSError:
        return ""
