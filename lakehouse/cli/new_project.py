"""``init``: a new project folder for your own declarations, or an addition to a project of Dagster's ``dg``."""

import keyword
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import examples
from lakehouse.cli.output import print_line
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.settings.project import DgProject

commands = typer.Typer()
EXAMPLE = "src/my_lake/tables/readings.py"
COMPONENT = "src/my_lake/defs/lakehouse/defs.yaml"

_TEMPLATE = Path(__file__).parents[1] / "examples" / "template"
_TEMPLATE_NAME = "my-lake"  # the name of the project in the template
_TEMPLATE_MODULE = "my_lake"
_HIDDEN = {"gitignore": ".gitignore"}  # files that a package cannot contain under their own name
_PROJECT_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_PROJECT_FILE = "pyproject.toml"
_SECTION = """
# the folder of the declarations; all other settings are in .env
[tool.lakehouse]
declarations = "{}"
"""
_TYPE = "LakehouseTables"  # also of a subclass that keeps the name


@commands.command(
    epilog=examples("lakehouse init my-lake", "cd my-lake", "lakehouse demo", "lakehouse init --into my-dg-project")
)
def init(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="A folder that is empty or does not exist yet.")
    ] = None,
    into: Annotated[
        Path | None, typer.Option("--into", metavar="FOLDER", help="Add to the dg project in this folder instead.")
    ] = None,
) -> None:
    """Create a project for your own declarations: an example table, definitions for Dagster, settings, a test.

    It is also a project of Dagster's command dg. Refuses a folder that contains anything, so that no file is
    overwritten. With --into, adds what an existing dg project needs: the example, a component, .env, and the section
    tool.lakehouse at the end of pyproject.toml. Other text and files are kept, so a second run changes nothing.
    """
    if folder and not into:
        _create(folder)
    elif into and not folder:
        _add(into)
    else:
        raise typer.BadParameter("give either a new FOLDER or --into with an existing one", param_hint="FOLDER")


def _create(folder: Path) -> None:
    from lakehouse.settings.shapes import require_home

    with _explained(folder, "FOLDER", "created"):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"{folder} already exists and is not an empty folder")
        require_home(folder.absolute())
        for file, text in project_files(folder.resolve().name).items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
    print_line(f"Created {folder}. Next commands:")
    print_line(f"  cd {quote(str(folder))}")
    print_line("  lakehouse demo    the example, from topic to tables")


def _add(folder: Path) -> None:
    from lakehouse.settings.shapes import require_home

    with _explained(folder, "--into", "changed"):
        parts = plan_addition(folder)
        require_home(folder.absolute())
        for part in parts:
            part.write()
    for part in parts:
        print_line(f"{'Kept' if part.text is None else 'Wrote'} {part.file}: {part.note}")
    if all(part.text is None for part in parts):
        print_line("Nothing was missing.")


@contextmanager
def _explained(folder: Path, option: str, verb: str) -> Iterator[None]:
    """Explain what prevents writing a project in this folder."""
    try:
        yield
    except OSError as error:
        raise LakehouseError(
            f"The project cannot be {verb}: {error.strerror}",
            where=str(error.filename or folder),
            action="Choose another place, or correct its permissions.",
        ) from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def project_files(folder_name: str) -> dict[str, str]:
    """Return the files of a new project by their paths in its folder, which names the project if its name is valid."""
    name = folder_name if _PROJECT_NAME.fullmatch(folder_name) else _TEMPLATE_NAME
    names = {_TEMPLATE_NAME: name, _TEMPLATE_MODULE: module_name(name)}
    files = {file.relative_to(_TEMPLATE).as_posix(): file for file in sorted(_TEMPLATE.rglob("*")) if file.is_file()}
    texts = {path: file.read_text(encoding="utf-8") for path, file in files.items() if "__pycache__" not in path}
    renamed = {_rename(_HIDDEN.get(path, path), names): _rename(text, names) for path, text in texts.items()}
    return renamed | {".env": settings_text()}


def module_name(project_name: str) -> str:
    """Return the name of a project as a module that hides no other: ``my-lake`` becomes ``my_lake``."""
    name = re.sub(r"\W", "_", project_name.lower())
    is_used = name in {*sys.stdlib_module_names, *packages_distributions(), *keyword.kwlist, "test", "tests"}
    return f"lake_{name}" if is_used or not name.isidentifier() else name


def read_template(path: str) -> str:
    """Return the text of a file of the template."""
    return (_TEMPLATE / path).read_text(encoding="utf-8")


def settings_text() -> str:
    """Return the text of ``.env``: every setting with its description and default; none is set."""
    from lakehouse.settings import Settings

    lines = ["# Settings on this machine; environment variables override them. No setting is required."]
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else field.default
        lines += ["", f"# {field.description}", f"# LAKEHOUSE_{name.upper()}={default}"]
    return "\n".join(lines) + "\n"


def _rename(text: str, names: dict[str, str]) -> str:
    """Replace the names of the template, all at once: a new name may contain one of them."""
    return re.sub("|".join(map(re.escape, names)), lambda match: names[match[0]], text)


@dataclass(frozen=True)
class Part:
    """A file of the project: its new text, or why it is kept as it is."""

    file: Path
    text: str | None
    note: str

    def write(self) -> None:
        """Write the new text, if there is one; raises ``OSError``."""
        if self.text is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_bytes(self.text.encode())


def plan_addition(folder: Path) -> list[Part]:
    """Return the parts of the addition, without writing them; once they are written, no part has a new text.

    The project file comes last: until it is written, the project has no declarations. Raises ``ValueError`` if the
    folder is not a project of ``dg``, ``OSError`` if a file cannot be read, and ``LakehouseError`` if
    ``[tool.lakehouse]`` cannot be appended.
    """
    project = _require_project(folder)
    text = (folder / _PROJECT_FILE).read_bytes().decode()
    section = tomllib.loads(text).get("tool", {}).get("lakehouse")
    new_folder = project.folder_of(project.root_module).relative_to(folder) / "tables"
    declarations = new_folder.as_posix() if section is None else _declarations_of(section)
    return [
        _example(folder / declarations, is_new=section is None),
        _component(project.folder_of(project.defs_module)),
        _settings_file(folder / ".env"),
        _project_file(folder / _PROJECT_FILE, text, section, declarations),
    ]


def _require_project(folder: Path) -> "DgProject":
    if not (folder / _PROJECT_FILE).is_file():
        raise ValueError(f"{folder} contains no {_PROJECT_FILE}; for a new project, run: lakehouse init {folder}")
    from lakehouse.settings.project import read_dg_project

    try:
        project = read_dg_project(folder)
    except ValueError as error:
        raise ValueError(f"{folder / _PROJECT_FILE} cannot be read: {error}") from None
    if project is None:
        raise ValueError(
            f"{folder} is not a project of dg: its {_PROJECT_FILE} has no [tool.dg.project] with a root_module."
            " For a new project, give the name of a new folder without --into"
        )
    if not all(part.isidentifier() for part in project.root_module.split(".")):
        raise ValueError(f"root_module in {folder / _PROJECT_FILE} is not a module name: {project.root_module!r}")
    defs = project.folder_of(project.defs_module)
    if not defs.is_dir():
        raise ValueError(f"the folder of components is missing: {defs}. Create it, or correct [tool.dg.project]")
    return project


def _declarations_of(section: Any) -> str:
    declarations = section.get("declarations") if isinstance(section, dict) else None
    if not isinstance(declarations, str):
        raise ValueError(f"[tool.lakehouse] in {_PROJECT_FILE} must have the key declarations, a string")
    return declarations


def _example(folder: Path, *, is_new: bool) -> Part:
    """The example declaration, unless the folder contains Python files or the section names something else."""
    if not is_new and not folder.is_dir():
        return Part(folder, None, "not a folder")
    if any(file.name != "__init__.py" for file in folder.rglob("*.py")):
        return Part(folder, None, "contains Python files")
    return Part(folder / Path(EXAMPLE).name, read_template(EXAMPLE), "an example declaration")


def _component(defs: Path) -> Part:
    files = sorted([*defs.rglob("defs.yaml"), *defs.rglob("defs.yml")])
    existing = next((file for file in files if _TYPE in file.read_text(encoding="utf-8")), None)
    new = defs / "lakehouse" / Path(COMPONENT).name
    if existing or new.exists():
        return Part(existing or new, None, "loads tables" if existing else "exists, without a component of lakehouse")
    return Part(new, read_template(COMPONENT), "loads the declared tables")


def _settings_file(file: Path) -> Part:
    if file.exists():
        return Part(file, None, "exists; settings that you add there start with LAKEHOUSE_")
    return Part(file, settings_text(), "all settings with their defaults")


def _project_file(file: Path, text: str, section: Any, declarations: str) -> Part:
    if section is not None:
        return Part(file, None, f"[tool.lakehouse] names {declarations}")
    addition = _SECTION.format(declarations)
    new_text = text + ("" if text.endswith("\n") else "\n") + addition
    expected = tomllib.loads(text)
    expected["tool"]["lakehouse"] = {"declarations": declarations}
    try:
        is_valid = tomllib.loads(new_text) == expected
    except tomllib.TOMLDecodeError:
        is_valid = False
    if not is_valid:
        raise LakehouseError(
            "[tool.lakehouse] cannot be appended, because [tool] is written as an inline table",
            where=str(file),
            action=f'Add lakehouse = {{declarations = "{declarations}"}} to it, and repeat the command.',
        )
    return Part(file, new_text, "[tool.lakehouse], which names the folder of declarations")
