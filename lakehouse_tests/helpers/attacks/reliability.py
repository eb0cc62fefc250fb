"""Counts the attacks on the project's promises, and tells them as the table of ``docs/explanation/reliability.md``.

A test attacks with ``with attack(promise, how): ...``: each ``with`` counts once (or ``times()``), and what
fails inside it is a difference. ``--report FILE`` writes the table below a marker in the file. It takes hours: with
``--add`` a run of a part adds its counts to the table that stands there, with a line of its own for its commit. A part
that fails adds nothing.
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
_TRIED, _DIFFERED = "attack", "difference"
Attack = Callable[..., AbstractContextManager[None]]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("reliability")
    group.addoption("--report", type=Path, help="Write the table of attacks into this file.")
    group.addoption("--add", action="store_true", help="Add to the table that stands there.")


@pytest.fixture
def attack(request: pytest.FixtureRequest) -> Attack:
    """Count an attack: ``with attack("A crash loses nothing", "SIGKILL before reading"): ...``."""
    told = request.node.user_properties

    @contextmanager
    def attacked(promise: str, how: str, times: Callable[[], int] = lambda: 1) -> Iterator[None]:
        try:
            yield
        except BaseException:
            told.append((_DIFFERED, (promise, how, 1)))
            raise
        finally:
            told.append((_TRIED, (promise, how, times())))

    return attacked


class _Told:
    """What the tests told of their attacks, over all processes that ran them."""

    def __init__(self) -> None:
        self.begun, self.commit = monotonic(), _commit()
        self.runs: list[str] = []  # that went before, by a line each
        self.tests = 0
        self.tried: Counter[tuple[str, str]] = Counter()
        self.differed: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        self.tests += 1
        for name, value in report.user_properties:
            counted = {_TRIED: self.tried, _DIFFERED: self.differed}.get(name)
            if counted is not None:
                promise, how, times = cast(tuple[str, str, int], value)
                counted[promise, how] += times

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
        if not self.tried:
            return
        report: Path | None = config.getoption("--report")
        adds = config.getoption("--add")
        if report and adds:
            self.add(report.read_text(encoding="utf-8").partition(MARKER)[2])
        table = self.table()
        terminalreporter.section("attacks and differences")
        terminalreporter.write_line(table)
        if report and not (adds and exitstatus):
            kept, _, _ = report.read_text(encoding="utf-8").partition(MARKER)
            report.write_text(f"{kept}{MARKER}\n\n{table}\n", encoding="utf-8")

    def add(self, table: str) -> None:
        """Count what a table tells of runs before this one."""
        self.runs = _RUN.findall(table)
        for row in _ROW.finditer(table):
            what = row["promise"], row["how"]
            self.tried[what] += int(row["times"].replace(",", ""))
            self.differed[what] += int(row["differed"].replace(",", ""))

    def table(self) -> str:
        rows = [
            f"| {promise} | {how} | {times:,} | {self.differed[promise, how]:,} |"
            for (promise, how), times in sorted(self.tried.items())
        ]
        total = f"| **All** | | **{self.tried.total():,}** | **{self.differed.total():,}** |"
        minutes = (monotonic() - self.begun) / 60
        when = f"Commit {self.commit}, {datetime.now(UTC):%Y-%m-%d}, {self.tests} tests in {minutes:.0f} minutes."
        head = "| promise | how it was attacked | times | differences |\n|---|---|---:|---:|"
        return "\n".join(["\n\n".join([*self.runs, when]), "", head, *rows, total])


def _commit() -> str:
    """The commit under test; code with changes says so, and a table of an earlier part is none."""

    def git(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)

    changed = git("diff", "--quiet", "HEAD", "--", "lakehouse", "lakehouse_tests").returncode
    return (git("rev-parse", "--short", "HEAD").stdout.strip() or "unknown") + ("-dirty" if changed else "")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Told())
