"""Count the attacks on the promises of the project and write them into ``docs/explanation``.

A test attacks with ``with attack(promise, how): ...``. Each ``with`` counts once (or ``times()``), and an exception
inside it counts as a difference. ``--report FOLDER`` writes below a marker in two pages of the folder: all attacks
(``attacks.md``), and their sums by promise and target (``reliability.md``). A complete run takes hours. With ``--add``
a partial run adds its counts to the existing tables, with a separate line for its commit. A partial run that fails adds
nothing.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, cast

import pytest

MARKER = "<!-- below: written by make torture -->"
ATTACKS_PAGE, SUMS_PAGE = "attacks.md", "reliability.md"
_LINE = re.compile(
    r"^## (?P<promise>.+): (?P<target>.+)$|^- (?P<how>.+): (?P<times>[\d,]+)(?: \((?P<differed>[\d,]+) broke it\))?$",
    re.M,
)
_RUN = re.compile(r"^Commits? .*?(?=\n\n)", re.M | re.S)
_ATTACK, _DIFFERENCE = "attack", "difference"
Attack = Callable[..., AbstractContextManager[None]]


class Target(StrEnum):
    """What is attacked."""

    TOPICS = "tables of topics"
    FILES = "tables of files"
    OTHER_TABLES = "tables of other tables"
    QUERIES = "streaming queries"
    EXPORTS = "exports"


class Kind(NamedTuple):
    """A kind of attack: the promise, what was attacked, and how."""

    promise: str
    target: str
    method: str


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("reliability")
    group.addoption("--report", type=Path, help="Write the tables of attacks into the pages of this folder.")
    group.addoption("--add", action="store_true", help="Add to the tables in the folder.")


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
            self.add((folder / ATTACKS_PAGE).read_text(encoding="utf-8").partition(MARKER)[2])
        table = self.table()
        terminalreporter.section("attacks and differences")
        terminalreporter.write_line(table)
        if folder and not (adds_counts and exitstatus):
            _write_below_marker(folder / ATTACKS_PAGE, table)
            _write_below_marker(folder / SUMS_PAGE, self.sums())

    def add(self, table: str) -> None:
        """Add the counts of a table that previous runs wrote."""
        self.runs = _RUN.findall(table)
        promise = target = ""
        for line in _LINE.finditer(table):
            if line["promise"]:
                promise, target = line["promise"], line["target"]
                continue
            kind = Kind(promise, target, line["how"])
            self.tried[kind] += int(line["times"].replace(",", ""))
            self.differed[kind] += int((line["differed"] or "0").replace(",", ""))

    def table(self) -> str:
        """The runs, and by promise and target each kind of attack with its counts."""
        lines: list[str] = []
        for (promise, target), kinds in groupby(sorted(self.tried), key=lambda kind: kind[:2]):
            lines += [f"## {promise}: {target}", "", *map(self._line, kinds), ""]
        minutes = (monotonic() - self.begun) / 60
        run_line = f"Commit {self.commit}, {datetime.now(UTC):%Y-%m-%d}, {self.tests} tests in {minutes:.0f} minutes."
        return "\n".join(["\n\n".join([*self.runs, run_line]), "", *lines]).rstrip()

    def _line(self, kind: Kind) -> str:
        differences = f" ({self.differed[kind]:,} broke it)" if self.differed[kind] else ""
        return f"- {kind.method}: {self.tried[kind]:,}{differences}"

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
