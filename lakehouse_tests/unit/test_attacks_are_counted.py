"""The table of attacks: a run in parts counts what one run would."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse_tests.helpers.attacks.reliability import MARKER, _Told

LOST, TWICE = ("Nothing is lost", "SIGKILL"), ("A replay changes nothing", "SIGTERM twice")


def of_test(*counted: tuple[str, tuple[str, str, int]]) -> Any:
    return SimpleNamespace(when="call", user_properties=[*counted])


def run(report: Path, *tests: Any, add: bool = False, code: int = 0) -> list[str]:
    """The lines of the table after a run of these tests."""
    told = _Told()
    told.commit = "abc"
    for each in tests:
        told.pytest_runtest_logreport(each)
    options = {"--report": report, "--add": add}
    terminal = SimpleNamespace(section=lambda _: None, write_line=lambda _: None)
    told.pytest_terminal_summary(terminal, code, SimpleNamespace(getoption=options.get))  # type: ignore[arg-type]
    return report.read_text().partition(MARKER)[2].splitlines()


@pytest.fixture
def report(tmp_path: Path) -> Path:
    file = tmp_path / "reliability.md"
    file.write_text(f"Kept.\n{MARKER}\nold")
    return file


def test_a_part_adds_to_the_counts_of_another_and_names_its_own_commit(report: Path) -> None:
    first = of_test(("attack", (*LOST, 1_200)), ("attack", (*TWICE, 1)), ("difference", (*TWICE, 1)))
    run(report, first)
    lines = run(report, of_test(("attack", (*LOST, 3))), of_test(("attack", (*LOST, 4))), add=True)
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


def test_a_run_by_itself_begins_the_table_anew(report: Path) -> None:
    run(report, of_test(("attack", (*TWICE, 5))))
    assert run(report, of_test(("attack", (*LOST, 1))))[-1] == "| **All** | | **1** | **0** |"


def test_a_part_that_failed_adds_nothing(report: Path) -> None:
    lines = run(report, of_test(("attack", (*LOST, 1))))
    assert run(report, of_test(("attack", (*LOST, 1)), ("difference", (*LOST, 1))), add=True, code=1) == lines
