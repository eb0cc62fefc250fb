"""Runs a slice of the tests that no change runs by itself, so that a few changes after each other run all of them.

These are the tests at full scale, and those elsewhere that are marked as slow.

``--slice tree`` chooses it by the hash of the committed tree, ``--slice 3`` by its number. The slices take about
equally long, by the seconds that the tests took (``full/durations.json``, which ``--write-durations`` writes
anew). A slice has two halves, one for each process; a file stays in one of them unless it is longer than that.
"""

import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from math import ceil
from pathlib import Path

import pytest

from lakehouse_tests.helpers.places import ROOT

DURATIONS = ROOT / "lakehouse_tests" / "full" / "durations.json"
HALF = 80.0  # seconds in which one of the two processes ends, about
_SHORT = 1.0  # seconds: what takes less is not in the table


def waits_for_a_slice(test: str, marks: Container[str]) -> bool:
    """Whether a test is left to the slices: it is at full scale, or marked as slow."""
    return "slow" in marks or Path(file_of(test)).is_relative_to(DURATIONS.parent.relative_to(ROOT))


def file_of(test: str) -> str:
    return test.partition("::")[0]


def function_of(test: str) -> str:
    """A test without its parameters, and without the group that pytest-xdist puts behind its name."""
    return test.partition("[")[0].partition("@")[0]


def partition(tests: Iterable[str], seconds: Mapping[str, float]) -> list[list[str]]:
    """Share tests out over halves of slices, an even number of them; each test is in exactly one.

    A file of which nothing is known counts as an average one.
    """
    tests = list(tests)
    cases = Counter(map(function_of, tests))
    files: dict[str, dict[str, float]] = defaultdict(dict)
    for test in tests:
        function = function_of(test)
        files[file_of(test)][test] = seconds.get(function, 0.0) / cases[function]
    known = [sum(part.values()) for part in files.values() if any(part.values())]
    average = sum(known) / len(known) if known else 1.0
    units: list[tuple[float, list[str]]] = []
    for part in files.values():
        total = sum(part.values()) or average
        units += [(total, list(part))] if total <= HALF else [(each, [test]) for test, each in part.items()]
    halves = 2 * ceil(sum(length for length, _ in units) / HALF / 2)
    shared: list[tuple[float, list[str]]] = [(0.0, []) for _ in range(halves)]
    for length, unit in sorted(units, key=lambda unit: (-unit[0], unit[1])):
        place = min(range(halves), key=lambda number: (shared[number][0], number))
        shared[place] = (shared[place][0] + length, shared[place][1] + unit)
    return [part for _, part in shared]


def halves_of(chosen: str, halves: list[list[str]]) -> list[list[str]]:
    """The two halves of the slice with this number, or of the tree that is committed."""
    number = int(_tree(), 16) if chosen == "tree" else int(chosen)
    count = len(halves) // 2
    return [halves[number % count], halves[number % count + count]]


def _tree() -> str:
    command = ["git", "rev-parse", "HEAD^{tree}"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        told = "Without git no slice is chosen by the committed tree: name one by its number, as --slice 3"
        raise pytest.UsageError(told) from error


def read_durations() -> dict[str, float]:
    """Seconds that each test took when it was measured, all its cases; those that took hardly any are left out."""
    told: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8")) if DURATIONS.is_file() else {}
    return told


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("slices")
    group.addoption("--slice", help="Run one slice of the tests: its number, or 'tree'.")
    group.addoption("--write-durations", action="store_true", help="Write how long each of those tests took.")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = config.getoption("--slice")
    if chosen is None:
        return
    waiting = [item.nodeid for item in items if waits_for_a_slice(item.nodeid, item.keywords)]
    halves = halves_of(chosen, partition(waiting, read_durations()))
    place = {test: number for number, half in enumerate(halves) for test in half}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in place])
    items[:] = [item for item in items if item.nodeid in place]
    for item in items:
        item.add_marker(pytest.mark.xdist_group(f"half {place[item.nodeid]}"))


class _Clock:
    """Sums up how long each test took that waits for a slice, what it set up included."""

    def __init__(self) -> None:
        self._took: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if waits_for_a_slice(report.nodeid, report.keywords):
            self._took[function_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Replace what the table says of the files that ran."""
        ran = {file_of(test) for test in self._took}
        kept = {test: took for test, took in read_durations().items() if file_of(test) not in ran}
        now = {test: round(took, 1) for test, took in self._took.items() if took >= _SHORT}
        there = {test: took for test, took in (kept | now).items() if (ROOT / file_of(test)).is_file()}
        DURATIONS.write_text(json.dumps(there, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: a test that a slice runs, and not every change.")
    if config.getoption("--write-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Clock())
