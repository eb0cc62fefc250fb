"""``plan``: what a declaration changes in its tables, before anything is changed."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import JsonOption, TablesArgument, chosen_tables, examples
from lakehouse.cli.output import print_json, print_table, say
from lakehouse.cli.table_session import load_settings, spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration import StreamTable
    from lakehouse.operations.planned_changes import Change
    from lakehouse.settings import Settings

verbs = typer.Typer()
_REFUSED = 1  # as every verb that found something wrong


@verbs.command(epilog=examples("lakehouse plan", "lakehouse plan orders --json"))
def plan(
    table: TablesArgument = None,
    quick: Annotated[bool, typer.Option("--quick", help="Without Spark: types of SQL are not looked at.")] = False,
    json: JsonOption = False,
) -> None:
    """Show what the next run does to the tables of a declaration: made, columns added, computed anew, or refused.

    Nothing is written, and the broker is not asked; Spark is, whether it can compute checks and measures. Ends with 1
    where something is refused.
    """
    from lakehouse.operations.planned_changes import plan_changes

    settings = load_settings()
    chosen = chosen_tables(settings, table)
    changes = [change for each in chosen for change in plan_changes(settings, each)]
    if not quick:
        changes = [*_types(settings, [each for each in chosen if each.has_sql]), *changes]
    if json:
        print_json({"changes": [asdict(change) for change in changes]})
    elif changes:
        print_table(["table", "change", "detail"], [(each.table, each.kind, each.detail) for each in changes])
    else:
        say("The tables are as they are declared.")
    if any(change.kind == "refuse" for change in changes):
        raise typer.Exit(_REFUSED)


def _types(settings: "Settings", tables: "Sequence[StreamTable]") -> "list[Change]":
    """What Spark refuses of the SQL of some tables."""
    from lakehouse.operations.planned_changes import plan_types

    if not tables:
        return []
    with spark(settings) as session:
        return [change for each in tables for change in plan_types(session, each)]
