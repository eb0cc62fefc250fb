"""Arguments and options that several verbs share, and what they stand for."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.settings import Settings

TableArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TABLE", help="A declared table; may be left out where only one is declared.", show_default=False
    ),
]
TablesArgument = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="A declared table; default: all of them.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else, for scripts.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
MaxRecordsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="At most so many positions in a batch, several batches where there are more; wins over the declaration's"
        " max_records, also where it is more.",
        show_default="the declaration's max_records",
    ),
]
OnlyMergedOption = Annotated[
    bool, typer.Option("--only-merged", help="Leave the change feed and the rollups as they are.")
]


def examples(*lines: str) -> str:
    """Text under the help of a verb: each line a command that can be typed as it is."""
    return "\n\n".join(["Examples:", *(f"  $ {line}" for line in lines)])


def chosen_table(settings: "Settings", name: str | None) -> "StreamTable":
    """Return the declared table of that name, or the only one; anything else is wrong use."""
    from lakehouse.discovery import declared_tables

    tables = {table.name: table for table in declared_tables(settings)}
    if name is None and len(tables) == 1:
        (name,) = tables
    if name not in tables:
        fact = "Name one" if name is None else f"No table is declared as {name!r}"
        raise typer.BadParameter(f"{fact}: {', '.join(tables)}", param_hint="TABLE")
    return tables[name]


def chosen_tables(settings: "Settings", name: str | None) -> "tuple[StreamTable, ...]":
    """Return the declared table of that name, or all of them."""
    from lakehouse.discovery import declared_tables

    return declared_tables(settings) if name is None else (chosen_table(settings, name),)


def table_names(settings: "Settings") -> list[str]:
    """Names of every table that follows from a declaration, whether it exists or not."""
    return [name for table in chosen_tables(settings, None) for name in table.tables]
