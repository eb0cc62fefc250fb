"""The commands of the command line: their names, how to run them in this process, and their errors."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

from lakehouse.cli import main

COMMANDS = sorted(
    (
        "demo init new-table up doctor topics peek plan publish load-base merge follow replay redrive maintain"
        " rewrite serve status audit compare rejected query materialize export register"
        " repair restore rebuild erase remove"
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


def output_of(*arguments: str) -> str:
    """What a command that succeeds prints on standard output."""
    result = lakehouse_says(*arguments)
    assert result.code == main.DONE, result.err
    return result.out


def read_json_output(*arguments: str) -> Any:
    return json.loads(output_of(*arguments, "--json"))


def notices_of(*arguments: str) -> str:
    """The words on standard error of a command that succeeds."""
    result = lakehouse_says(*arguments)
    assert result.code == main.DONE, result.err
    return " ".join(result.err.split())


def failure_of(*arguments: str, code: int = main.FAILED) -> str:
    """The words on standard error of a command that ends with this exit code, and prints nothing else."""
    result = lakehouse_says(*arguments)
    assert (result.code, result.out) == (code, ""), result
    return " ".join(result.err.replace("│", " ").split())


def misuse_of(*arguments: str) -> str:
    """The words on standard error of a command that is used in a wrong way."""
    return failure_of(*arguments, code=main.WRONG_USE)


def error_line(*arguments: str, code: int = main.FAILED) -> str:
    """The only line that a command prints before it ends with this exit code: an error, without a traceback."""
    result = lakehouse_says(*arguments)
    assert (result.code, result.out) == (code, ""), result
    assert len(result.err.splitlines()) == 1, result.err
    assert "Traceback" not in result.err
    return result.err


def last_line(*arguments: str, code: int = main.FAILED) -> str:
    """The same for a command that may have started Spark before: the last line, which is an expected error."""
    result = lakehouse_says(*arguments)
    assert (result.code, result.out) == (code, ""), result
    assert "Traceback" not in result.err and "Unexpected" not in result.err
    *previous_lines, line = result.err.splitlines()
    assert previous_lines in ([], ["Starting Spark ..."])
    return line
