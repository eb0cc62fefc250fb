"""The verb that keeps tables in shape: ``maintain``."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from lakehouse.cli.arguments import JsonOption, TableArgument, chosen_tables, examples
from lakehouse.cli.output import busy, print_json, print_table, say
from lakehouse.cli.session import load_settings, spark

if TYPE_CHECKING:
    from lakehouse.upkeep.maintain import Maintained

verbs = typer.Typer()


@verbs.command(epilog=examples("lakehouse maintain", "lakehouse maintain temperatures --json"))
def maintain(table: TableArgument = None, json: JsonOption = False) -> None:
    """Compact and vacuum all tables of a declaration; no row changes.

    Removes the files that no version within the declared retention needs, once the change feed and the
    rollups have read what they need of them. A table to which nothing happened since the last time is
    left alone.
    """
    from lakehouse.delta.engine import Engine
    from lakehouse.upkeep.maintain import maintain as keep

    settings = load_settings()
    chosen = chosen_tables(settings, table)
    with spark(settings) as session, busy("Maintaining"):
        done = [one for each in chosen for one in keep(Engine(session, settings, each))]
    if json:
        return print_json([asdict(one) for one in done])
    if not done:
        return say("No table exists yet.")
    print_table(
        ["table", "version", "files before", "files after", "removed", "outcome"],
        [(one.name, one.version, one.files_before, one.files_after, one.removed, _outcome(one)) for one in done],
    )
    return None


def _outcome(done: "Maintained") -> str:
    if done.idle:
        return "nothing happened since the last time"
    return f"old files stay: {done.kept}" if done.kept else "done"
