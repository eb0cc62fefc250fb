"""``plan``: what a declaration changes in its tables, before anything is changed."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import JsonOption, TablesArgument, examples, select_tables
from lakehouse.cli.output import print_json, print_line, print_table
from lakehouse.cli.table_session import load_settings, spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration import StreamTable
    from lakehouse.operations.planned_changes import Change
    from lakehouse.settings import Settings

commands = typer.Typer()
_REFUSED = 1  # the exit code of every command that finds a problem


@commands.command(epilog=examples("lakehouse plan", "lakehouse plan orders --json"))
def plan(
    table: TablesArgument = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not start Spark; types in SQL are not checked.")] = False,
    json: JsonOption = False,
) -> None:
    """Show what the next run does to the tables of a declaration: create, add columns, recompute, or refuse.

    Writes nothing and does not need the broker. Asks Spark whether it can compute the checks and measures. Exits with 1
    if a change is refused.
    """
    from lakehouse.operations.planned_changes import plan_changes

    settings = load_settings()
    stream_tables = select_tables(settings, table)
    changes = [change for stream_table in stream_tables for change in plan_changes(settings, stream_table)]
    if not quick:
        with_sql = [stream_table for stream_table in stream_tables if stream_table.has_sql]
        changes = [*_refused_types(settings, with_sql), *changes]
    if json:
        print_json({"changes": [asdict(change) for change in changes]})
    elif changes:
        print_table(["table", "change", "detail"], [(change.table, change.kind, change.detail) for change in changes])
    else:
        print_line("No changes: the tables match their declarations.")
    if any(change.kind == "refuse" for change in changes):
        raise typer.Exit(_REFUSED)


def _refused_types(settings: "Settings", tables: "Sequence[StreamTable]") -> "list[Change]":
    """What Spark refuses in the SQL of some tables."""
    from lakehouse.operations.planned_changes import plan_types

    if not tables:
        return []
    with spark(settings) as session:
        return [change for table in tables for change in plan_types(session, table)]
