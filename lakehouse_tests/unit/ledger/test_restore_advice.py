"""The command that errors and checks show for a restore works when it is pasted."""

import re
import shlex
from pathlib import Path

import pytest

from lakehouse.cli import main
from lakehouse.errors import TableError, restore_advice
from lakehouse.ledger.table_failures import explain_error
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.logs import WrittenTable


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WrittenTable:
    """A declared table with one row in version 1 and two in version 2."""
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    table = WrittenTable.create(tmp_path / "tables" / "temperatures", "temperatures")
    table.merge(1)
    table.merge(2)
    return table


def run_advice(text: str) -> None:
    """Run the command at the end of a text, with the words that a shell makes of it, and confirm it."""
    arguments = shlex.split(text.partition("run: lakehouse ")[2])
    assert main.run([*arguments, "--yes"]) == main.DONE


def test_the_command_restores_the_version(table: WrittenTable) -> None:
    run_advice(restore_advice(str(table.folder), 1))
    assert table.rows == [1]


def test_unknown_parts_are_in_capitals() -> None:
    assert restore_advice() == "To restore an earlier version, run: lakehouse restore TABLE --version VERSION"


def test_an_error_about_a_change_of_another_program_has_the_command(table: WrittenTable) -> None:
    table.table.alter.set_table_properties({"delta.appendOnly": "true"})
    uri = str(table.folder)
    error = explain_error(OSError("[DELTA_CANNOT_MODIFY_APPEND_ONLY] This table is append-only"), uri)
    assert isinstance(error, TableError)
    run_advice(str(error).replace("VERSION", "2"))
    assert "delta.appendOnly" not in table.table.metadata().configuration
    assert table.rows == [1, 2]


def test_every_module_that_advises_a_restore_has_the_command_or_says_where_it_is() -> None:
    advice = re.compile(r"[Rr]estore (a|an|the|that|its)( \w+)? version|RESTORE (a|the|it) ")
    places = ("restore_advice", "lakehouse audit", "the result has the command", "its result says")
    texts = {file.name: file.read_text(encoding="utf-8") for file in (ROOT / "lakehouse").rglob("*.py")}
    advising = {name for name, text in texts.items() if advice.search(text)}
    assert "verify.py" in advising
    assert [name for name in advising if not any(place in texts[name] for place in places)] == []


def test_the_page_about_a_restore_has_the_same_command() -> None:
    page = (ROOT / "docs" / "how-to" / "restore.md").read_text(encoding="utf-8")
    assert restore_advice(".lakehouse/tables/orders", 42).partition("run: ")[2] in page


def test_the_page_about_a_restore_names_the_file_of_a_version(table: WrittenTable) -> None:
    page = (ROOT / "docs" / "how-to" / "restore.md").read_text(encoding="utf-8")
    ((file_number, version),) = re.findall(r"file `(\d+)\.json` is version (\d+)", page)
    assert int(file_number) == int(version)
    assert (table.folder / "_delta_log" / f"{table.version:0{len(file_number)}d}.json").exists()
