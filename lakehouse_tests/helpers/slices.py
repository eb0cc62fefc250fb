"""Run a slice of the tests that are too slow for every change, so that a few successive changes run all of them.

These are the tests at full scale, and the tests elsewhere that are marked as slow.

``--slice tree`` chooses the slice by the hash of the committed tree, ``--slice 3`` by its number. All slices take
about the same time, by the durations in ``full/durations.json``, which ``--write-durations`` updates. A slice has two
halves, one per process. A file stays within one half unless it takes longer than a half.
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
HALF = 40.0  # approximate seconds of one of the two processes
_SHORT_SECONDS = 1.0  # seconds; shorter tests are not in the table


def waits_for_a_slice(test: str, marks: Container[str]) -> bool:
    """Whether only slices run a test: it is at full scale or marked as slow."""
    return "slow" in marks or Path(file_of(test)).is_relative_to(DURATIONS.parent.relative_to(ROOT))


def file_of(test: str) -> str:
    return test.partition("::")[0]


def function_of(test: str) -> str:
    """Return a test without its parameters and without the group that pytest-xdist appends to its name."""
    return test.partition("[")[0].partition("@")[0]


def partition(tests: Iterable[str], seconds: Mapping[str, float]) -> list[list[str]]:
    """Distribute tests over an even number of halves; every test is in exactly one of them.

    The two halves of a slice, as ``halves_of`` chooses them, are next to each other in the order of their lengths. A
    file without a known duration counts as an average file.
    """
    tests = list(tests)
    cases = Counter(map(function_of, tests))
    files: dict[str, dict[str, float]] = defaultdict(dict)
    for test in tests:
        function = function_of(test)
        files[file_of(test)][test] = seconds.get(function, 0.0) / cases[function]
    known_durations = [sum(file_tests.values()) for file_tests in files.values() if any(file_tests.values())]
    average = sum(known_durations) / len(known_durations) if known_durations else 1.0
    units: list[tuple[float, list[str]]] = []
    for file_tests in files.values():
        total = sum(file_tests.values()) or average
        units += (
            [(total, list(file_tests))]
            if total <= HALF
            else [(duration, [test]) for test, duration in file_tests.items()]
        )
    halves = 2 * ceil(sum(duration for duration, _ in units) / HALF / 2)
    assignments: list[tuple[float, list[str]]] = [(0.0, []) for _ in range(halves)]
    for duration, unit in sorted(units, key=lambda unit: (-unit[0], unit[1])):
        shortest_half = min(range(halves), key=lambda number: (assignments[number][0], number))
        assignments[shortest_half] = (assignments[shortest_half][0] + duration, assignments[shortest_half][1] + unit)
    assignments.sort(key=lambda assignment: -assignment[0])
    return [half for _, half in assignments[0::2] + assignments[1::2]]


def halves_of(slice_name: str, halves: list[list[str]]) -> list[list[str]]:
    """Return the two halves of the slice with this number, or of the slice of the committed tree."""
    number = int(_tree(), 16) if slice_name == "tree" else int(slice_name)
    count = len(halves) // 2
    return [halves[number % count], halves[number % count + count]]


def _tree() -> str:
    command = ["git", "rev-parse", "HEAD^{tree}"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        message = "Cannot choose a slice by the committed tree without git. Give its number, for example --slice 3"
        raise pytest.UsageError(message) from error


def read_durations() -> dict[str, float]:
    """Return the measured seconds of each test, summed over its cases, without the shortest tests."""
    durations: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8")) if DURATIONS.is_file() else {}
    return durations


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("slices")
    group.addoption("--slice", help="Run one slice of the tests: its number, or 'tree'.")
    group.addoption("--write-durations", action="store_true", help="Write the durations of these tests.")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    slice_name = config.getoption("--slice")
    if slice_name is None:
        return
    slow_tests = [item.nodeid for item in items if waits_for_a_slice(item.nodeid, item.keywords)]
    halves = halves_of(slice_name, partition(slow_tests, read_durations()))
    half_numbers = {test: number for number, half in enumerate(halves) for test in half}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in half_numbers])
    items[:] = [item for item in items if item.nodeid in half_numbers]
    for item in items:
        item.add_marker(pytest.mark.xdist_group(f"half {half_numbers[item.nodeid]}"))


class _Clock:
    """Sums up the durations of the tests that only slices run, including their fixtures."""

    def __init__(self) -> None:
        self._durations: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if waits_for_a_slice(report.nodeid, report.keywords):
            self._durations[function_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Replace the durations of the files that ran."""
        files_run = {file_of(test) for test in self._durations}
        old_durations = {test: seconds for test, seconds in read_durations().items() if file_of(test) not in files_run}
        new_durations = {
            test: round(seconds, 1) for test, seconds in self._durations.items() if seconds >= _SHORT_SECONDS
        }
        durations = {
            test: seconds
            for test, seconds in (old_durations | new_durations).items()
            if (ROOT / file_of(test)).is_file()
        }
        DURATIONS.write_text(json.dumps(durations, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: a test that only slices run, not every change.")
    if config.getoption("--write-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Clock())
