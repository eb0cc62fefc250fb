"""``plan``: what a declaration changes in its tables, before anything is changed."""

from dataclasses import asdict

import typer

from lakehouse.cli.arguments import JsonOption, TableArgument, chosen_tables, examples
from lakehouse.cli.output import print_json, print_table, say
from lakehouse.cli.session import load_settings

verbs = typer.Typer()
_REFUSED = 1  # as every verb that found something wrong


@verbs.command(epilog=examples("lakehouse plan", "lakehouse plan orders --json"))
def plan(table: TableArgument = None, json: JsonOption = False) -> None:
    """Show what the next run does to the tables of a declaration: made, columns added, computed anew, or refused.

    Nothing is written, and neither Spark nor the broker is asked. Ends with 1 where something is refused.
    """
    from lakehouse.upkeep.plan import plan_changes

    settings = load_settings()
    changes = [change for each in chosen_tables(settings, table) for change in plan_changes(settings, each)]
    if json:
        print_json({"changes": [asdict(change) for change in changes]})
    elif changes:
        print_table(["table", "change", "detail"], [(each.table, each.kind, each.detail) for each in changes])
    else:
        say("The tables are as they are declared.")
    if any(change.kind == "refuse" for change in changes):
        raise typer.Exit(_REFUSED)
