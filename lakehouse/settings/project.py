"""The project: the folder whose ``pyproject.toml`` says under ``[tool.lakehouse]`` where tables are declared."""

import os
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from lakehouse.errors import SettingsError

_FILE = "pyproject.toml"
EXAMPLES = "lakehouse.examples.tables"
_found: ContextVar[Path | None] = ContextVar("the project of the settings that are being read", default=None)


def find_project() -> Path | None:
    """Return the project that the working directory is in: the nearest folder upwards; ``None`` if there is none.

    Raises ``SettingsError`` if the project file of the working directory cannot be read.
    """
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if _section(folder) is not None), None)


def project_folder() -> Path:
    """Return the folder that relative settings and ``.env`` belong to: the project, else the working directory."""
    return find_project() or Path.cwd()


@contextmanager
def one_project() -> Iterator[Path]:
    """Find the folder that relative settings belong to, once for all that are read in here."""
    folder = project_folder()
    token = _found.set(folder)
    try:
        yield folder
    finally:
        _found.reset(token)


def in_project(path: str | Path) -> Path:
    """Return a path as an absolute one: a relative one belongs to the project.

    Raises ``ValueError`` where it begins with the folder of a user that this machine does not know.
    """
    try:
        return (_found.get() or project_folder()) / Path(path).expanduser()
    except RuntimeError:
        raise ValueError(f"this machine knows no folder of the user in {path}") from None


def declarations_of_project(check: Callable[[str], str]) -> str:
    """Return the folder or module of declarations that the project names, as ``check`` lets it pass.

    Raises ``SettingsError`` if there is no project, or its section holds anything else.
    """
    project = find_project()
    if project is None:
        raise SettingsError(
            "No lakehouse project here: no pyproject.toml with [tool.lakehouse], in this folder or above it",
            where=str(Path.cwd()),
            action="Go to the folder of your project, make one with: lakehouse init my-lake,"
            f" or set LAKEHOUSE_DECLARATIONS={EXAMPLES} to use the packaged examples.",
        )
    section = _section(project)
    if not isinstance(section, dict) or [*section] != ["declarations"] or not isinstance(section["declarations"], str):
        raise _unusable("[tool.lakehouse] is to hold declarations, a text, and nothing else", project / _FILE)
    try:
        return check(section["declarations"])
    except ValueError as error:
        raise _unusable(f"declarations = {section['declarations']!r}: {error}", project / _FILE) from None


def _section(folder: Path) -> Any:
    """Return what a folder's project file holds under ``[tool.lakehouse]``; ``None`` if it holds nothing there."""
    file = folder / _FILE
    try:
        if folder != Path.cwd() and file.stat().st_uid not in (0, os.getuid()):
            return None  # declarations are run: those that somebody else left in a folder above are not ours
        text = file.read_text(encoding="utf-8")
        return tomllib.loads(text).get("tool", {}).get("lakehouse")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, AttributeError) as error:
        if folder != Path.cwd():  # the file of a folder above may be anybody's
            return None
        raise _unusable(str(error), file) from None


def _unusable(fact: str, file: Path) -> SettingsError:
    action = 'Correct it: declarations = "tables" names a folder; other settings are LAKEHOUSE_ variables.'
    return SettingsError(f"The project file cannot be used: {fact}", where=str(file), action=action)
