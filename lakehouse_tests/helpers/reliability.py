"""Counts the attacks on the project's promises, and tells them as the table of ``docs/reliability.md``.

A test attacks with ``with attack(promise, how): ...``: each ``with`` counts once (or ``times()``), and what
fails inside it is a difference. ``--report FILE`` writes the table below a marker in the file.
"""

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
_TRIED, _DIFFERED = "attack", "difference"
Attack = Callable[..., AbstractContextManager[None]]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("reliability")
    group.addoption("--report", type=Path, help="Write the table of attacks into this file.")


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
        self.tried: Counter[tuple[str, str]] = Counter()
        self.differed: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        for name, value in report.user_properties:
            counted = {_TRIED: self.tried, _DIFFERED: self.differed}.get(name)
            if counted is not None:
                promise, how, times = cast(tuple[str, str, int], value)
                counted[promise, how] += times

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        if not self.tried:
            return
        table = self.table()
        terminalreporter.section("attacks and differences")
        terminalreporter.write_line(table)
        report: Path | None = config.getoption("--report")
        if report:
            kept, _, _ = report.read_text(encoding="utf-8").partition(MARKER)
            report.write_text(f"{kept}{MARKER}\n\n{table}\n", encoding="utf-8")

    def table(self) -> str:
        rows = [
            f"| {promise} | {how} | {times:,} | {self.differed[promise, how]:,} |"
            for (promise, how), times in sorted(self.tried.items())
        ]
        total = f"| **All** | | **{self.tried.total():,}** | **{self.differed.total():,}** |"
        minutes = (monotonic() - self.begun) / 60
        when = f"Commit {self.commit}, {datetime.now(UTC):%Y-%m-%d}, {minutes:.0f} minutes."
        head = "| promise | how it was attacked | times | differences |\n|---|---|---:|---:|"
        return "\n".join([when, "", head, *rows, total])


def _commit() -> str:
    """The commit under test, before the run writes anything; a tree with changes says so."""
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Told())
