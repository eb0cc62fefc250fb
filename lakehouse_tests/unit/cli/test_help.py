"""The help of every command: it is complete, it has an example, and it loads nothing heavy."""

import re
import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from lakehouse.cli import main
from lakehouse.cli.merge_verbs import NOTHING_TO_DO
from lakehouse.cli.show import NOT_UP_TO_DATE
from lakehouse.cli.table_session import INTERRUPTED
from lakehouse_tests.helpers.commands import COMMAND_LINES, COMMANDS, output_of
from lakehouse_tests.helpers.places import ROOT

pytestmark = pytest.mark.usefixtures("home")

CALLBACKS: dict[str, Any] = {
    f"{group.typer_instance.info.name or ''} {command.name or command.callback.__name__}".strip(): command.callback
    for group in main.app.registered_groups
    for command in group.typer_instance.registered_commands
    if command.callback
}
HEAVY = {"aiokafka", "dagster", "deltalake", "duckdb", "pyarrow", "pydantic", "pyspark"}


def test_help_lists_exactly_the_commands() -> None:
    commands = re.findall(r"^│ ([a-z][a-z-]*) ", output_of("--help"), re.MULTILINE)
    assert sorted(commands) == COMMANDS


@pytest.mark.parametrize("command", [" ".join(line) for line in COMMAND_LINES])
def test_the_help_of_every_command_shows_an_example(command: str) -> None:
    assert f"$ lakehouse {command}" in output_of(*command.split(), "--help").replace("\n ", " ")


@pytest.mark.parametrize("command", sorted(CALLBACKS))
def test_the_terminal_wraps_the_help_of_every_command_and_a_flag_has_no_type(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 1000)
    paragraphs = CALLBACKS[command].__doc__.split("\n\n")
    shown_lines = [line.strip() for line in output_of(*command.split(), "--help").splitlines()]
    assert [text for paragraph in paragraphs if (text := " ".join(paragraph.split())) not in shown_lines] == []
    assert not [line for line in shown_lines if "<bool>" in line]


@pytest.mark.parametrize("command", sorted(CALLBACKS))
def test_the_help_of_a_command_that_needs_a_broker_says_once_that_it_starts_one(command: str) -> None:
    needs_broker = "broker" in CALLBACKS[command].__code__.co_names and command != "up"  # whose subject it is
    shown_command: Any = get_command(main.app)
    for name in command.split():
        shown_command = shown_command.commands[name]
    shown_help = " ".join(shown_command.help.split())
    explanations = shown_help.count("embedded broker of this home, unless it runs already")
    assert explanations == int(needs_broker or command in ("new-table", "rebuild"))  # which read it in a helper


def test_the_page_of_errors_and_the_help_have_every_exit_code() -> None:
    exit_codes = [main.DONE, main.FAILED, main.WRONG_USE, NOTHING_TO_DO, NOT_UP_TO_DATE, INTERRUPTED]
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \|", page, re.MULTILINE) == [str(code) for code in exit_codes]
    _, _, sentence = " ".join(output_of("--help").split()).partition("Exit codes: ")
    assert re.findall(r"\b\d+\b", sentence) == [str(code) for code in exit_codes]


def test_help_loads_nothing_heavy() -> None:
    code = f"import sys, lakehouse.cli.main; print(sorted({HEAVY} & set(sys.modules)))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
