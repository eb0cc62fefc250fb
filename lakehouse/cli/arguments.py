"""Arguments and options that several commands share, and the tables that they select."""

from collections.abc import Callable
from dataclasses import replace
from inspect import cleandoc
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.models import CommandInfo

from lakehouse.cli.output import print_notice

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.discovery import Declarations
    from lakehouse.errors import LakehouseError
    from lakehouse.settings import Settings

TableArgument = Annotated[
    str | None,
    typer.Argument(metavar="TABLE", help="A declared table. Optional if only one is declared.", show_default=False),
]
TablesArgument = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="A declared table; default: all of them.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON, for scripts.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
MaxRecordsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Read at most N offsets per batch; a larger backlog takes several batches. Overrides max_records of the"
        " declaration, even with a larger value.",
        show_default="max_records of the declaration",
    ),
]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", metavar="TOPIC", help="One topic of a table that reads several.", show_default=False),
]
OnlyMergedOption = Annotated[
    bool, typer.Option("--only-merged", help="Do not refresh the change feed and the rollups.")
]
_ABOUT_BROKER = (
    "Uses the broker in LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS. If that is not set, the command starts the embedded broker"
    " of this home, unless it runs already, and stops it at the end."
)
CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])


def examples(*command_lines: str) -> str:
    """Text under the help of a command: command lines that can be typed as they are."""
    return "\n\n".join(["Examples:", *(f"  $ {line}" for line in command_lines)])


def select_table(settings: "Settings", name: str | None, advice: str = "") -> "StreamTable":
    """Return the declared table of that name, or the only one; anything else is wrong usage, with this advice.

    Notes files of declarations that fail. Raises the error of such a file if the others do not declare the table.
    """
    from lakehouse.declaration.names import spelling_hint
    from lakehouse.discovery import declared_tables, find_readable_tables

    errors: list[LakehouseError] = []
    tables = {table.name: table for table in find_readable_tables(settings, errors.append)}
    if name not in tables:  # a file that fails may declare it, or another one
        tables = {table.name: table for table in declared_tables(settings)}
    for error in errors:
        print_left_out(error)
    if name is None and len(tables) == 1:
        (name,) = tables
    if name not in tables:
        problem = "Several tables are declared; name one"
        if name is not None:
            problem = f"Unknown table {name!r}. {spelling_hint(name, tables)}{advice}Declared tables"
        raise typer.BadParameter(f"{problem}: {', '.join(tables)}", param_hint="TABLE")
    return tables[name]


def print_left_out(error: "LakehouseError") -> None:
    """Print why a file of declarations fails, for a command that needs only other files."""
    print_notice(f"The tables of a file are left out: {error}")


def find_declared(settings: "Settings", name: str) -> "StreamTable | None":
    """Return the declared table of that name, ``None`` if there is none; notes files of declarations that fail.

    Raises the error of such a file if no other file declares the table: it may declare a table of that name.
    """
    from lakehouse.discovery import find_readable_tables

    errors: list[LakehouseError] = []
    tables = {table.name: table for table in find_readable_tables(settings, errors.append)}
    for error in errors:
        if name not in tables:
            raise error
        print_left_out(error)
    return tables.get(name)


def readable_declarations(settings: "Settings", name: str | None) -> "tuple[Declarations, list[LakehouseError]]":
    """Return what the files of declarations declare, of tables only the one of that name if one is given.

    If files fail, this is what the others declare; the errors of these files come with it, unless a table is named.
    """
    from lakehouse.discovery import declared_tables, readable_declarations

    errors: list[LakehouseError] = []
    declarations = readable_declarations(settings, errors.append)
    if name is not None:
        return replace(declarations, tables=(select_table(settings, name),)), []
    if not declarations.tables:
        declared_tables(settings)  # raises why there are none
    return declarations, errors


def select_tables(settings: "Settings", name: str | None) -> "tuple[StreamTable, ...]":
    """Return the declared table of that name, or all of them."""
    from lakehouse.discovery import declared_tables

    return declared_tables(settings) if name is None else (select_table(settings, name),)


def table_names(settings: "Settings") -> list[str]:
    """Names of all tables of all declarations, including tables that do not exist yet."""
    return [name for table in select_tables(settings, None) for name in table.tables]


def select_topic(table: "StreamTable", name: str | None, hint: str = "--topic") -> "StreamTable":
    """Return the declaration for the topic of that name, whether it exists or not, or for the only one.

    Anything else is wrong usage of the argument or option ``hint``.
    """
    from lakehouse.ingest.topics import reads_topic_of

    if (table.topic or not table.has_topics) and name in (None, table.topic or None):
        return table
    if name is not None and reads_topic_of(table, name):
        return table.in_topic(name)
    problem = "reads several topics; name one" if name is None else f"does not read topic {name}"
    raise typer.BadParameter(f"{table.name} {problem}: {table.topic_text}", param_hint=hint)


class _PlainHelp:
    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, flags without a type: a flag takes no value."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if isinstance(parameter, TyperOption) and parameter.is_flag:
                parameter.metavar = ""
        return parameters


class PlainCommand(_PlainHelp, TyperCommand):
    """A command whose help shows ``--json``, not ``--json <bool>``."""


class PlainGroup(_PlainHelp, TyperGroup):
    """The same for the options before a command."""


def starts_broker(command: CommandFunction) -> CommandFunction:
    """Append to the help of a command which broker it uses, and that it starts one; placed below ``command()``."""
    command.__doc__ = f"{cleandoc(command.__doc__ or '')}\n\n{_ABOUT_BROKER}"
    return command


def show_plainly(command: CommandInfo) -> None:
    """Make the docstring of a command its help, with each paragraph as one line: the terminal wraps it."""
    text = cleandoc((command.callback and command.callback.__doc__) or "")
    command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    command.cls = PlainCommand
