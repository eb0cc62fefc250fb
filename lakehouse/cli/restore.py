"""``restore``: a table goes back to an earlier version, and the next merge reads the undone records again."""

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import YesOption, examples, select_tables
from lakehouse.cli.facts import seconds
from lakehouse.cli.output import print_line, print_notice, print_table
from lakehouse.cli.phases import spinner
from lakehouse.cli.table_session import load_settings

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.operations.restore import PlannedRestore
    from lakehouse.settings import Settings
    from lakehouse.storage.layout import Layout

commands = typer.Typer()

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="A declared table, or its rejected records, deletes, feed, rollup or base table."
    ),
]
VersionOption = Annotated[
    int,
    typer.Option("--version", min=0, metavar="V", help="An earlier version; lakehouse audit lists them."),
]


@commands.command(epilog=examples("lakehouse restore temperatures --version 42"))
def restore(name: NameArgument, version: VersionOption, yes: YesOption = False) -> None:
    """Restore a table to an earlier version. The next merge reads the undone records again.

    First shows the version and its time, the rows, and the offsets to which the progress goes back. Needs no Spark.
    `lakehouse up` can stay up: the command takes the lock of the table, and a batch that was planned before is planned
    again. It is refused if a batch is committed while you confirm: then run it again, or turn off the sensor first. A
    version that is older than the declared retention may have no files left, and is refused.
    """
    from lakehouse.operations.restore import plan_restore

    settings = load_settings()
    table, layout = _find_layout(settings, name)
    planned_restore = plan_restore(layout, version)
    begins_at_start = name == table.name and table.start is not None and planned_restore.undoes_start
    _show(planned_restore, "start" if begins_at_start else "earliest")
    _warn(table, name)
    if begins_at_start:
        print_notice(f"The next merge looks up the start again: start={table.start!r}. What is before it is left out.")
    if not yes:
        typer.confirm(f"Restore {name} to version {version}?", abort=True, err=True)
    with spinner("Restoring"):
        planned_restore.run()
    verb = {table.rejected_name: "replay", table.base_name: "load-base"}.get(name, "merge")
    print_line(f"Restored {name} to version {version}. Next: lakehouse {verb} {table.name}")


def _find_layout(settings: "Settings", name: str) -> "tuple[StreamTable, Layout]":
    """The table of that name and its declaration; anything else is wrong usage."""
    from lakehouse.declaration.misspelt import spelling_hint
    from lakehouse.operations.layouts import layouts_of

    tables = select_tables(settings, None)
    layouts = {layout.name: (table, layout) for table in tables for layout in layouts_of(settings, table)}
    if name not in layouts:
        problem = f"Unknown table {name!r}. {spelling_hint(name, layouts)}Tables: {', '.join(layouts)}"
        raise typer.BadParameter(problem, param_hint="TABLE")
    return layouts[name]


def _warn(table: "StreamTable", name: str) -> None:
    """Say what a person may lose."""
    if name == table.rejected_name:
        print_notice(
            "Records that were rejected after that version are then only in the topic, if it still holds them."
        )
    if name == table.base_name:
        print_notice(
            f"Rows that {table.name} took from it stay there. Correct the base files before you load them again."
        )
    if name == table.deletes_name:
        print_notice(f"The next merge restores the version of it that counts for {table.name}.")
    if name == table.name and table.delete_rule:
        print_notice("Deletes that were merged after that version no longer count, until they are merged again.")
    if name == table.name and table.gaps == "accept":
        print_notice('The table declares gaps="accept": undone records that expired are lost without a stop.')


def _show(restore: "PlannedRestore", first: str) -> None:
    time = f" of {seconds(restore.committed_at)}" if restore.committed_at else ""
    rows_now, rows_then = restore.rows
    print_notice(
        f"{restore.layout.name} goes back from version {restore.newest} to version {restore.version}{time}:"
        f" {rows_now:,} rows now, {rows_then:,} then."
    )
    if restore.positions:
        print_table(
            ["partition", "next offset now", "next offset then"],
            [(p, now, first if then is None else then) for p, (now, then) in restore.positions.items()],
            title="The next merge continues at the offset then, and reads later records again",
        )
