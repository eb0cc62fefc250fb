"""The ``lakehouse`` command line: its commands, its exit codes, and errors in one line.

Exit codes: 0 done, 1 failed with a clear error, 2 wrong usage, 3 nothing to do (with ``--fail-if-idle``), 4 not up to
date (with ``status --exit-code``), 130 interrupted.
"""

import gc
import logging
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from lakehouse.cli import (
    compare,
    demo,
    doctor,
    following,
    maintenance,
    merge_verbs,
    new_project,
    new_table,
    outputs,
    peek,
    publish,
    query,
    rejected,
    repair_verbs,
    show,
    stack,
    topics,
)
from lakehouse.cli.arguments import PlainGroup, show_plainly
from lakehouse.cli.output import print_line, print_notice
from lakehouse.cli.table_session import INTERRUPTED, end_process, interrupt, interrupt_again
from lakehouse.errors import LakehouseError
from lakehouse.storage.lock_holder import name_work

DONE, FAILED, WRONG_USE = 0, 1, 2
_COLLECTED_OBJECTS = 50_000  # new objects between two searches for garbage; imports make many, and no garbage
_FORMER_VERBS = {
    "accept-gap": "repair gap",
    "accept-difference": "repair difference",
    "delete-missing": "repair missing-keys",
    "recover-progress": "repair progress",
}

app = typer.Typer(
    name="lakehouse",
    cls=PlainGroup,
    help="Merge Kafka topics into Delta tables, exactly once. Start with `lakehouse init` or `lakehouse demo TABLE`.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong use, 3 nothing to do (with --fail-if-idle), 4 not up to date (with"
    " status --exit-code), 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print_line(f"lakehouse {version('dagster-lakehouse')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    show_version: Annotated[  # noqa: ARG001 - its callback shows it
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit."),
    ] = False,
) -> None:
    """Handle the options before the command, and publish the command's name to processes that wait for its locks."""
    name_work(f"lakehouse {context.invoked_subcommand}")


for module in (
    demo,
    new_project,
    new_table,
    stack,
    doctor,
    topics,
    publish,
    peek,
    compare,
    merge_verbs,
    following,
    show,
    query,
    rejected,
    repair_verbs,
    maintenance,
    outputs,
):
    for command in module.commands.registered_commands:
        show_plainly(command)
    app.add_typer(module.commands)


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    gc.set_threshold(_COLLECTED_OBJECTS)
    for number in (signal.SIGINT, signal.SIGTERM):  # even if a shell started us with SIGINT ignored
        signal.signal(number, interrupt)
    logging.getLogger().addHandler(logging.NullHandler())  # libraries do not print: we report errors in one line
    sys.unraisablehook = interrupt_again
    code = run(sys.argv[1:])
    for number in (signal.SIGINT, signal.SIGTERM):  # a second signal does not wait for Python to exit
        signal.signal(number, lambda *_: os._exit(code))
    end_process(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; an error becomes one line on standard error."""
    try:
        return app(args=list(arguments), prog_name="lakehouse", standalone_mode=False) or DONE
    except typer.TyperException as error:
        return _wrong_use(error)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except LakehouseError as error:
        print_notice(str(error))
        return FAILED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output is gone, and cannot see an error
        return FAILED
    except Exception as error:  # last resort: users should not have to read a traceback
        return _unexpected(error)


def _wrong_use(error: typer.TyperException) -> int:
    message = " ".join(error.format_message().split())
    former_verb = next((verb for verb in _FORMER_VERBS if message.startswith(f"No such command '{verb}'")), None)
    message = f"Write lakehouse {_FORMER_VERBS[former_verb]} in place of {former_verb}." if former_verb else message
    if message:
        context = getattr(error, "ctx", None)  # missing if the error comes before a command
        command = context.command_path if context else "lakehouse"
        print_notice(f"{message if message[-1] in '.?' else message + '.'} See {command} --help.")
    return WRONG_USE


def _unexpected(error: Exception) -> int:
    with tempfile.NamedTemporaryFile("w", prefix="lakehouse-error-", suffix=".txt", delete=False) as file:
        file.write(traceback.format_exc())
    first_line = (str(error).strip().splitlines() or ["no message"])[0]
    print_notice(
        f"Unexpected {type(error).__name__}: {first_line} (the traceback is in {file.name}). Run the command again: it"
        " continues from the state of the tables. If the error returns, report it with that file."
    )
    return FAILED
