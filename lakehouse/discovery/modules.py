"""The modules of the declarations: the files of a folder, one file, or a module, imported by their own names."""

import importlib
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from lakehouse.declaration.names import misspelt
from lakehouse.errors import DeclarationError, LakehouseError, SettingsError

SETTING = "LAKEHOUSE_DECLARATIONS"
_SUFFIX = ".py"


def refuse(error: LakehouseError) -> NoReturn:
    """Raise the error of a file, so that it stops the import of all files."""
    raise error


def import_modules(location: str, base_folder: Path, report: Callable[[LakehouseError], None]) -> list[ModuleType]:
    """Import the modules of a folder and its subfolders, of a file or of a module, and return them.

    ``report`` gets the error of each file below the location that fails; ``refuse`` raises it. Raises
    ``SettingsError`` if there is no such location or it cannot be imported by its name, and ``DeclarationError`` if it
    fails itself.
    """
    place = (base_folder / Path(location).expanduser()).resolve()
    if not place.is_dir() and not (place.is_file() and place.suffix == _SUFFIX):
        _add_to_path(base_folder)
        return list(_modules(location, report))
    import_root = _import_root(place, base_folder.resolve())
    _add_to_path(import_root)
    return list(_modules(_module_at(place, import_root), report))


def _import_root(folder: Path, base_folder: Path) -> Path:
    """The folder where the module name of a folder starts: the nearest one above it that is not itself a package.

    So ``src/my_lake/tables`` is imported as ``my_lake.tables``, as the other modules of the project import it.
    """
    parents = (parent for parent in folder.parents if parent == base_folder or not _is_package(parent))
    return next(parents, folder.parent)


def _is_package(folder: Path) -> bool:
    return folder.name.isidentifier() and (folder / "__init__.py").exists()


def _module_at(place: Path, import_root: Path) -> str:
    """Check that a folder or file is importable under its own name, as others import it; return the name."""
    path, kind = place.with_suffix("") if place.is_file() else place, "file" if place.is_file() else "folder"
    name = ".".join(path.relative_to(import_root).parts)
    if "." in path.name or (place.is_file() and not path.name.isidentifier()):
        problem = "its name contains a dot" if "." in path.name else f"{path.name} is not a name in Python"
        raise SettingsError(
            f"The {kind} of declarations cannot be imported: {problem}", where=str(place), action=f"Rename the {kind}."
        )
    module = _import_module(name)
    paths = [module.__file__ or ""] if place.is_file() else getattr(module, "__path__", ())
    if str(place) not in {str(Path(path).resolve()) for path in paths}:
        raise SettingsError(
            f"The {kind} of declarations cannot be imported: Python finds another module that is named {name}",
            where=str(place),
            action=f"Rename the {kind}.",
        )
    return name


def _add_to_path(folder: Path) -> None:
    """Make the modules of a folder importable, after all installed modules."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _modules(name: str, report: Callable[[LakehouseError], None]) -> Iterator[ModuleType]:
    module = _import_module(name)
    yield module
    paths = list(getattr(module, "__path__", ()))
    submodules = {info.name for info in pkgutil.iter_modules(paths)}
    for folder in filter(Path.is_dir, map(Path, paths)):
        try:
            _require_importable(folder)
        except SettingsError as error:
            report(error)
        submodules |= {path.name for path in folder.iterdir() if _is_source_folder(path)}
    for submodule in sorted(submodules):
        if submodule.startswith("_") or not submodule.isidentifier():
            continue
        try:
            yield from _modules(f"{name}.{submodule}", report)
        except LakehouseError as error:
            report(error)


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


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise SettingsError(
                f"The declarations cannot be imported: {name!r} is neither a folder, a file nor a module",
                where=str(Path.cwd()),
                action=f"Correct {SETTING}, or [tool.lakehouse] in pyproject.toml.",
            ) from None
        raise _file_error(error, name) from error
    except (Exception, SystemExit) as error:  # a user's file can raise anything, and end like a program
        raise _file_error(error, name) from error


def _file_error(error: BaseException, name: str) -> DeclarationError:
    place = _place(error, name)
    if isinstance(error, LakehouseError):
        return DeclarationError(error.what, where=place, action=error.action)
    default_advice = f"{type(error).__name__}: {error}", _import_advice(error, name) or "Correct the file."
    problem, action = misspelt(error, sys.modules["lakehouse"]) or default_advice
    return DeclarationError(problem, where=place, action=action)


def _import_advice(error: BaseException, name: str) -> str | None:
    """What to write if a file of a package imports one of its folders without the name of the package."""
    folder = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    parts = name.split(".")
    if folder not in parts[1:-1]:
        return None
    module = ".".join(parts[: parts.index(folder, 1) + 1])
    return f"Write from {module} instead of from {folder}: the folder is in the package {parts[0]}."


def _place(error: BaseException, name: str) -> str:
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
