"""Verbs that keep tables in shape: ``maintain``, and ``rewrite`` where they are declared in another one."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from lakehouse.cli.arguments import JsonOption, TableArgument, TablesArgument, chosen_table, chosen_tables, examples
from lakehouse.cli.output import print_json, print_table, say
from lakehouse.cli.phases import busy
from lakehouse.cli.table_session import load_settings, spark, table_context

if TYPE_CHECKING:
    from lakehouse.operations.maintain import Maintained

verbs = typer.Typer()


@verbs.command(epilog=examples("lakehouse maintain", "lakehouse maintain temperatures --json"))
def maintain(table: TablesArgument = None, json: JsonOption = False) -> None:
    """Compact and vacuum all tables of a declaration; no row changes.

    Removes the files that no version within the declared retention needs, once the change feed and the
    rollups have read what they need of them. A table to which nothing happened since the last time is
    left alone. Where one fails, the others are maintained all the same; it is told at the end.
    """
    from lakehouse.operations.maintain import maintain_all
    from lakehouse.storage.table_context import TableContext

    settings = load_settings()
    chosen, done = chosen_tables(settings, table), list["Maintained"]()
    try:
        with spark(settings) as session, busy("Maintaining"):
            maintain_all([TableContext(session, settings, each) for each in chosen], done.append)
    except Exception:
        if done:
            _print_maintained(done, json)
        raise
    _print_maintained(done, json)


def _print_maintained(done: "list[Maintained]", json: bool) -> None:
    if json:
        return print_json([asdict(one) for one in done])
    if not done:
        return say("No table exists yet.")
    print_table(
        ["table", "version", "files before", "files after", "removed", "outcome"],
        [(one.name, one.version, one.files_before, one.files_after, one.removed, _outcome(one)) for one in done],
    )
    return None


@verbs.command(epilog=examples("lakehouse rewrite orders", "lakehouse rewrite orders --json"))
def rewrite(table: TableArgument = None, json: JsonOption = False) -> None:
    """Write every row of a table once as it is declared now: with other types, or in other partitions.

    For what a merge refuses, since it costs as much as the table is large; `lakehouse plan` tells it. Every value
    stays what it is: one that cannot, as a text that is no number, ends it with an error. Progress stays.
    """
    from lakehouse.operations.rewrite_tables import rewrite_tables

    settings = load_settings()
    chosen = chosen_table(settings, table)
    with table_context(settings, chosen) as working, busy("Writing every row"):
        done = rewrite_tables(working)
    if json:
        return print_json([asdict(one) for one in done])
    if not done:
        return say(f"The tables of {chosen.name} have the types and partitions that are declared.")
    print_table(["table", "version", "written with"], [(one.name, one.version, one.detail) for one in done])
    return say(f"Next: lakehouse merge {chosen.name}")


def _outcome(done: "Maintained") -> str:
    if done.idle:
        return "nothing happened since the last time"
    return f"old files stay: {done.kept}" if done.kept else "done"
