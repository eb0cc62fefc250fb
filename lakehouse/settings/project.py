"""The project: its folder, whose ``pyproject.toml`` names the declarations, and the variables of its ``.env``.

Also the errors of a variable that is wrong or unknown.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from dotenv.parser import Original, parse_stream
from pydantic.fields import FieldInfo

from lakehouse.errors import SettingsError

_FILE = "pyproject.toml"
EXAMPLES = "lakehouse.examples.tables"
_base_folder: ContextVar[Path | None] = ContextVar("the base folder while settings are read", default=None)
# what `dg` loads in a project of `lakehouse init`; it imports the project's own definitions
PROJECT_DEFINITIONS = "lakehouse.project_definitions"
PREFIX = "LAKEHOUSE_"
ENV_FILE = ".env"
ADVICE = "Correct it in the environment or in .env. The page Settings of the documentation lists all settings."
# Kubernetes sets these in every container if the namespace has a service called "lakehouse"
_SET_BY_KUBERNETES = re.compile(PREFIX + r"(SERVICE_HOST|SERVICE_PORT\w*|PORT(_\d+_\w+)?)")
_NAME = re.compile(r"[\w-]+", re.ASCII)
_CAUSES = {
    "value_error": "{error}",
    "literal_error": "it must be {expected}",
    "bool_parsing": "it must be true or false",
}
"""Our sentence for each type of error that pydantic has for a text; ``value_error`` is one of our own rules."""
_WRONG_TYPE = "it must be text"
"""For values that a program passes: a variable is always text."""


def find_project() -> Path | None:
    """Return the project of the working directory: the nearest folder upwards; ``None`` if there is none.

    Raises ``SettingsError`` if the project file of the working directory cannot be read.
    """
    start = Path.cwd()
    return next((folder for folder in (start, *start.parents) if _read_section(folder) is not None), None)


def project_folder() -> Path:
    """Return the folder of ``.env``, where relative settings start: the project, else the working directory."""
    return find_project() or Path.cwd()


@contextmanager
def one_project() -> Iterator[Path]:
    """Find the folder where relative settings start, once for all settings that are read in this context."""
    folder = project_folder()
    token = _base_folder.set(folder)
    try:
        yield folder
    finally:
        _base_folder.reset(token)


def in_project(path: str | Path) -> Path:
    """Return the path as an absolute one; a relative path starts at the project.

    Raises ``ValueError`` if it starts with ``~user`` and this machine has no such user.
    """
    try:
        return (_base_folder.get() or project_folder()) / Path(path).expanduser()
    except RuntimeError:
        raise ValueError(f"the home folder of the user in {path} is unknown") from None


def declarations_of_project(check: Callable[[str], str]) -> str:
    """Return the folder, file or module of declarations that the project file names, after ``check`` accepts it.

    Raises ``SettingsError`` if there is no project, ``check`` raises ``ValueError`` or the section has other keys.
    """
    project = find_project()
    if project is None:
        raise SettingsError(
            "No lakehouse project here: no pyproject.toml with [tool.lakehouse] in this folder or above it",
            where=str(Path.cwd()),
            action="Change to the folder of your project, create one with: lakehouse init my-lake,"
            f" or set LAKEHOUSE_DECLARATIONS={EXAMPLES} to use the packaged examples.",
        )
    section = _read_section(project)
    if not isinstance(section, dict) or [*section] != ["declarations"] or not isinstance(section["declarations"], str):
        raise _file_error(
            "[tool.lakehouse] must have the key declarations, a string, and no other key", project / _FILE
        )
    try:
        return check(section["declarations"])
    except ValueError as error:
        raise _file_error(f"declarations = {section['declarations']!r}: {error}", project / _FILE) from None


def _read_section(folder: Path) -> Any:
    """Return ``[tool.lakehouse]`` of a folder's project file; ``None`` if the file has no such section."""
    file = folder / _FILE
    try:
        if folder != Path.cwd() and file.stat().st_uid not in (0, os.getuid()):
            return None  # declarations are executed: never those of another user in a folder above
        text = file.read_text(encoding="utf-8")
        return tomllib.loads(text).get("tool", {}).get("lakehouse")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, AttributeError) as error:
        if folder != Path.cwd():  # a file in a folder above may belong to anybody
            return None
        raise _file_error(str(error), file) from None


def _file_error(cause: str, file: Path) -> SettingsError:
    action = 'Correct it, for example: declarations = "tables". Other settings are LAKEHOUSE_ variables.'
    return SettingsError(f"The project file cannot be used: {cause}", where=str(file), action=action)


@dataclass(frozen=True)
class DgProject:
    """Where a project keeps its modules, its definitions and its folder of components."""

    folder: Path
    root_module: str
    definitions_module: str
    defs_module: str

    @property
    def source_folder(self) -> Path:
        """The folder of the root module, as ``dg`` finds it: ``src`` if it exists, else the project."""
        source = self.folder / "src"
        return source if source.exists() else self.folder

    def folder_of(self, module: str) -> Path:
        """Return the folder of a module of this project."""
        return self.source_folder.joinpath(*module.split("."))


def read_dg_project(folder: Path) -> DgProject | None:
    """Return the project of ``dg`` in a folder; ``None`` if it has no project file, or one without a root module.

    Raises ``OSError`` if the project file cannot be read, and ``ValueError`` if it is not TOML.
    """
    file = folder / "pyproject.toml"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    tools = _table(tomllib.loads(text), "tool")
    project = _table(_table(tools, "dg"), "project")
    root_module = project.get("root_module")
    if not isinstance(root_module, str):
        return None
    definitions_module = project.get("code_location_target_module", PROJECT_DEFINITIONS)
    if definitions_module == PROJECT_DEFINITIONS:
        definitions_module = f"{root_module}.definitions"
    return DgProject(
        folder, root_module, str(definitions_module), str(project.get("defs_module", f"{root_module}.defs"))
    )


def _table(parent: dict[str, Any], name: str) -> dict[str, Any]:
    child = parent.get(name)
    return child if isinstance(child, dict) else {}


def variables_in_file(file: Path) -> list[str]:
    """Return the names of the variables in the file.

    Raises ``SettingsError`` if a line is not ``NAME=value``, also for variables of other programs: the variable would
    silently count as not set.
    """
    try:
        with file.open(encoding="utf-8") as text:
            lines = list(parse_stream(text))
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError):
        action = "Make it readable, and save it as text in UTF-8."
        raise SettingsError("The file .env cannot be read", where=str(file), action=action) from None
    for line in lines:
        if line.error or _is_malformed(line.key, line.value):
            raise SettingsError(
                f"Line {_line_number(line.original)} of .env is not NAME=value",
                where=str(file),
                action="Write NAME=value, or # before a comment. Put a value with spaces in quotes, and close them.",
            )
    return [line.key for line in lines if line.key]


def _is_malformed(name: str | None, value: str | None) -> bool:
    """Whether a variable has no value, or the name of a setting holds other text, which may be a secret."""
    if name is None:
        return False
    return value is None or (_has_prefix(name) and not _NAME.fullmatch(name))


def _line_number(original: Original) -> int:
    """The number of the line with the name: the parser counts from the empty lines before it."""
    text = original.string
    return original.line + text[: len(text) - len(text.lstrip())].count("\n")


def variable_of(name: str) -> str:
    """The variable of a setting."""
    return f"{PREFIX}{name.upper()}"


def describe_error(error: Any, fields: Mapping[str, FieldInfo]) -> str:
    """Name the variable, its value unless that may be a secret, the cause, and what the setting is for."""
    cause = _CAUSES.get(error["type"], _WRONG_TYPE).format(**error.get("ctx", {}))
    if not error["loc"]:
        return cause  # a rule about several settings names them itself
    name = str(error["loc"][0]).removeprefix(PREFIX.lower())
    field = fields[name]
    value = str(error["input"])
    is_pasted_key = "-----BEGIN" in value  # the user set the key itself, not its file
    is_hidden = "SecretStr" in repr(field.annotation) or name == "tables" or is_pasted_key or {"@", "?"} & {*value}
    shown_value = "" if is_hidden else f"={value!r}"
    return f"{variable_of(name)}{shown_value} cannot be used: {cause}. {field.description}"


def _has_prefix(name: str) -> bool:
    return name.upper().replace("-", "_").startswith(PREFIX)


def require_known(names: Iterable[str], settings: Iterable[str]) -> None:
    """Refuse an unknown ``LAKEHOUSE_`` variable: a misspelt one would silently count as not set."""
    setting_variables = [f"{PREFIX}{name.upper()}" for name in settings]
    for name in map(str.upper, names):
        if _has_prefix(name) and name not in setting_variables and not _SET_BY_KUBERNETES.fullmatch(name):
            close_matches = get_close_matches(name, setting_variables, 1, cutoff=0.8)
            hint = f"Did you mean {close_matches[0]}? " if close_matches else ""
            raise SettingsError(f"Unknown setting {name}", action=f"{hint}{ADVICE}")
