"""The command for files that follow tables: ``export``."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import JsonOption, examples
from lakehouse.cli.output import print_json, print_line, print_notice, print_table
from lakehouse.cli.table_session import load_settings

if TYPE_CHECKING:
    from lakehouse.declaration import Export
    from lakehouse.exports.exporter import ExportUpdate
    from lakehouse.settings import Settings

commands = typer.Typer()


@commands.command(epilog=examples("lakehouse export", "lakehouse export daily_temperatures --whole"))
def export(
    exports: Annotated[
        list[str] | None,
        typer.Argument(metavar="EXPORT", help="Declared exports; default: all that are enabled.", show_default=False),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Write all rows, also without news, and of an export of changes.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Write the rows of tables, or what changed in them, into files, if there is news.

    Needs neither Spark nor a broker. A manifest names the files of each version, and publishes them in one step. If one
    export fails, the others still run, and its error comes at the end.
    """
    from lakehouse.errors import LakehouseError
    from lakehouse.exports.exporter import Exporter

    settings = load_settings()
    updates, errors = list["ExportUpdate"](), list[LakehouseError]()
    for selected in _select_exports(settings, exports):
        exporter = Exporter(settings, selected)
        try:
            if not exports and exporter.waits_for:
                print_notice(f"{selected.name} waits: {selected.of} does not exist yet.")
                continue
            updates.append(exporter.update(whole=whole))
        except LakehouseError as error:
            errors.append(error)
    if updates or not errors or json:
        _print_updates(updates, json)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise LakehouseError(f"{len(errors)} exports failed: {' '.join(map(str, errors))}") from errors[0]


def _select_exports(settings: "Settings", names: list[str] | None) -> "list[Export]":
    """Return the declared exports of these names, or all that are enabled."""
    from lakehouse.declaration.misspelt import spelling_hint
    from lakehouse.discovery import declared_exports

    exports_by_name = {export.name: export for export in declared_exports(settings)}
    for name in names or ():
        if name not in exports_by_name:
            problem = f"Unknown export {name!r}. {spelling_hint(name, exports_by_name)}"
            of_table = [export.name for export in exports_by_name.values() if export.of == name]
            known_names = f"Declared: {', '.join(exports_by_name)}" if exports_by_name else "None is declared"
            known_names = f"Exports of the table {name}: {', '.join(of_table)}" if of_table else known_names
            raise typer.BadParameter(f"{problem}{known_names}", param_hint="EXPORT")
    if names:
        return [exports_by_name[name] for name in dict.fromkeys(names)]
    return [export for export in exports_by_name.values() if export.enabled]


def _print_updates(updates: "list[ExportUpdate]", json: bool) -> None:
    if json:
        return print_json([asdict(update) for update in updates])
    if not updates:
        return print_line("No export ran: none is declared and enabled.")
    columns = ["export", "version", "of", "up to version", "wrote", "rows", "files", "lag"]
    rows = [
        (
            update.name,
            update.version,
            update.table,
            update.source_version,
            update.kind or "no news",
            update.rows,
            update.files,
            update.lag,
        )
        for update in updates
    ]
    return print_table(columns, rows)
