"""Measuring: contenders take turns, so that what the machine does meanwhile meets all of them alike."""

import ctypes
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

_TICK = os.sysconf("SC_CLK_TCK")
_SET_CHILD_SUBREAPER = 36
Name = TypeVar("Name")


@dataclass
class Measured:
    """What the turns of one contender took: wall seconds, and CPU seconds of this process and all below it."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of the wall seconds."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """The quickest and the slowest turn, in wall seconds."""
        return min(self.seconds), max(self.seconds)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Measure one turn."""
        used, begun = cpu_seconds(), time.perf_counter()
        yield
        self.seconds.append(time.perf_counter() - begun)
        self.cpu.append(cpu_seconds() - used)


def take_turns(turns: int, contenders: Mapping[str, Callable[[], object]]) -> dict[str, Measured]:
    """Let each contender have so many turns, one after the other."""
    measured = {name: Measured() for name in contenders}
    for _ in range(turns):
        for name, contender in contenders.items():
            with measured[name].turn():
                contender()
    return measured


def in_turn(number: int, names: Iterable[Name]) -> list[Name]:
    """The names in the order of a round: each round begins with another."""
    listed = list(names)
    first = number % len(listed)
    return listed[first:] + listed[:first]


def adopt_orphans() -> None:
    """Count what the children of our children use also where they outlive their parents, as a Spark does its command.

    They stay in the list of processes, ended, until this one has ended.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def cpu_seconds() -> float:
    """CPU seconds of this process and of all below it, those included that have ended."""
    return sum(process.cpu + process.cpu_of_ended for process in processes_below(os.getpid()).values())


class Process(NamedTuple):
    """A process: its parent, and the CPU seconds of itself and of its children that have ended."""

    parent: int
    cpu: float
    cpu_of_ended: float


def processes_below(ancestor: int) -> dict[int, Process]:
    """A process and all below it, by their numbers."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        used = [int(ticks) / _TICK for ticks in fields[11:15]]
        found[int(stat.parent.name)] = Process(int(fields[1]), sum(used[:2]), sum(used[2:]))
    return {pid: process for pid, process in found.items() if _is_below(ancestor, pid, found)}


def _is_below(ancestor: int, pid: int, processes: Mapping[int, Process]) -> bool:
    while pid in processes and pid != ancestor:
        pid = processes[pid].parent
    return pid == ancestor
