"""The ``lakehouse`` command: its verbs, its exit codes, and one sentence where something goes wrong.

Exit codes: 0 done, 1 failed with a clear error, 2 wrong use, 3 nothing to do where ``--fail-if-idle``
was asked, 4 not up to date where ``status --exit-code`` was asked, 130 interrupted.
"""

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
    demo,
    doctor,
    following,
    maintenance,
    merge_verbs,
    new_project,
    new_table,
    peek,
    plan,
    rejected,
    repair_verbs,
    show,
    stack,
    topics,
)
from lakehouse.cli.output import complain, say
from lakehouse.cli.stopping import INTERRUPTED, end_process, interrupt, interrupt_again
from lakehouse.errors import LakehouseError
from lakehouse.storage.lock_holder import name_work

DONE, FAILED, WRONG_USE = 0, 1, 2

app = typer.Typer(
    name="lakehouse",
    help="Kafka topics merged exactly into Delta tables. Begin with `lakehouse init`, or `lakehouse demo TABLE`.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"lakehouse {version('dagster-lakehouse')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    show_version: Annotated[  # noqa: ARG001 - its callback shows it
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and stop."),
    ] = False,
) -> None:
    """Take the options that stand before a verb, and tell by its name whoever waits for what it does."""
    name_work(f"lakehouse {context.invoked_subcommand}")


for family in (
    demo,
    new_project,
    new_table,
    stack,
    doctor,
    topics,
    peek,
    plan,
    merge_verbs,
    following,
    show,
    rejected,
    repair_verbs,
    maintenance,
):
    app.add_typer(family.verbs)


def main() -> NoReturn:
    """Run the verb named on the command line and end with its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell started us with SIGINT ignored
        signal.signal(number, interrupt)
    logging.getLogger().addHandler(logging.NullHandler())  # what libraries log, we say in one sentence
    sys.unraisablehook = interrupt_again
    code = run(sys.argv[1:])
    for number in (signal.SIGINT, signal.SIGTERM):  # whoever asks once more does not wait for what Python still ends
        signal.signal(number, lambda *_: os._exit(code))
    end_process(code)


def run(arguments: Sequence[str]) -> int:
    """Run one verb and return its exit code; errors become one sentence on standard error."""
    try:
        return app(args=list(arguments), prog_name="lakehouse", standalone_mode=False) or DONE
    except typer.TyperException as error:
        return _wrong_use(error)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except LakehouseError as error:
        complain(str(error))
        return FAILED
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; there is nobody to tell
        return FAILED
    except Exception as error:  # the last resort: nobody should have to read a traceback
        return _unexpected(error)


def _wrong_use(error: typer.TyperException) -> int:
    sentence = " ".join(error.format_message().split())
    if sentence:
        context = getattr(error, "ctx", None)  # of the verb, where one was named
        verb = context.command_path if context else "lakehouse"
        complain(f"{sentence if sentence[-1] in '.?' else sentence + '.'} See {verb} --help.")
    return WRONG_USE


def _unexpected(error: Exception) -> int:
    with tempfile.NamedTemporaryFile("w", prefix="lakehouse-error-", suffix=".txt", delete=False) as file:
        file.write(traceback.format_exc())
    first = (str(error).strip().splitlines() or ["it says nothing"])[0]
    complain(
        f"Unexpected {type(error).__name__}: {first} (all of it is in {file.name}). Run it again: it goes on from what"
        " the tables hold. If it comes again, report it with that file."
    )
    return FAILED
