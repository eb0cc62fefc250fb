"""The table of attacks: a run in parts counts the same as one run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse_tests.helpers.attacks.reliability import MARKER, _AttackReport

LOST_ATTACK, TWICE_ATTACK = ("Nothing is lost", "SIGKILL"), ("A replay changes nothing", "SIGTERM twice")


def report_of(*counts: tuple[str, tuple[str, str, int]]) -> Any:
    return SimpleNamespace(when="call", user_properties=[*counts])


def run(report: Path, *tests: Any, add: bool = False, code: int = 0) -> list[str]:
    """The lines of the table after a run with these test reports."""
    plugin = _AttackReport()
    plugin.commit = "abc"
    for test in tests:
        plugin.pytest_runtest_logreport(test)
    options = {"--report": report, "--add": add}
    terminal = SimpleNamespace(section=lambda _: None, write_line=lambda _: None)
    plugin.pytest_terminal_summary(terminal, code, SimpleNamespace(getoption=options.get))  # type: ignore[arg-type]
    return report.read_text().partition(MARKER)[2].splitlines()


@pytest.fixture
def report(tmp_path: Path) -> Path:
    file = tmp_path / "reliability.md"
    file.write_text(f"Kept.\n{MARKER}\nold")
    return file


def test_a_part_adds_to_the_counts_of_another_and_names_its_own_commit(report: Path) -> None:
    first_part = report_of(
        ("attack", (*LOST_ATTACK, 1_200)), ("attack", (*TWICE_ATTACK, 1)), ("difference", (*TWICE_ATTACK, 1))
    )
    run(report, first_part)
    lines = run(report, report_of(("attack", (*LOST_ATTACK, 3))), report_of(("attack", (*LOST_ATTACK, 4))), add=True)
    assert [line.split(", ")[-1] for line in lines if line.startswith("Commit abc")] == [
        "1 tests in 0 minutes.",
        "2 tests in 0 minutes.",
    ]
    assert lines[-3:] == [
        "| A replay changes nothing | SIGTERM twice | 1 | 1 |",
        "| Nothing is lost | SIGKILL | 1,207 | 0 |",
        "| **All** | | **1,208** | **1** |",
    ]
    assert report.read_text().startswith("Kept.\n")


def test_a_run_without_add_starts_a_new_table(report: Path) -> None:
    run(report, report_of(("attack", (*TWICE_ATTACK, 5))))
    assert run(report, report_of(("attack", (*LOST_ATTACK, 1))))[-1] == "| **All** | | **1** | **0** |"


def test_a_part_that_failed_adds_nothing(report: Path) -> None:
    lines = run(report, report_of(("attack", (*LOST_ATTACK, 1))))
    assert (
        run(report, report_of(("attack", (*LOST_ATTACK, 1)), ("difference", (*LOST_ATTACK, 1))), add=True, code=1)
        == lines
    )
