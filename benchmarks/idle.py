"""An idle ``lakehouse up``: memory and CPU of its processes with one, five and fifty tables, by kind of process."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.turns import Process, processes_below
from lakehouse.local.embedded import draw_port

TABLES = (1, 5, 50)
_MAIN = "from lakehouse.cli.main import main; main()"
_MINUTE_SECONDS, _LIMIT_SECONDS = 60.0, 1_800.0
_COMMAND_PARTS = {
    "guards": "/bin/sh",
    "registry": "apicurio",
    "broker": "kafka.Kafka",
    "warm runs": "forkserver",
    "engine": "spark",
    "webserver": "dagster_webserver",
    "daemon": "defs.daemon",
    "code server": "dagster api grpc",
    "up": " up ",
}
_DECLARATIONS = """
from lakehouse.declaration import Column, Json, Measure, Rollup, StreamTable

columns = [Column("device", "STRING", required=True, doc="Its name."), Column("reading", "DOUBLE", doc="Its reading.")]
tables = [
    StreamTable(
        name=f"readings_{{number}}",
        topic=f"readings_{{number}}",
        doc="Readings of devices: the newest of each device.",
        format=Json(),
        columns=columns,
        key=["device"],
        rollups=[
            Rollup(
                name=f"all_{{number}}",
                by=["device"],
                doc="Rows by device.",
                measures={{"rows": Measure("count(*)", "BIGINT", "Number of rows.")}},
            )
        ],
    )
    for number in range({count})
]
"""


def run() -> list[dict[str, object]]:
    """One row for each number of tables and kind of process, at the end of an idle minute; all, with ended ones."""
    return [row for count in TABLES for row in _measure(count)]


def _measure(count: int) -> list[dict[str, object]]:
    """Start the stack, merge a record into each table, wait until all is quiet, and measure a minute.

    Memory is in MB; pages that processes share are divided among them.
    """
    with _merged_stack(count) as stack:
        time.sleep(2 * _MINUTE_SECONDS)
        processes_before = processes_below(stack.pid)
        time.sleep(_MINUTE_SECONDS)
        processes = processes_below(stack.pid)
        kinds = {pid: _kind(pid) for pid in processes}
        memory = {pid: _memory(pid) for pid in processes}
    cpu = {pid: process.cpu - _cpu(processes_before.get(pid)) for pid, process in processes.items()}
    rows = {
        kind: (
            [pid for pid in processes if kinds[pid] == kind],
            sum(cpu[pid] for pid in processes if kinds[pid] == kind),
        )
        for kind in sorted({*kinds.values()})
    }
    total = sum(map(_cpu_with_children, processes.values())) - sum(map(_cpu_with_children, processes_before.values()))
    rows["all"] = ([*processes], total)
    return [
        {
            "": f"{count} {'table' if count == 1 else 'tables'}: {kind}",
            "processes": len(pids),
            "MB": round(sum(memory[pid] for pid in pids)),
            "CPU seconds": round(seconds, 2),
        }
        for kind, (pids, seconds) in rows.items()
    ]


@contextmanager
def _merged_stack(count: int) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the process of ``up`` after its sensors have merged one record into each of ``count`` tables."""
    with tempfile.TemporaryDirectory() as folder:
        declarations = Path(folder) / "declared.py"
        declarations.write_text(_DECLARATIONS.format(count=count))
        environment = {
            **os.environ,
            "LAKEHOUSE_HOME": f"{folder}/home",
            "LAKEHOUSE_DECLARATIONS": str(declarations),
            "LAKEHOUSE_REVIEWED": "true",  # the sensors make the first merges
        }
        command = [sys.executable, "-c", _MAIN, "up", "--port", str(draw_port())]
        with (Path(folder) / "up.log").open("w") as log:
            stack = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            tables = Path(folder) / "home/tables"
            _wait_for(lambda: "readings_0" in _read(Path(folder) / "up.log"), stack)
            for number in range(count):
                publish = [sys.executable, "-c", _MAIN, "publish", f"readings_{number}", "-"]
                subprocess.run(publish, env=environment, input=b'{"device": "a", "reading": 1.0}\n', check=True)
            _wait_for(lambda: len([*tables.glob("all_*/*.parquet")]) >= count, stack)
            yield stack
        finally:
            stack.terminate()
            stack.wait(_MINUTE_SECONDS)


def _wait_for(condition: Callable[[], bool], stack: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _LIMIT_SECONDS
    while not condition():
        if stack.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(1)


def _cpu(process: Process | None) -> float:
    return process.cpu if process else 0.0


def _cpu_with_children(process: Process) -> float:
    return process.cpu + process.cpu_of_ended


def _kind(pid: int) -> str:
    command = _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ")
    return next((kind for kind, part in _COMMAND_PARTS.items() if part in command), "other")


def _memory(pid: int) -> float:
    kilobytes = re.search(r"^Pss:\s+(\d+) kB", _read(Path(f"/proc/{pid}/smaps_rollup")), re.MULTILINE)
    return int(kilobytes[1]) / 1000 if kilobytes else 0.0


def _read(file: Path) -> str:
    """Read a file, also one of a process; empty if it is not there, as of a process that ended."""
    try:
        return file.read_text()
    except OSError:
        return ""
