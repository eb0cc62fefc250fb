"""Commands for what follows tables: ``export``, ``materialize``, ``register`` and ``serve``."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import JsonOption, examples
from lakehouse.cli.output import count_text, print_json, print_line, print_notice, print_table
from lakehouse.cli.table_session import broker_of, load_settings
from lakehouse.errors import LakehouseError, SetupError

if TYPE_CHECKING:
    from lakehouse.catalogs.registration import Registrable
    from lakehouse.declaration import View
    from lakehouse.declaration.sink import Outlet
    from lakehouse.exports.exporter import OutletUpdate
    from lakehouse.operations.readers import ViewStatus
    from lakehouse.settings import Settings

commands = typer.Typer()

_DAY = 86_400  # seconds
_COLUMNS = {
    "export": "name",
    "version": "version",
    "of": "table",
    "up to version": "source_version",
    "wrote": "kind",
    "rows": "rows",
    "files": "files",
    "deleted": "deleted",
    "lag": "lag",
}
"""The columns of the table of ``export``, and what they show; those of which no update has a value are left out."""


@commands.command(epilog=examples("lakehouse export", "lakehouse export daily_temperatures --whole"))
def export(
    exports: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXPORT", help="Declared exports and sinks; default: all that are enabled.", show_default=False
        ),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Write all rows, also without news, and of an outlet of changes.")
    ] = False,
    print_statements: Annotated[
        bool, typer.Option("--print", help="Show what the runs of sinks do in their targets, and run nothing.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Write the rows of tables, or what changed in them, into files or the targets of sinks, if there is news.

    Needs no Spark. A manifest names the files of each version, and publishes them in one step. A sink brings its target
    to the newest version. If one fails, the others still run, and its error comes at the end.
    """
    from lakehouse.declaration import Sink
    from lakehouse.discovery import declared_tables
    from lakehouse.sinks.outlets import delivery_of, runner_of

    settings = load_settings()
    outlets, tables = _select_outlets(settings, exports), declared_tables(settings)
    if print_statements:
        deliveries = [delivery_of(settings, selected, tables) for selected in outlets if isinstance(selected, Sink)]
        for line in (line for delivery in deliveries for line in delivery.statements()):
            print_line(line if line[0] in "./" else f"{line};")  # commands of KQL have no end
        return None
    updates, errors = list["OutletUpdate"](), list[LakehouseError]()
    with broker_of(settings, outlets):
        for selected in outlets:
            runner = runner_of(settings, selected, tables)
            try:
                if not exports and runner.waits_for:
                    print_notice(f"{selected.name} waits: {selected.of} does not exist yet.")
                    continue
                updates.append(runner.update(whole=whole))
            except LakehouseError as error:
                errors.append(error)
    if updates or not errors or json:
        _print_updates(updates, json)
    return _raise_all("exports", errors)


def _raise_all(what: str, errors: list[LakehouseError]) -> None:
    """Raise the only error, or one that names all of them."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise LakehouseError(f"{len(errors)} {what} failed: {' '.join(map(str, errors))}") from errors[0]


def _select_outlets(settings: "Settings", names: list[str] | None) -> "list[Outlet]":
    """Return the declared exports and sinks of these names, or all that are enabled."""
    from lakehouse.declaration.names import spelling_hint
    from lakehouse.discovery import declared_outlets

    outlets_by_name = {outlet.name: outlet for outlet in declared_outlets(settings)}
    for name in names or ():
        if name not in outlets_by_name:
            problem = f"Unknown export {name!r}. {spelling_hint(name, outlets_by_name)}"
            of_table = [outlet.name for outlet in outlets_by_name.values() if outlet.of == name]
            known_names = f"Declared: {', '.join(outlets_by_name)}" if outlets_by_name else "None is declared"
            known_names = f"Exports of the table {name}: {', '.join(of_table)}" if of_table else known_names
            raise typer.BadParameter(f"{problem}{known_names}", param_hint="EXPORT")
    if names:
        return [outlets_by_name[name] for name in dict.fromkeys(names)]
    return [outlet for outlet in outlets_by_name.values() if outlet.enabled]


def _print_updates(updates: "list[OutletUpdate]", json: bool) -> None:
    if json:
        return print_json([asdict(update) for update in updates])
    if not updates:
        return print_line("No export ran: none is declared and enabled.")
    rows = [asdict(update) | {"kind": update.kind or "no news"} for update in updates]
    columns = {title: name for title, name in _COLUMNS.items() if any(name in row for row in rows)}
    return print_table([*columns], [[row.get(name) for name in columns.values()] for row in rows])


@commands.command(epilog=examples("lakehouse materialize", "lakehouse materialize sales_by_city --json"))
def materialize(
    view: Annotated[
        str | None,
        typer.Argument(metavar="VIEW", help="A materialized view; default: all of them.", show_default=False),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compute the rows of materialized views again, and store them, if there is news in their tables.

    Needs neither Spark nor a broker. The commit names the versions of the tables that were read. A view that is
    computed from another one comes after it.
    """
    from lakehouse.declaration.view import add_sources
    from lakehouse.discovery import declared_tables
    from lakehouse.operations.materialize import Materialization, type_views

    settings = load_settings()
    views, chosen_views = _select_views(settings, view)
    type_views(declared_tables(settings), add_sources(chosen_views, views))
    updates = [Materialization(settings, chosen, views).update() for chosen in chosen_views]
    if json:
        return print_json([asdict(update) for update in updates])
    if not updates:
        return print_line("No materialized view is declared.")
    rows = [
        (update.name, update.version, update.rows, ", ".join(f"{name} {v}" for name, v in update.versions.items()))
        for update in updates
    ]
    return print_table(["view", "version", "rows written", "computed from"], rows)


def _select_views(settings: "Settings", name: str | None) -> "tuple[tuple[View, ...], list[View]]":
    """Return all declared views, and the materialized view of that name, or all of them."""
    from lakehouse.declaration.names import spelling_hint
    from lakehouse.discovery import declared_views

    views = declared_views(settings)
    stored_views = {view.name: view for view in views if view.materialized}
    if name is not None and name not in stored_views:
        problem = f"Unknown materialized view {name!r}. {spelling_hint(name, stored_views)}"
        names = f"Declared: {', '.join(stored_views)}" if stored_views else "None is declared"
        raise typer.BadParameter(f"{problem}{names}", param_hint="VIEW")
    return views, list(stored_views.values()) if name is None else [stored_views[name]]


def print_view_status(status: "ViewStatus") -> None:
    """Print the status of a view: what its rows were computed from, and whether there is news."""
    if not status.materialized:
        return print_line(f"{status.view}: a view, computed when it is read")
    if status.version is None:
        state = status.problem or f"Run: lakehouse materialize {status.view}"
        return print_line(f"{status.view}: a view whose rows are not stored yet. {state}")
    print_line(f"{status.view}: a view, version {status.version}, {count_text(status.rows or 0, 'row')} ({status.uri})")
    tables = ", ".join(f"{name} {version}" for name, version in status.computed_from.items())
    print_line(f"Computed from: {tables or 'no table'}. {status.problem or ''}".rstrip())
    if status.news:
        changes = "its query or its rows" if status.view in status.news else f"rows of {', '.join(status.news)}"
        print_line(f"Out of date: {changes} changed. Run: lakehouse materialize {status.view}")
    return None


@commands.command(epilog=examples("lakehouse register", "lakehouse register daily_temperatures --check"))
def register(
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE", help="Tables; default: all but those of rejected records.", show_default=False),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only say what differs in the catalog; then exit 1.")] = False,
    json: JsonOption = False,
) -> None:
    """Register tables by their names in the catalog of LAKEHOUSE_CATALOG: location, columns, comments and owner.

    Needs neither Spark nor a broker. Writes only what differs. If one fails, the others are still registered, and its
    error comes at the end.
    """
    from lakehouse.catalogs.register import register_all

    settings = load_settings()
    chosen_tables = _select_registrable(settings, tables)
    results, errors = register_all(settings, chosen_tables, check=check, must_exist=bool(tables))
    for note in (f"{table.table}: {table.note}" for table in results if table.note):
        print_notice(note)
    if json:
        print_json([asdict(table) for table in results])
    elif results or not errors:
        rows = [(table.table, table.outcome, " ".join(table.differences)) for table in results]
        print_table(["table", "in the catalog", "what differed"], rows)
    _raise_all("registrations", [*{str(error): error for error in errors.values()}.values()])
    if check and any(table.differences for table in results):
        raise typer.Exit(1)


def _select_registrable(settings: "Settings", names: list[str] | None) -> "list[Registrable]":
    """Return the tables of these names, or those that are registered by default."""
    from lakehouse.catalogs.register import registrable_tables
    from lakehouse.declaration.names import spelling_hint
    from lakehouse.discovery import declared_tables, declared_views

    tables, views = declared_tables(settings), declared_views(settings)
    by_name = {table.layout.name: table for table in registrable_tables(settings, tables, views, every=True)}
    for name in names or ():
        if name not in by_name:
            problem = f"Unknown table {name!r}. {spelling_hint(name, by_name)}Tables: {', '.join(by_name)}"
            raise typer.BadParameter(problem, param_hint="TABLE")
    chosen_tables = (by_name[name] for name in dict.fromkeys(names or ()))
    return [*(chosen_tables if names else registrable_tables(settings, tables, views))]


@commands.command(epilog=examples("lakehouse serve", "lakehouse serve --port 8080 --time-limit 60"))
def serve(
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address to listen on. Other machines need LAKEHOUSE_SERVE_TOKEN.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="PORT", help="0 is any free port.")] = 8000,
    time_limit: Annotated[
        int, typer.Option(min=1, max=_DAY, metavar="SECONDS", help="Interrupt a query that takes longer.")
    ] = 30,
    page_size: Annotated[
        int, typer.Option(min=1, max=1_000, metavar="MB", help="A page has no more megabytes of JSON: then fewer rows.")
    ] = 16,
) -> None:
    """Serve the tables over HTTP, read-only: rows, aggregates, changes and status as JSON.

    Needs no Java, no broker and no other service. /v1/openapi.json describes the paths. Ctrl-C ends it at once.
    """
    settings = load_settings()
    try:
        from lakehouse.serve.database import MEGABYTE
        from lakehouse.serve.requests import is_loopback
        from lakehouse.serve.server import Limits
        from lakehouse.serve.server import serve as serve_tables
    except ModuleNotFoundError as error:
        action = "Install the extra: pip install 'dagster-lakehouse[serve]'"
        raise SetupError(f"The package {error.name} is not installed", action=action) from None
    if not is_loopback(host) and settings.serve_token is None:
        problem = f"{host} can be reached from other machines, so LAKEHOUSE_SERVE_TOKEN must be set"
        raise typer.BadParameter(problem, param_hint="--host")

    def announce(address: str) -> None:
        access = "requests need the token" if settings.serve_token else "this machine only, without a token"
        print_line(f"Serving {settings.tables_root} at {address} ({access}). Ctrl-C ends it.")
        sys.stdout.flush()  # a supervisor that reads it waits for this line

    serve_tables(settings, host, port, Limits(time_limit, page_size * MEGABYTE), announce)
