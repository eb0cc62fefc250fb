"""Measure contenders in turns, so that other load on the machine affects all of them equally."""

import ctypes
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_SET_CHILD_SUBREAPER = 36
Name = TypeVar("Name")


@dataclass
class Measurement:
    """The turns of one contender: wall seconds, and CPU seconds of this process and its descendants."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of the wall seconds."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """The fastest and the slowest turn, in wall seconds."""
        return min(self.seconds), max(self.seconds)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Measure one turn."""
        cpu_before, started_at = cpu_seconds(), time.perf_counter()
        yield
        self.seconds.append(time.perf_counter() - started_at)
        self.cpu.append(cpu_seconds() - cpu_before)


def take_turns(turns: int, contenders: Mapping[str, Callable[[], object]]) -> dict[str, Measurement]:
    """Give each contender ``turns`` turns, alternating between the contenders."""
    measurements = {name: Measurement() for name in contenders}
    for _ in range(turns):
        for name, contender in contenders.items():
            with measurements[name].turn():
                contender()
    return measurements


def rotate(number: int, names: Iterable[Name]) -> list[Name]:
    """Rotate the names, so that each round begins with a different one."""
    ordered_names = list(names)
    first = number % len(ordered_names)
    return ordered_names[first:] + ordered_names[:first]


def adopt_orphans() -> None:
    """Count the CPU of grandchildren even if they outlive their parents, as the JVM of Spark outlives its command.

    Ended processes stay in the process list until this process ends.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its descendants, including ended ones."""
    return sum(process.cpu + process.cpu_of_ended for process in processes_below(os.getpid()).values())


class Process(NamedTuple):
    """A process: its parent, its own CPU seconds and those of its ended children."""

    parent: int
    cpu: float
    cpu_of_ended: float


def processes_below(ancestor: int) -> dict[int, Process]:
    """Return a process and its descendants by process id."""
    processes = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended
        cpu_times = [int(ticks) / _TICKS_PER_SECOND for ticks in fields[11:15]]
        processes[int(stat.parent.name)] = Process(int(fields[1]), sum(cpu_times[:2]), sum(cpu_times[2:]))
    return {pid: process for pid, process in processes.items() if _is_below(ancestor, pid, processes)}


def _is_below(ancestor: int, pid: int, processes: Mapping[int, Process]) -> bool:
    while pid in processes and pid != ancestor:
        pid = processes[pid].parent
    return pid == ancestor
