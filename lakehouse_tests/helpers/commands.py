"""The commands of the command line: their names, how to run them in this process, and their errors."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

import pytest

from lakehouse.cli import main

COMMANDS = sorted(
    (
        "demo init new-table up doctor topics peek plan publish load-base merge follow replay redrive maintain"
        " rewrite serve status audit compare rejected query materialize export"
        " repair restore"
    ).split()
)
REPAIRS = ("gap", "difference", "missing-keys", "progress")
COMMAND_LINES = [*([name] for name in COMMANDS), *(["repair", name] for name in REPAIRS)]
"""Every command as it is typed, those of a group after its name."""


class CommandResult(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


def lakehouse_says(*arguments: str) -> CommandResult:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main.run(arguments)
    return CommandResult(code, out.getvalue(), err.getvalue())


def read_json_output(*arguments: str) -> Any:
    result = lakehouse_says(*arguments, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The text on standard error, which is one line, with nothing on standard output."""
    output = capsys.readouterr()
    assert output.out == ""
    assert len(output.err.splitlines()) == 1, output.err
    assert "Traceback" not in output.err
    return output.err


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the last line of standard error, after checking that standard output is empty."""
    output = capsys.readouterr()
    assert output.out == ""
    assert "Traceback" not in output.err
    assert "Unexpected" not in output.err
    *previous_lines, last = output.err.splitlines()
    assert previous_lines in ([], ["Starting Spark ..."])
    return last
