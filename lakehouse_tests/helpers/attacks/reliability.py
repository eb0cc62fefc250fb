"""Count the attacks on the promises of the project and write them as the table of ``docs/explanation/reliability.md``.

A test attacks with ``with attack(promise, how): ...``. Each ``with`` counts once (or ``times()``), and an exception
inside it counts as a difference. ``--report FILE`` writes the table below a marker in the file. A complete run takes
hours. With ``--add`` a partial run adds its counts to the existing table, with a separate line for its commit. A
partial run that fails adds nothing.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, cast

import pytest

MARKER = "<!-- below: written by make torture -->"
_ROW = re.compile(r"^\| (?P<promise>[^*|]+) \| (?P<how>[^|]+) \| (?P<times>[\d,]+) \| (?P<differed>[\d,]+) \|$", re.M)
_RUN = re.compile(r"^Commit .*$", re.M)
_ATTACK, _DIFFERENCE = "attack", "difference"
Attack = Callable[..., AbstractContextManager[None]]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("reliability")
    group.addoption("--report", type=Path, help="Write the table of attacks into this file.")
    group.addoption("--add", action="store_true", help="Add to the table in the file.")


@pytest.fixture
def attack(request: pytest.FixtureRequest) -> Attack:
    """Count an attack: ``with attack("A crash loses nothing", "SIGKILL before reading"): ...``."""
    properties = request.node.user_properties

    @contextmanager
    def count_attack(promise: str, method: str, times: Callable[[], int] = lambda: 1) -> Iterator[None]:
        try:
            yield
        except BaseException:
            properties.append((_DIFFERENCE, (promise, method, 1)))
            raise
        finally:
            properties.append((_ATTACK, (promise, method, times())))

    return count_attack


class _AttackReport:
    """The attacks of all tests, over all processes of the run."""

    def __init__(self) -> None:
        self.begun, self.commit = monotonic(), _commit()
        self.runs: list[str] = []  # previous runs, one line each
        self.tests = 0
        self.tried: Counter[tuple[str, str]] = Counter()
        self.differed: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        self.tests += 1
        for name, value in report.user_properties:
            counter = {_ATTACK: self.tried, _DIFFERENCE: self.differed}.get(name)
            if counter is not None:
                promise, method, times = cast(tuple[str, str, int], value)
                counter[promise, method] += times

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
        if not self.tried:
            return
        report: Path | None = config.getoption("--report")
        adds_counts = config.getoption("--add")
        if report and adds_counts:
            self.add(report.read_text(encoding="utf-8").partition(MARKER)[2])
        table = self.table()
        terminalreporter.section("attacks and differences")
        terminalreporter.write_line(table)
        if report and not (adds_counts and exitstatus):
            text_before, _, _ = report.read_text(encoding="utf-8").partition(MARKER)
            report.write_text(f"{text_before}{MARKER}\n\n{table}\n", encoding="utf-8")

    def add(self, table: str) -> None:
        """Add the counts of a table that previous runs wrote."""
        self.runs = _RUN.findall(table)
        for row in _ROW.finditer(table):
            attacked_promise = row["promise"], row["how"]
            self.tried[attacked_promise] += int(row["times"].replace(",", ""))
            self.differed[attacked_promise] += int(row["differed"].replace(",", ""))

    def table(self) -> str:
        rows = [
            f"| {promise} | {method} | {times:,} | {self.differed[promise, method]:,} |"
            for (promise, method), times in sorted(self.tried.items())
        ]
        total = f"| **All** | | **{self.tried.total():,}** | **{self.differed.total():,}** |"
        minutes = (monotonic() - self.begun) / 60
        run_line = f"Commit {self.commit}, {datetime.now(UTC):%Y-%m-%d}, {self.tests} tests in {minutes:.0f} minutes."
        header = "| promise | how it was attacked | times | differences |\n|---|---|---:|---:|"
        return "\n".join(["\n\n".join([*self.runs, run_line]), "", header, *rows, total])


def _commit() -> str:
    """Return the commit under test, with ``-dirty`` if the code has changes; tables of results do not count."""

    def git(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)

    has_changes = git("diff", "--quiet", "HEAD", "--", "lakehouse", "lakehouse_tests").returncode
    return (git("rev-parse", "--short", "HEAD").stdout.strip() or "unknown") + ("-dirty" if has_changes else "")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_AttackReport())
