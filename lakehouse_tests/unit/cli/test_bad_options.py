"""Every option with a wrong value: the exit code, an error that names it, and no side effects."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from lakehouse.cli import main
from lakehouse_tests.helpers.commands import last_line

pytestmark = pytest.mark.usefixtures("home")

GROUPS: dict[str, Any] = vars(typer.main.get_command(main.app))["commands"]
COMMANDS = {name: command for name, command in GROUPS.items() if not hasattr(command, "commands")}
COMMANDS |= {f"repair {name}": command for name, command in GROUPS["repair"].commands.items()}
WRONG_VALUES = {
    "table": "rain",
    "tables": "rain",
    "view": "rain",
    "exports": "rain",
    "folder": "missing",
    "init folder": "/",
    "into": "/",
    "name": "no/topic",
    "new": "No-Table",
    "topic": "no/topic",
    "sample": "missing.jsonl",
    "where": "type",
    "records": "0",
    "file": "missing.jsonl",
    "generate": "rain",
    "rate": "nan",
    "partitions": "0",
    "max_records": "0",
    "partition": "-1",
    "start": "-1",
    "end": "-1",
    "idle_exit": "nan",
    "services": "cooker",
    "port": "65536",
    "reason": "whim",
    "repair difference reason": " ",
    "version": "-1",
    "versions": "-1",
    "ranges": "0-5",
    "schema": "missing.avsc",
    "subject": " ",
    "limit": "-1",
    "form": "yaml",
    "output": "/",
    "as_of": "yesterday",
    "sql": "DROP TABLE temperatures",
    "database": "mysql://host/shop",
    "source": "a.b.c",
    "wait": "-1",
    "host": "192.0.2.1",
    "time_limit": "0",
    "page_size": "0",
}
CODES = {"sql": 1}  # a query that fails, not a wrong use of the command
REQUIRED_ARGUMENTS = {
    "publish": ["temperatures"],
    "load-base": ["temperatures"],
    "new-table": ["prices"],
    "replay": ["temperatures"],
    "repair difference": ["--version", "7", "--reason", "known"],
    "restore": ["--version", "7"],
    "compare": ["temperatures", "--database", "postgresql://host/shop"],
}


def valued_options() -> list[tuple[str, Any]]:
    return [
        (verb, parameter)
        for verb, command in sorted(COMMANDS.items())
        for parameter in command.params
        if not getattr(parameter, "is_flag", False) and parameter.name != "help"
    ]


@pytest.mark.parametrize(("verb", "parameter"), [pytest.param(v, p, id=f"{v}-{p.name}") for v, p in valued_options()])
def test_an_option_with_a_wrong_value_is_named(verb: str, parameter: Any, home: Path) -> None:
    value = WRONG_VALUES.get(f"{verb} {parameter.name}") or WRONG_VALUES[parameter.name]
    option = parameter.opts[:1] if parameter.param_type_name == "option" else []
    required_arguments = REQUIRED_ARGUMENTS.get(verb, [])
    arguments = (
        required_arguments if parameter.name not in ("table", "new") or required_arguments[:1] == ["--version"] else []
    )
    line = last_line(*verb.split(), *arguments, *option, value, code=CODES.get(parameter.name, main.WRONG_USE))
    assert (option or [value])[0] in line
    assert not home.exists()


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_an_option_that_does_not_exist_is_wrong_use(verb: str, home: Path) -> None:
    assert "--nonsense" in last_line(*verb.split(), "--nonsense", code=main.WRONG_USE)
    words = [*REQUIRED_ARGUMENTS.get(verb, []), "too", "many", "words"]
    assert re.search("too|many|words", last_line(*verb.split(), *words, code=main.WRONG_USE))
    assert not home.exists()
