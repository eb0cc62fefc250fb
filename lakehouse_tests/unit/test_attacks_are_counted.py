"""The table of attacks: a run in parts counts the same as one run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse_tests.helpers.attacks.reliability import ATTACKS_PAGE, MARKER, SUMS_PAGE, Target, _AttackReport
from lakehouse_tests.helpers.places import ROOT

LOST_ATTACK = ("Nothing is lost", "tables of files", "SIGKILL")
TWICE_ATTACK = ("A replay changes nothing", "exports", "SIGTERM twice")
PAGES = ROOT / "docs" / "explanation"


def report_of(*counts: tuple[str, tuple[str, str, str, int]]) -> Any:
    return SimpleNamespace(when="call", user_properties=[*counts])


def run(folder: Path, *tests: Any, add: bool = False, code: int = 0) -> list[str]:
    """The lines of the table after a run with these test reports."""
    plugin = _AttackReport()
    plugin.commit = "abc"
    for test in tests:
        plugin.pytest_runtest_logreport(test)
    options = {"--report": folder, "--add": add}
    terminal = SimpleNamespace(section=lambda _: None, write_line=lambda _: None)
    plugin.pytest_terminal_summary(terminal, code, SimpleNamespace(getoption=options.get))  # type: ignore[arg-type]
    return lines_of(folder, ATTACKS_PAGE)


def lines_of(folder: Path, page: str) -> list[str]:
    return (folder / page).read_text(encoding="utf-8").partition(MARKER)[2].splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for page in (ATTACKS_PAGE, SUMS_PAGE):
        (tmp_path / page).write_text(f"Kept.\n{MARKER}\nold")
    return tmp_path


def test_a_part_adds_to_the_counts_of_another_and_names_its_own_commit(folder: Path) -> None:
    first_part = report_of(
        ("attack", (*LOST_ATTACK, 1_200)), ("attack", (*TWICE_ATTACK, 1)), ("difference", (*TWICE_ATTACK, 1))
    )
    run(folder, first_part)
    lines = run(folder, report_of(("attack", (*LOST_ATTACK, 3))), report_of(("attack", (*LOST_ATTACK, 4))), add=True)
    assert [line.split(", ")[-1] for line in lines if line.startswith("Commit abc")] == [
        "1 tests in 0 minutes.",
        "2 tests in 0 minutes.",
    ]
    assert lines[-7:] == [
        "## A replay changes nothing: exports",
        "",
        "- SIGTERM twice: 1 (1 broke it)",
        "",
        "## Nothing is lost: tables of files",
        "",
        "- SIGKILL: 1,207",
    ]
    assert (folder / ATTACKS_PAGE).read_text().startswith("Kept.\n")


def test_the_kinds_of_attack_on_one_target_are_summed(folder: Path) -> None:
    run(
        folder,
        report_of(("attack", (*LOST_ATTACK, 2)), ("attack", (*LOST_ATTACK[:2], "SIGTERM", 1_000))),
        report_of(("attack", (*TWICE_ATTACK, 1)), ("difference", (*TWICE_ATTACK, 1))),
    )
    assert lines_of(folder, SUMS_PAGE)[-3:] == [
        "| A replay changes nothing | exports | 1 | 1 | 1 |",
        "| Nothing is lost | tables of files | 2 | 1,002 | 0 |",
        "| **All** | | **3** | **1,003** | **1** |",
    ]
    assert (folder / SUMS_PAGE).read_text().startswith("Kept.\n")


def test_a_run_without_add_starts_a_new_table(folder: Path) -> None:
    run(folder, report_of(("attack", (*TWICE_ATTACK, 5))))
    lines = run(folder, report_of(("attack", (*LOST_ATTACK, 1))))
    assert [line for line in lines if line.startswith(("#", "-"))] == [
        "## Nothing is lost: tables of files",
        "- SIGKILL: 1",
    ]


def test_a_part_that_failed_adds_nothing(folder: Path) -> None:
    lines = run(folder, report_of(("attack", (*LOST_ATTACK, 1))))
    sums = lines_of(folder, SUMS_PAGE)
    failed_part = report_of(("attack", (*LOST_ATTACK, 1)), ("difference", (*LOST_ATTACK, 1)))
    assert run(folder, failed_part, add=True, code=1) == lines
    assert lines_of(folder, SUMS_PAGE) == sums


def test_the_page_of_reliability_has_the_sums_of_the_page_of_attacks() -> None:
    plugin, page = _AttackReport(), lines_of(PAGES, ATTACKS_PAGE)
    plugin.add("\n".join(page))
    assert plugin.sums() == "\n".join(lines_of(PAGES, SUMS_PAGE)[2:])
    rows = [line for line in page if line.startswith("- ")]
    assert len(rows) == len(plugin.tried) > 300
    assert {kind.target for kind in plugin.tried} <= {*Target}
    runs = "\n".join(page).partition("\n## ")[0].strip()
    assert "\n\n".join(plugin.runs) == runs
