"""The command for views whose rows are stored: ``materialize``, and how ``status`` shows views."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import JsonOption, examples
from lakehouse.cli.output import count_text, print_json, print_line, print_table
from lakehouse.cli.table_session import load_settings

if TYPE_CHECKING:
    from lakehouse.declaration import View
    from lakehouse.operations.readers import ViewStatus
    from lakehouse.settings import Settings

commands = typer.Typer()


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
    from lakehouse.operations.materialize import Materialization
    from lakehouse.operations.view_columns import type_views

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
    from lakehouse.declaration.misspelt import spelling_hint
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
