"""Measuring: contenders take turns, so that what the machine does meanwhile meets all of them alike."""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


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


def cpu_seconds() -> float:
    """CPU seconds of this process and of all below it, those included that have ended."""
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        pid = int(stat.parent.name)
        parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15])) / _TICK
    return sum(seconds for pid, seconds in used.items() if _is_below(os.getpid(), pid, parents))


def _is_below(ancestor: int, pid: int, parents: Mapping[int, int]) -> bool:
    while pid and pid != ancestor:
        pid = parents.get(pid, 0)
    return pid == ancestor
