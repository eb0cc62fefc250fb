"""Verbs of the command line, run in this process."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

from lakehouse.cli import main


class Said(NamedTuple):
    """What a verb said, and its exit code."""

    code: int
    out: str
    err: str


def lakehouse_says(*arguments: str) -> Said:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main.run(arguments)
    return Said(code, out.getvalue(), err.getvalue())


def told(*arguments: str) -> Any:
    said = lakehouse_says(*arguments, "--json")
    assert said.code == 0, said.err
    return json.loads(said.out)
