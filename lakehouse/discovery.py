"""The tables that are declared: found where the settings say, in the files of a folder or in a module."""

import importlib
import pkgutil
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from lakehouse.declaration import StreamTable, declared_together
from lakehouse.declaration.misspelt import misspelt
from lakehouse.errors import DeclarationError, LakehouseError, SettingsError
from lakehouse.settings import Settings
from lakehouse.settings.project import find_project, project_folder

_VARIABLE = "LAKEHOUSE_DECLARATIONS"


def declared_tables(settings: Settings) -> tuple[StreamTable, ...]:
    """Every table that is declared in the folder or module of the settings, in the order of their names.

    A folder stands for its Python files and those of its subfolders, a package for its modules; names that begin with
    an underscore are left out. What is read there is read once by a process. Raises ``SettingsError`` where there is no
    such folder or module, or a file cannot be imported by its name; ``DeclarationError`` where nothing is declared in
    it, where two declarations take a name, or where a file fails.
    """
    tables = _declared_in(settings.declared_in, project_folder())
    if not tables:
        raise DeclarationError(
            f"No table is declared in {settings.declared_in}",
            action=f"Write a file with a StreamTable there, or set {_VARIABLE} to where your declarations are.",
        )
    return tables


def tables_there(settings: Settings) -> tuple[StreamTable, ...]:
    """Return the same; nothing if there is no project, or none is declared in it yet."""
    if not settings.declarations and find_project() is None:
        return ()
    return _declared_in(settings.declared_in, project_folder())


@cache
def _declared_in(where: str, here: Path) -> tuple[StreamTable, ...]:
    folder = here / Path(where).expanduser()
    _search(folder.resolve().parent if folder.is_dir() else here)
    name = _module_of_folder(folder.resolve()) if folder.is_dir() else where
    # a table that several modules import is one table
    found = {id(table): (table, module) for module in _modules(name) for table in _tables_of(module)}
    tables = sorted((table for table, _ in found.values()), key=lambda table: table.name)
    try:
        return declared_together(*tables)
    except DeclarationError as error:
        often = Counter(name for table in tables for name in table.names)
        places = {module.__file__ for table, module in found.values() if any(often[each] > 1 for each in table.names)}
        raise DeclarationError(error.what, where=" and ".join(sorted(map(str, places))), action=error.action) from None


def _module_of_folder(folder: Path) -> str:
    """Make a folder importable under its own name, as its files import one another."""
    if "." in folder.name:
        raise SettingsError(
            "The folder of declarations cannot be imported: its name holds a dot",
            where=str(folder),
            action="Rename the folder.",
        )
    places = getattr(_imported(folder.name), "__path__", ())
    if str(folder) not in {str(Path(place).resolve()) for place in places}:
        raise SettingsError(
            f"The folder of declarations cannot be imported: something else that Python finds is named {folder.name}",
            where=str(folder),
            action="Rename the folder.",
        )
    return folder.name


def _search(folder: Path) -> None:
    """Let modules of a folder be found, behind all that are installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _modules(name: str) -> Iterator[ModuleType]:
    module = _imported(name)
    yield module
    places = list(getattr(module, "__path__", ()))
    found = {each.name for each in pkgutil.iter_modules(places)}
    for folder in filter(Path.is_dir, map(Path, places)):
        _require_importable(folder)
        found |= {each.name for each in folder.iterdir() if _is_folder_of_files(each)}
    for each in sorted(found):
        if not each.startswith("_"):
            yield from _modules(f"{name}.{each}")


def _is_folder_of_files(path: Path) -> bool:
    return path.is_dir() and not (path / "pyproject.toml").exists() and any(path.rglob("*.py"))


def _require_importable(folder: Path) -> None:
    """Refuse what Python does not import by its name: declarations that would not be there without a word."""
    files = {each.stem for each in folder.glob("*.py")}
    for each in folder.iterdir():
        name = each.name.removesuffix(".py")
        declares = each.name != name or _is_folder_of_files(each)
        kind = "folder" if each.is_dir() else "file"
        if not declares or each.name.startswith(("_", ".")):
            continue
        if not name.isidentifier():
            raise SettingsError(
                f"A {kind} of declarations cannot be imported by its name: {each.name}",
                where=str(each),
                action="Rename it: letters, digits and _, no digit first; or begin the name with _ to leave it out.",
            )
        if kind == "folder" and name in files:
            raise SettingsError(
                f"{name}.py and the folder {name} both hold declarations, and Python finds one of them alone",
                where=str(folder),
                action="Rename one of them.",
            )


def _tables_of(module: ModuleType) -> Iterator[StreamTable]:
    """The tables that stand in a module, by themselves or in a list, a tuple or a dict."""
    for value in vars(module).values():
        held = list(value.values()) if type(value) is dict else value
        # of no other class: Dagster has tuples that refuse to be gone through
        for each in held if type(held) in (list, tuple) else (held,):
            if isinstance(each, StreamTable):
                yield each


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise _nowhere(name) from None
        raise _failed(error, name) from error
    except Exception as error:  # whatever a file does that a person wrote
        raise _failed(error, name) from error


def _nowhere(name: str) -> SettingsError:
    return SettingsError(
        f"Tables are to be declared in {name!r}, which is neither a folder nor a module that can be imported",
        where=str(Path.cwd()),
        action=f"Correct {_VARIABLE}, or [tool.lakehouse] in pyproject.toml.",
    )


def _failed(error: Exception, name: str) -> DeclarationError:
    place = _place(error, name)
    if isinstance(error, LakehouseError):
        return DeclarationError(error.what, where=place, action=error.action)
    told = misspelt(error, sys.modules[__package__ or "lakehouse"])
    fact, action = told or (f"{type(error).__name__}: {error}", "Correct the file.")
    return DeclarationError(fact, where=place, action=action)


def _place(error: Exception, name: str) -> str:
    """The line of the declarations that failed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    package = name.partition(".")[0]
    frames = traceback.walk_tb(error.__traceback__)
    theirs = [each for each in frames if each[0].f_globals.get("__name__", "").partition(".")[0] == package]
    if not theirs:
        return name
    frame, line = theirs[-1]
    return f"{frame.f_code.co_filename}, line {line}"
