"""Commands for the files of tables: ``maintain``, ``rewrite``, ``restore``, ``rebuild``, ``erase``, ``remove``."""

from dataclasses import asdict
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import (
    JsonOption,
    TableArgument,
    TablesArgument,
    YesOption,
    examples,
    select_table,
    select_tables,
    starts_broker,
)
from lakehouse.cli.facts import seconds
from lakehouse.cli.output import count_text, print_json, print_line, print_notice, print_table, spinner
from lakehouse.cli.table_session import broker, broker_of, load_settings, registry, spark, table_context
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.operations.erase_rows import Erasure
    from lakehouse.operations.maintain import Maintained
    from lakehouse.operations.rewrite_tables import PlannedRestore
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


@commands.command(epilog=examples("lakehouse maintain", "lakehouse maintain temperatures --json"))
def maintain(table: TablesArgument = None, json: JsonOption = False) -> None:
    """Compact and vacuum all tables of a declaration; no row changes.

    Deletes files that no version within the declared retention needs, once the change feed, the rollups and the exports
    of changes have read what they need. Skips a table that has not changed since the last time. If one table fails, the
    others are still maintained, and the error comes at the end.
    """
    from lakehouse.discovery import declared_outlets
    from lakehouse.operations.maintain import maintain_all
    from lakehouse.storage.table_context import TableContext

    settings = load_settings()
    stream_tables, results = select_tables(settings, table), list["Maintained"]()
    outlets = declared_outlets(settings)
    try:
        with broker_of(settings, outlets), spark(settings) as session, spinner("Maintaining"):
            contexts = [TableContext(session, settings, selected) for selected in stream_tables]
            maintain_all(contexts, results.append, outlets)
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


@commands.command(epilog=examples("lakehouse restore temperatures --version 42"))
def restore(name: NameArgument, version: VersionOption, yes: YesOption = False) -> None:
    """Restore a table to an earlier version. The next merge reads the undone records again.

    First shows the version and its time, the rows, and the offsets to which the progress goes back. Needs no Spark.
    `lakehouse up` can stay up: the command takes the lock of the table, and a batch that was planned before is planned
    again. It is refused if a batch is committed while you confirm: then run it again, or turn off the sensor first. A
    version that is older than the declared retention may have no files left, and is refused.
    """
    from lakehouse.operations.rewrite_tables import plan_restore

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


@commands.command(epilog=examples("lakehouse rebuild orders", "lakehouse rebuild orders --undo"))
@starts_broker
def rebuild(
    table: TableArgument = None,
    undo: Annotated[bool, typer.Option("--undo", help="Switch back to the tables before the last rebuild.")] = False,
    yes: YesOption = False,
) -> None:
    """Start a table again from all records of its topics, after any change of its declaration, also of its key.

    Builds new tables next to the stored ones, from the records and base files: rows, rejected records, deletes, change
    feed and rollups. Then puts them in their place. --undo brings the former ones back, and deletes the new ones; the
    next rebuild, or an erasure, deletes the former ones. Refused if records are gone or may be, in an object store, and
    while a declared table or view reads one of the tables. An export of changes stops: lakehouse export NAME --whole
    begins it again.
    """
    from lakehouse.ledger.versions import count_rows
    from lakehouse.operations.rebuild_tables import Places, switch

    settings = load_settings()
    stream_table = select_table(settings, table)
    places = Places.of(settings, stream_table)
    if places.interrupted:
        switch(settings, stream_table, places.interrupted)
        return print_line(f"Completed the switch of {stream_table.name} that was interrupted.")
    if undo and not (places.former / stream_table.name).exists():
        raise typer.BadParameter(f"There is no former version of {stream_table.name}", param_hint="--undo")
    if not undo:
        _build_copies(settings, stream_table, yes)
    switch(settings, stream_table, places.reversed if undo else places)
    if undo:
        rmtree(places.rebuilt)
    verb = "Switched back to the former" if undo else "Switched to the new"
    rows = count_rows(settings.table_uri(stream_table.name))
    return print_line(f"{verb} tables of {stream_table.name}: {rows:,} rows.")


def _build_copies(settings: "Settings", table: "StreamTable", yes: bool) -> None:
    from lakehouse.discovery import declared_tables, declared_views
    from lakehouse.ledger.versions import count_rows
    from lakehouse.operations.rebuild_tables import build_copies, count_records
    from lakehouse.operations.remove_tables import require_no_reader

    require_no_reader(settings, table, declared_tables(settings), declared_views(settings))
    with broker(settings, table, with_registry=table.has_schemas):
        count = count_records(settings, table)
        rows = count_rows(settings.table_uri(table.name))
        print_line(f"{table.topic_text} has all records, {count:,}. {table.name} has {rows:,} rows now.")
        if not yes:
            typer.confirm(f"Build {table.name} again from them?", abort=True, err=True)
        with table_context(settings, table) as context, spinner("Building next to the stored tables"):
            build_copies(context)


@commands.command(epilog=examples("""lakehouse erase orders --where "customer = 'Ada'\""""))
def erase(
    table: TableArgument = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="A condition on columns. Default: erase again what was erased before."),
    ] = None,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Erase rows and everything that the tables keep of their keys: former values, rejected records and deletes.

    Marks, which are hashes of keys, keep replays and redrives from bringing them back; after a restore, run it without
    --where. A later record of a key is a new row. Then says what still holds values, and until when.
    """
    from lakehouse.declaration.sql.parsed import named_columns
    from lakehouse.discovery import find_outlets, outlets_of
    from lakehouse.operations.erase_rows import erase as erase_rows
    from lakehouse.operations.rebuild_tables import Places

    settings = load_settings()
    stream_table = select_table(settings, table)
    if where is not None and (names := named_columns(where) - {*stream_table.by_name}):
        raise typer.BadParameter(f"Unknown columns: {', '.join(sorted(names))}", param_hint="--where")
    if where is not None and not yes:
        typer.confirm(f"Erase the rows of {stream_table.name} where {where}, for good?", abort=True, err=True)
    needs_registry = registry(settings, needed=stream_table.has_schemas)  # of rejected records
    outlets = outlets_of(stream_table, find_outlets(settings))
    needs_broker = broker_of(settings, outlets)
    with needs_registry, needs_broker, table_context(settings, stream_table) as context, spinner("Erasing"):
        erasure = erase_rows(context, where, outlets)
    if settings.store.folder:
        rmtree(Places.of(settings, stream_table).former, ignore_errors=True)
    if json:
        print_json(asdict(erasure))
    else:
        _print_erasure(erasure, stream_table)
    active = {outlet.name for outlet in outlets if outlet.enabled}
    failures = [f"{name}: {reason}" for name, reason in erasure.exports.items() if reason and name in active]
    if failures:
        action = "Correct that, and run it again. The tables are erased."
        raise LakehouseError(f"Exports keep what they published. {' '.join(failures)}", action=action)


def _print_erasure(erasure: "Erasure", table: "StreamTable") -> None:
    """Show what was erased, what remains, and until when."""
    print_table(["table", "rows erased"], list(erasure.removed.items()))
    if erasure.unreadable:
        records = count_text(erasure.unreadable, "rejected record")
        print_notice(f"{records} could not be read: lakehouse rejected {table.name} shows them.")
    written_exports = [name for name, reason in erasure.exports.items() if not reason]
    if written_exports:
        print_line(f"Exports written again, without their former versions: {', '.join(written_exports)}.")
    for reason in filter(None, erasure.exports.values()):
        print_notice(f"Not erased: {reason}")
    days = max(table.upkeep.retention.days, 1)
    print_line(
        f"Files of former versions keep the values for {count_text(days, 'day')}; then lakehouse maintain removes them."
    )
    print_line("The logs of the tables keep the least and greatest values of files for 30 days.")
    print_line(f"Not erased: the records of {table.place_text}, base files, and backups.")


@commands.command(epilog=examples("lakehouse remove orders"))
def remove(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A declared table.")], yes: YesOption = False
) -> None:
    """Remove a table for good: rows, rejected records, deletes, change feed, rollups, exports, and their history.

    First shows what goes, and asks. Stop what merges the table before: `lakehouse follow`, and with
    `LAKEHOUSE_REVIEWED=true` its sensor, which would create it again. Only a backup brings the rows back; the topic
    keeps its records, and Dagster its runs. Delete the declaration afterwards. Refused while another declared table or
    a view reads one of the tables.
    """
    from lakehouse.discovery import declared_tables, declared_views, find_outlets, outlets_of
    from lakehouse.operations.remove_tables import find_stored_parts, remove_parts, require_no_reader

    settings = load_settings()
    stream_table = select_table(settings, table)
    require_no_reader(settings, stream_table, declared_tables(settings), declared_views(settings))
    parts = find_stored_parts(settings, stream_table, outlets_of(stream_table, find_outlets(settings)))
    if not parts:
        return print_line(f"Nothing is stored of {table}. Delete its declaration.")
    rows = [(part.name, part.rows, part.bytes, str(part.path)) for part in parts]
    print_table(["name", "rows", "bytes", "folder"], rows, title="Nothing but a backup brings this back")
    if not yes:
        typer.confirm("Remove all of it?", abort=True, err=True)
    remove_parts(parts)
    return print_line(f"Removed {table}. Delete its declaration too: the next merge would create it again.")


def _find_layout(settings: "Settings", name: str) -> "tuple[StreamTable, Layout]":
    """The table of that name and its declaration; anything else is wrong usage."""
    from lakehouse.declaration.names import spelling_hint
    from lakehouse.operations.planned_changes import layouts_of

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
    if name == table.name and table.topic_options.gaps == "accept":
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
