"""Run commands of the command line in this process."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

from lakehouse.cli import main


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
