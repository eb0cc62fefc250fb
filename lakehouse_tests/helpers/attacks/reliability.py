"""Count the attacks on the promises of the project and write them into ``docs/explanation``.

A test attacks with ``with attack(promise, how): ...``. Each ``with`` counts once (or ``times()``), and an exception
inside it counts as a difference. ``--report FOLDER`` writes all attacks into ``attacks.csv`` of the folder, and their
sums by promise and target, with the runs, below a marker in ``reliability.md``. A complete run takes hours. With
``--add`` a partial run adds its counts, with a separate line for its commit. A partial run that fails adds nothing.
"""

import csv
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from io import StringIO
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, cast

import pytest

MARKER = "<!-- below: written by make torture -->"
ATTACKS_FILE, SUMS_PAGE = "attacks.csv", "reliability.md"
_RUN = re.compile(r"^Commits? .*?(?=\n\n)", re.M | re.S)
_ATTACK, _DIFFERENCE = "attack", "difference"
Attack = Callable[..., AbstractContextManager[None]]


class Target(StrEnum):
    """What is attacked."""

    TOPICS = "tables of topics"
    FILES = "tables of files"
    OTHER_TABLES = "tables of other tables"
    S3 = "tables in S3"
    AZURE = "tables in Azure"
    QUERIES = "streaming queries"
    EXPORTS = "exports"
    SINKS = "sinks"


class Kind(NamedTuple):
    """A kind of attack: the promise, what was attacked, and how."""

    promise: str
    target: str
    method: str


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("reliability")
    group.addoption("--report", type=Path, help="Write the attacks and their sums into this folder.")
    group.addoption("--add", action="store_true", help="Add to the counts in the folder.")


@pytest.fixture
def attack(request: pytest.FixtureRequest) -> Attack:
    """Count an attack: ``with attack("A crash loses nothing", "SIGKILL before reading"): ...``."""
    properties = request.node.user_properties

    @contextmanager
    def count_attack(
        promise: str, method: str, times: Callable[[], int] = lambda: 1, target: Target = Target.TOPICS
    ) -> Iterator[None]:
        try:
            yield
        except BaseException:
            properties.append((_DIFFERENCE, (promise, target.value, method, 1)))
            raise
        finally:
            properties.append((_ATTACK, (promise, target.value, method, times())))

    return count_attack


class _AttackReport:
    """The attacks of all tests, over all processes of the run."""

    def __init__(self) -> None:
        self.begun, self.commit = monotonic(), _commit()
        self.runs: list[str] = []  # previous runs, one line each
        self.tests = 0
        self.tried: Counter[Kind] = Counter()
        self.differed: Counter[Kind] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        self.tests += 1
        for name, value in report.user_properties:
            counter = {_ATTACK: self.tried, _DIFFERENCE: self.differed}.get(name)
            if counter is not None:
                *kind, times = cast(tuple[str, str, str, int], value)
                counter[Kind(*kind)] += times

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
        if not self.tried:
            return
        folder: Path | None = config.getoption("--report")
        adds_counts = config.getoption("--add")
        if folder and adds_counts:
            self.add(folder)
        terminalreporter.section("attacks and differences")
        terminalreporter.write_line(self.table())
        if folder and not (adds_counts and exitstatus):
            (folder / ATTACKS_FILE).write_text(self.table(), encoding="utf-8")
            _write_below_marker(folder / SUMS_PAGE, "\n\n".join([*self.runs, self._run_line(), self.sums()]))

    def add(self, folder: Path) -> None:
        """Add the counts that previous runs wrote into a folder."""
        self.runs = _RUN.findall((folder / SUMS_PAGE).read_text(encoding="utf-8").partition(MARKER)[2])
        with (folder / ATTACKS_FILE).open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                kind = Kind(*(row[name] for name in Kind._fields))
                self.tried[kind] += int(row["times"])
                self.differed[kind] += int(row["differences"])

    def table(self) -> str:
        """Each kind of attack with its counts, as CSV."""
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*Kind._fields, "times", "differences"])
        writer.writerows([*kind, times, self.differed[kind]] for kind, times in sorted(self.tried.items()))
        return text.getvalue()

    def _run_line(self) -> str:
        minutes = (monotonic() - self.begun) / 60
        return f"Commit {self.commit}, {datetime.now(UTC):%Y-%m-%d}, {self.tests} tests in {minutes:.0f} minutes."

    def sums(self) -> str:
        """The counts by promise and target, and all of them."""
        kinds, tried, differed = (Counter[tuple[str, str]]() for _ in range(3))
        for kind, times in self.tried.items():
            kinds[kind[:2]] += 1
            tried[kind[:2]] += times
            differed[kind[:2]] += self.differed[kind]
        rows = [f"| {' | '.join(key)} | {kinds[key]:,} | {tried[key]:,} | {differed[key]:,} |" for key in sorted(kinds)]
        totals = " | ".join(f"**{counter.total():,}**" for counter in (kinds, tried, differed))
        header = "| promise | what was attacked | kinds of attack | times | differences |\n|---|---|---:|---:|---:|"
        return "\n".join([header, *rows, f"| **All** | | {totals} |"])


def _write_below_marker(page: Path, text: str) -> None:
    text_before, _, _ = page.read_text(encoding="utf-8").partition(MARKER)
    page.write_text(f"{text_before}{MARKER}\n\n{text}\n", encoding="utf-8")


def _commit() -> str:
    """Return the commit under test, with ``-dirty`` if the code has changes; tables of results do not count."""

    def git(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)

    has_changes = git("diff", "--quiet", "HEAD", "--", "lakehouse", "lakehouse_tests").returncode
    return (git("rev-parse", "--short", "HEAD").stdout.strip() or "unknown") + ("-dirty" if has_changes else "")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_AttackReport())
