"""The table of attacks: a run in parts counts the same as one run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse_tests.helpers.attacks.reliability import ATTACKS_FILE, MARKER, SUMS_PAGE, Target, _AttackReport
from lakehouse_tests.helpers.places import ROOT

LOST_ATTACK = ("Nothing is lost", "tables of files", "SIGKILL")
TWICE_ATTACK = ("A replay changes nothing", "exports", "SIGTERM twice")
PAGES = ROOT / "docs" / "explanation"


def report_of(*counts: tuple[str, tuple[str, str, str, int]]) -> Any:
    return SimpleNamespace(when="call", user_properties=[*counts])


def run(folder: Path, *tests: Any, add: bool = False, code: int = 0) -> list[str]:
    """The lines of the file of attacks after a run with these test reports."""
    plugin = _AttackReport()
    plugin.commit = "abc"
    for test in tests:
        plugin.pytest_runtest_logreport(test)
    options = {"--report": folder, "--add": add}
    terminal = SimpleNamespace(section=lambda _: None, write_line=lambda _: None)
    plugin.pytest_terminal_summary(terminal, code, SimpleNamespace(getoption=options.get))  # type: ignore[arg-type]
    return (folder / ATTACKS_FILE).read_text(encoding="utf-8").splitlines()


def summed_lines(folder: Path) -> list[str]:
    return (folder / SUMS_PAGE).read_text(encoding="utf-8").partition(MARKER)[2].splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / SUMS_PAGE).write_text(f"Kept.\n{MARKER}\nold")
    return tmp_path


def test_a_part_adds_to_the_counts_of_another_and_names_its_own_commit(folder: Path) -> None:
    first_part = report_of(
        ("attack", (*LOST_ATTACK, 1_200)), ("attack", (*TWICE_ATTACK, 1)), ("difference", (*TWICE_ATTACK, 1))
    )
    run(folder, first_part)
    lines = run(folder, report_of(("attack", (*LOST_ATTACK, 3))), report_of(("attack", (*LOST_ATTACK, 4))), add=True)
    runs = [line for line in summed_lines(folder) if line.startswith("Commit abc")]
    assert [line.split(", ")[-1] for line in runs] == ["1 tests in 0 minutes.", "2 tests in 0 minutes."]
    assert lines == [
        "promise,target,method,times,differences",
        "A replay changes nothing,exports,SIGTERM twice,1,1",
        "Nothing is lost,tables of files,SIGKILL,1207,0",
    ]


def test_the_kinds_of_attack_on_one_target_are_summed(folder: Path) -> None:
    run(
        folder,
        report_of(("attack", (*LOST_ATTACK, 2)), ("attack", (*LOST_ATTACK[:2], "SIGTERM", 1_000))),
        report_of(("attack", (*TWICE_ATTACK, 1)), ("difference", (*TWICE_ATTACK, 1))),
    )
    assert summed_lines(folder)[-3:] == [
        "| A replay changes nothing | exports | 1 | 1 | 1 |",
        "| Nothing is lost | tables of files | 2 | 1,002 | 0 |",
        "| **All** | | **3** | **1,003** | **1** |",
    ]
    assert (folder / SUMS_PAGE).read_text().startswith("Kept.\n")


def test_a_run_without_add_starts_a_new_table(folder: Path) -> None:
    run(folder, report_of(("attack", (*TWICE_ATTACK, 5))))
    assert run(folder, report_of(("attack", (*LOST_ATTACK, 1))))[1:] == [f"{','.join(LOST_ATTACK)},1,0"]


def test_a_part_that_failed_adds_nothing(folder: Path) -> None:
    lines = run(folder, report_of(("attack", (*LOST_ATTACK, 1))))
    sums = summed_lines(folder)
    failed_part = report_of(("attack", (*LOST_ATTACK, 1)), ("difference", (*LOST_ATTACK, 1)))
    assert run(folder, failed_part, add=True, code=1) == lines
    assert summed_lines(folder) == sums


def test_the_page_of_reliability_has_the_sums_of_all_attacks() -> None:
    plugin = _AttackReport()
    plugin.add(PAGES)
    assert "\n\n".join([*plugin.runs, plugin.sums()]) == "\n".join(summed_lines(PAGES)).strip()
    assert plugin.table() == (PAGES / ATTACKS_FILE).read_text(encoding="utf-8")
    assert len(plugin.tried) > 300
    assert {kind.target for kind in plugin.tried} <= {*Target}
