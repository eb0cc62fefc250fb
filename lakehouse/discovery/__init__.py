"""The declared tables, views and exports, from the files of a folder, a file or a module that the settings name.

``modules`` imports what declares them, and explains why a file cannot be imported. Views and exports that read what
only such a file can declare are left out.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from lakehouse.declaration import StreamTable, View
from lakehouse.declaration.export import OutletTable, check_outlets
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sink import Outlet, row_identity
from lakehouse.declaration.table import require_distinct_names
from lakehouse.declaration.view import sort_views
from lakehouse.discovery.modules import SETTING, import_modules, refuse
from lakehouse.errors import DeclarationError, LakehouseError
from lakehouse.settings import Settings
from lakehouse.settings.project import find_project, project_folder

Declaration = StreamTable | View | Outlet
_Reader = TypeVar("_Reader", View, Outlet)


@dataclass(frozen=True)
class Declarations:
    """What a folder or module declares: tables, exports and sinks by name, each view after those that it reads."""

    tables: tuple[StreamTable, ...]
    views: tuple[View, ...]
    outlets: tuple[Outlet, ...]


def declared_tables(settings: Settings) -> tuple[StreamTable, ...]:
    """Every table that is declared in the folder, file or module of the settings, sorted by name.

    A folder means its Python files and those of its subfolders, a package means its modules. Names that start with an
    underscore are left out. A process reads the declarations once. Raises ``SettingsError`` if there is no such folder,
    file or module, or if a file cannot be imported by its name. Raises ``DeclarationError`` if no table is declared, if
    two declarations use the same name, if a view reads an unknown table or itself, if an export is of an unknown table
    or column, or if a file fails.
    """
    tables = _declared_in(settings.declared_in, project_folder()).tables
    if not tables:
        raise DeclarationError(
            f"No table is declared in {settings.declared_in}",
            action=f"Add a file with a StreamTable there, or set {SETTING} to the folder of your declarations.",
        )
    return tables


def find_tables(settings: Settings) -> tuple[StreamTable, ...]:
    """Return the declared tables; empty if there is no project, or no table is declared in it yet."""
    if not settings.declarations and find_project() is None:
        return ()
    return _declared_in(settings.declared_in, project_folder()).tables


def find_readable_tables(settings: Settings, report: Callable[[LakehouseError], None]) -> tuple[StreamTable, ...]:
    """Return what ``find_tables`` returns; if files fail, the tables of the others, after ``report`` gets each error.

    Raises what ``find_tables`` raises if every file can be imported, or if the folder or module as a whole cannot. Of
    several files, two may not use the same name either.
    """
    if not settings.declarations and find_project() is None:
        return ()
    return readable_declarations(settings, report).tables


def readable_declarations(settings: Settings, report: Callable[[LakehouseError], None]) -> Declarations:
    """Return everything that is declared; if files fail, what the others declare, after ``report`` gets each error.

    Then a view or an export of what only such a file can declare is left out too, and ``report`` gets why. Raises what
    ``declared_tables`` raises, except for files that fail, and if no table is declared.
    """
    place, errors = (settings.declared_in, project_folder()), list[LakehouseError]()
    with suppress(LakehouseError):
        return _declared_in(*place)
    declarations = _read(*place, errors.append)
    for error in {str(error): error for error in errors}.values():  # a file may import one that fails
        report(error)
    return declarations


def declared_views(settings: Settings) -> tuple[View, ...]:
    """Every view that is declared where ``declared_tables`` finds the tables, each after those that it reads.

    Raises what ``declared_tables`` raises. The columns of a view are checked when it is used.
    """
    declared_tables(settings)
    return _declared_in(settings.declared_in, project_folder()).views


def declared_outlets(settings: Settings) -> tuple[Outlet, ...]:
    """Every export and sink that is declared where ``declared_tables`` finds the tables, sorted by name.

    Raises what ``declared_tables`` raises.
    """
    declared_tables(settings)
    return _declared_in(settings.declared_in, project_folder()).outlets


def find_outlets(settings: Settings) -> tuple[Outlet, ...]:
    """Return the declared exports and sinks; empty if there is no project, or no table is declared in it yet."""
    if not settings.declarations and find_project() is None:
        return ()
    return _declared_in(settings.declared_in, project_folder()).outlets


def outlets_of(table: StreamTable, outlets: Iterable[Outlet]) -> tuple[Outlet, ...]:
    """Return the exports and sinks of the tables of a declaration."""
    return tuple(outlet for outlet in outlets if outlet.of in table.tables)


def sort_outlets(outlets: Iterable[Outlet], tables: Iterable[StreamTable], views: Iterable[View]) -> tuple[Outlet, ...]:
    """Return the exports and sinks, sorted by name; raises ``DeclarationError`` if one does not fit to its table.

    Which columns other tables than merged ones have is checked when it runs.
    """
    outlet_tables = {view.name: OutletTable() for view in views if view.materialized}
    for table in tables:
        for name in table.tables:
            identity = row_identity(table, name)
            outlet_tables[name] = OutletTable(identity=identity.columns if identity else ())
        if not table.is_log:
            feed = outlet_tables[table.changes_name]
            outlet_tables[table.changes_name] = replace(feed, has_changes=True)
        types = {column.name: column.type for column in table.stored_columns} | {RECORD: "STRUCT"}
        merged, period = outlet_tables[table.name], table.partition_by
        outlet_tables[table.name] = replace(merged, types=types, key=table.key, has_changes=True, period=period)
    return check_outlets(outlets, outlet_tables)


def find_views(settings: Settings) -> tuple[View, ...]:
    """Return the declared views; empty if there is no project, or no view is declared in it."""
    if not settings.declarations and find_project() is None:
        return ()
    return _declared_in(settings.declared_in, project_folder()).views


@cache
def _declared_in(location: str, base_folder: Path) -> Declarations:
    return _read(location, base_folder, refuse)


def _read(location: str, base_folder: Path, report: Callable[[LakehouseError], None]) -> Declarations:
    errors: list[LakehouseError] = []

    def collect(error: LakehouseError) -> None:
        errors.append(error)
        report(error)

    # by its identity, with a module that has it: one that several modules import counts once
    imported_modules = import_modules(location, base_folder, collect)
    modules = {id(part): (part, module) for module in imported_modules for part in _declarations_of(module)}
    declarations = sorted((part for part, _ in modules.values()), key=lambda part: part.name)
    _require_distinct(modules)
    tables = tuple(part for part in declarations if isinstance(part, StreamTable))
    views = [part for part in declarations if isinstance(part, View)]
    outlets = [part for part in declarations if isinstance(part, Outlet)]
    names = [name for table in tables for name in table.tables]
    if errors:
        views = _without_orphans(views, names, report)
        outlets = _without_orphans(outlets, [*names, *(view.name for view in views)], report)
    sorted_views = sort_views(views, names)
    return Declarations(tables, sorted_views, sort_outlets(outlets, tables, sorted_views))


def _require_distinct(modules: Mapping[int, tuple[Declaration, ModuleType]]) -> None:
    """Refuse names that two declarations use, with the files of these."""
    declarations = sorted((part for part, _ in modules.values()), key=lambda part: part.name)
    try:
        require_distinct_names(*declarations)
    except DeclarationError as error:
        uses = Counter(name for part in declarations for name in part.names)
        files = {module.__file__ for part, module in modules.values() if any(uses[n] > 1 for n in part.names)}
        raise DeclarationError(error.what, where=" and ".join(sorted(map(str, files))), action=error.action) from None


def _declarations_of(module: ModuleType) -> Iterator[Declaration]:
    """The tables, views, exports and sinks in the variables of a module, also within a list, a tuple or a dict."""
    for value in vars(module).values():
        content = list(value.values()) if type(value) is dict else value
        # no subclasses: Dagster has tuples that refuse iteration
        for item in content if type(content) in (list, tuple) else (content,):
            if isinstance(item, Declaration):
                yield item


def _without_orphans(
    readers: Sequence[_Reader], table_names: Iterable[str], report: Callable[[LakehouseError], None]
) -> list[_Reader]:
    """Return the views or outlets that read only these tables, and views that do; ``report`` gets why others do not."""
    known_readers: list[_Reader] = list(readers)
    count = -1
    while len(known_readers) != count:
        count = len(known_readers)
        known_names = {*table_names, *(reader.name for reader in known_readers if isinstance(reader, View))}
        known_readers = [reader for reader in known_readers if known_names.issuperset(_read_names(reader))]
    for reader in readers:
        if reader not in known_readers:
            report(
                DeclarationError(
                    f"{type(reader).__name__} {reader.name!r} is left out: a file that fails may declare what it reads,"
                    f" {' or '.join(_read_names(reader))}",
                    where=reader.file,
                    action="Correct the other file.",
                )
            )
    return known_readers


def _read_names(reader: View | Outlet) -> Sequence[str]:
    return reader.reads if isinstance(reader, View) else (reader.of,)
