"""The declared tables, views and exports, from the files of a folder or from a module that the settings name."""

import importlib
import pkgutil
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from lakehouse.declaration import Export, StreamTable, View, require_distinct_names
from lakehouse.declaration.export import ExportedTable, check_exports
from lakehouse.declaration.misspelt import misspelt
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.view import sort_views
from lakehouse.errors import DeclarationError, LakehouseError, SettingsError
from lakehouse.settings import Settings
from lakehouse.settings.project import find_project, project_folder

_SETTING = "LAKEHOUSE_DECLARATIONS"
Declaration = StreamTable | View | Export


@dataclass(frozen=True)
class _Declarations:
    """What a folder or module declares: tables and exports by name, each view after those that it reads."""

    tables: tuple[StreamTable, ...]
    views: tuple[View, ...]
    exports: tuple[Export, ...]


def declared_tables(settings: Settings) -> tuple[StreamTable, ...]:
    """Every table that is declared in the folder or module of the settings, sorted by name.

    A folder means its Python files and those of its subfolders, a package means its modules. Names that start with an
    underscore are left out. A process reads the declarations once. Raises ``SettingsError`` if there is no such folder
    or module, or if a file cannot be imported by its name. Raises ``DeclarationError`` if no table is declared, if two
    declarations use the same name, if a view reads an unknown table or itself, if an export is of an unknown table or
    column, or if a file fails.
    """
    tables = _declared_in(settings.declared_in, project_folder()).tables
    if not tables:
        raise DeclarationError(
            f"No table is declared in {settings.declared_in}",
            action=f"Add a file with a StreamTable there, or set {_SETTING} to the folder of your declarations.",
        )
    return tables


def find_tables(settings: Settings) -> tuple[StreamTable, ...]:
    """Return the declared tables; empty if there is no project, or no table is declared in it yet."""
    if not settings.declarations and find_project() is None:
        return ()
    return _declared_in(settings.declared_in, project_folder()).tables


def declared_views(settings: Settings) -> tuple[View, ...]:
    """Every view that is declared where ``declared_tables`` finds the tables, each after those that it reads.

    Raises what ``declared_tables`` raises. The columns of a view are checked when it is used.
    """
    declared_tables(settings)
    return _declared_in(settings.declared_in, project_folder()).views


def declared_exports(settings: Settings) -> tuple[Export, ...]:
    """Every export that is declared where ``declared_tables`` finds the tables, sorted by name.

    Raises what ``declared_tables`` raises.
    """
    declared_tables(settings)
    return _declared_in(settings.declared_in, project_folder()).exports


def find_exports(settings: Settings) -> tuple[Export, ...]:
    """Return the declared exports; empty if there is no project, or no table is declared in it yet."""
    if not settings.declarations and find_project() is None:
        return ()
    return _declared_in(settings.declared_in, project_folder()).exports


def exports_of(table: StreamTable, exports: Iterable[Export]) -> tuple[Export, ...]:
    """Return the exports of the tables of a declaration."""
    return tuple(export for export in exports if export.of in table.tables)


def sort_exports(exports: Iterable[Export], tables: Iterable[StreamTable], views: Iterable[View]) -> tuple[Export, ...]:
    """Return the exports, sorted by name; raises ``DeclarationError`` if one does not fit to its table.

    Which columns other tables than merged ones have is checked when the export runs.
    """
    exported_tables = {view.name: ExportedTable() for view in views if view.materialized}
    for table in tables:
        exported_tables |= dict.fromkeys(table.tables, ExportedTable())
        exported_tables |= {} if table.is_log else {table.changes_name: ExportedTable(has_changes=True)}
        types = {column.name: column.type for column in table.stored_columns} | {RECORD: "STRUCT"}
        exported_tables[table.name] = ExportedTable(types, table.key, has_changes=True, period=table.partition_by)
    return check_exports(exports, exported_tables)


def find_views(settings: Settings) -> tuple[View, ...]:
    """Return the declared views; empty if there is no project, or no view is declared in it."""
    if not settings.declarations and find_project() is None:
        return ()
    return _declared_in(settings.declared_in, project_folder()).views


@cache
def _declared_in(location: str, base_folder: Path) -> _Declarations:
    folder = (base_folder / Path(location).expanduser()).resolve()
    import_root = _import_root(folder, base_folder.resolve()) if folder.is_dir() else base_folder
    _add_to_path(import_root)
    name = _module_of_folder(folder, import_root) if folder.is_dir() else location
    # a declaration that several modules import counts once
    modules = {id(part): (part, module) for module in _modules(name) for part in _declarations_of(module)}
    declarations = sorted((part for part, _ in modules.values()), key=lambda part: part.name)
    try:
        require_distinct_names(*declarations)
    except DeclarationError as error:
        uses = Counter(name for part in declarations for name in part.names)
        files = {module.__file__ for part, module in modules.values() if any(uses[n] > 1 for n in part.names)}
        raise DeclarationError(error.what, where=" and ".join(sorted(map(str, files))), action=error.action) from None
    tables = tuple(part for part in declarations if isinstance(part, StreamTable))
    views = [part for part in declarations if isinstance(part, View)]
    exports = [part for part in declarations if isinstance(part, Export)]
    sorted_views = sort_views(views, (name for table in tables for name in table.tables))
    return _Declarations(tables, sorted_views, sort_exports(exports, tables, sorted_views))


def _import_root(folder: Path, base_folder: Path) -> Path:
    """The folder where the module name of a folder starts: the nearest one above it that is not itself a package.

    So ``src/my_lake/tables`` is imported as ``my_lake.tables``, as the other modules of the project import it.
    """
    parents = (parent for parent in folder.parents if parent == base_folder or not _is_package(parent))
    return next(parents, folder.parent)


def _is_package(folder: Path) -> bool:
    return folder.name.isidentifier() and (folder / "__init__.py").exists()


def _module_of_folder(folder: Path, import_root: Path) -> str:
    """Check that a folder is importable under its own name, as its files import one another; return the name."""
    name = ".".join(folder.relative_to(import_root).parts)
    if "." in folder.name:
        raise SettingsError(
            "The folder of declarations cannot be imported: its name contains a dot",
            where=str(folder),
            action="Rename the folder.",
        )
    paths = getattr(_import_module(name), "__path__", ())
    if str(folder) not in {str(Path(path).resolve()) for path in paths}:
        raise SettingsError(
            f"The folder of declarations cannot be imported: Python finds another module that is named {name}",
            where=str(folder),
            action="Rename the folder.",
        )
    return name


def _add_to_path(folder: Path) -> None:
    """Make the modules of a folder importable, after all installed modules."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _modules(name: str) -> Iterator[ModuleType]:
    module = _import_module(name)
    yield module
    paths = list(getattr(module, "__path__", ()))
    submodules = {info.name for info in pkgutil.iter_modules(paths)}
    for folder in filter(Path.is_dir, map(Path, paths)):
        _require_importable(folder)
        submodules |= {path.name for path in folder.iterdir() if _is_source_folder(path)}
    for submodule in sorted(submodules):
        if not submodule.startswith("_"):
            yield from _modules(f"{name}.{submodule}")


def _is_source_folder(path: Path) -> bool:
    return path.is_dir() and not (path / "pyproject.toml").exists() and any(path.rglob("*.py"))


def _require_importable(folder: Path) -> None:
    """Refuse names that Python cannot import: their declarations would be missing without a message."""
    file_names = {file.stem for file in folder.glob("*.py")}
    for path in folder.iterdir():
        name = path.name.removesuffix(".py")
        is_source = path.name != name or _is_source_folder(path)
        kind = "folder" if path.is_dir() else "file"
        if not is_source or path.name.startswith(("_", ".")):
            continue
        if not name.isidentifier():
            raise SettingsError(
                f"A {kind} of declarations cannot be imported by its name: {path.name}",
                where=str(path),
                action="Rename it: letters, digits and _, no digit first; or start the name with _ to exclude it.",
            )
        if kind == "folder" and name in file_names:
            raise SettingsError(
                f"{name}.py and the folder {name} both contain declarations, and Python finds only one of them",
                where=str(folder),
                action="Rename one of them.",
            )


def _declarations_of(module: ModuleType) -> Iterator[Declaration]:
    """The tables, views and exports in the variables of a module, also within a list, a tuple or a dict."""
    for value in vars(module).values():
        content = list(value.values()) if type(value) is dict else value
        # no subclasses: Dagster has tuples that refuse iteration
        for item in content if type(content) in (list, tuple) else (content,):
            if isinstance(item, Declaration):
                yield item


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise _location_error(name) from None
        raise _file_error(error, name) from error
    except Exception as error:  # a user's file can raise anything
        raise _file_error(error, name) from error


def _location_error(name: str) -> SettingsError:
    return SettingsError(
        f"The declarations cannot be imported: {name!r} is neither a folder nor a module",
        where=str(Path.cwd()),
        action=f"Correct {_SETTING}, or [tool.lakehouse] in pyproject.toml.",
    )


def _file_error(error: Exception, name: str) -> DeclarationError:
    place = _place(error, name)
    if isinstance(error, LakehouseError):
        return DeclarationError(error.what, where=place, action=error.action)
    default_advice = f"{type(error).__name__}: {error}", _import_advice(error, name) or "Correct the file."
    problem, action = misspelt(error, sys.modules[__package__ or "lakehouse"]) or default_advice
    return DeclarationError(problem, where=place, action=action)


def _import_advice(error: Exception, name: str) -> str | None:
    """What to write if a file of a package imports one of its folders without the name of the package."""
    folder = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    parts = name.split(".")
    if folder not in parts[1:-1]:
        return None
    module = ".".join(parts[: parts.index(folder, 1) + 1])
    return f"Write from {module} instead of from {folder}: the folder is in the package {parts[0]}."


def _place(error: Exception, name: str) -> str:
    """File and line of the declarations that failed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    package = name.partition(".")[0]
    frames = traceback.walk_tb(error.__traceback__)
    file_frames = [
        (frame, line) for frame, line in frames if frame.f_globals.get("__name__", "").partition(".")[0] == package
    ]
    if not file_frames:
        return name
    frame, line = file_frames[-1]
    return f"{frame.f_code.co_filename}, line {line}"
