"""Commands for the files of tables: ``maintain``, and ``rewrite`` after a change of types or partitions."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from lakehouse.cli.arguments import JsonOption, TableArgument, TablesArgument, examples, select_table, select_tables
from lakehouse.cli.output import print_json, print_line, print_table
from lakehouse.cli.phases import spinner
from lakehouse.cli.table_session import load_settings, spark, table_context

if TYPE_CHECKING:
    from lakehouse.operations.maintain import Maintained

commands = typer.Typer()


@commands.command(epilog=examples("lakehouse maintain", "lakehouse maintain temperatures --json"))
def maintain(table: TablesArgument = None, json: JsonOption = False) -> None:
    """Compact and vacuum all tables of a declaration; no row changes.

    Deletes files that no version within the declared retention needs, once the change feed, the rollups and the exports
    of changes have read what they need. Skips a table that has not changed since the last time. If one table fails, the
    others are still maintained, and the error comes at the end.
    """
    from lakehouse.discovery import declared_exports
    from lakehouse.operations.maintain import maintain_all
    from lakehouse.storage.table_context import TableContext

    settings = load_settings()
    stream_tables, results = select_tables(settings, table), list["Maintained"]()
    exports = declared_exports(settings)
    try:
        with spark(settings) as session, spinner("Maintaining"):
            contexts = [TableContext(session, settings, selected) for selected in stream_tables]
            maintain_all(contexts, results.append, exports)
    except Exception:
        if results:
            _print_results(results, json)
        raise
    _print_results(results, json)


def _print_results(results: "list[Maintained]", json: bool) -> None:
    if json:
        return print_json([asdict(result) for result in results])
    if not results:
        return print_line("No table exists yet.")
    print_table(
        ["table", "version", "files before", "files after", "removed", "outcome"],
        [
            (result.name, result.version, result.files_before, result.files_after, result.removed, _outcome(result))
            for result in results
        ],
    )
    return None


@commands.command(epilog=examples("lakehouse rewrite orders", "lakehouse rewrite orders --json"))
def rewrite(table: TableArgument = None, json: JsonOption = False) -> None:
    """Rewrite every row of a table with the declared types and partitions.

    A merge refuses such changes, because they cost as much as the table is large; `lakehouse plan` shows them. Every
    value is preserved. A value that cannot be converted, such as text that is not a number, stops the command with an
    error. Progress does not move.
    """
    from lakehouse.operations.rewrite_tables import rewrite_tables

    settings = load_settings()
    stream_table = select_table(settings, table)
    with table_context(settings, stream_table) as context, spinner("Rewriting every row"):
        results = rewrite_tables(context)
    if json:
        return print_json([asdict(result) for result in results])
    if not results:
        return print_line(f"Nothing to do: the tables of {stream_table.name} have the declared types and partitions.")
    print_table(
        ["table", "version", "written with"], [(result.name, result.version, result.detail) for result in results]
    )
    return print_line(f"Next: lakehouse merge {stream_table.name}")


def _outcome(result: "Maintained") -> str:
    if result.idle:
        return "skipped: no change since the last time"
    return f"old files stay: {result.kept}" if result.kept else "done"
