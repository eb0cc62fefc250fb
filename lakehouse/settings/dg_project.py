"""A project of Dagster's ``dg`` command: the folder whose ``pyproject.toml`` has ``[tool.dg.project]``."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# what `dg` loads in a project of `lakehouse init`; it imports the project's own definitions
PROJECT_DEFINITIONS = "lakehouse.project_definitions"


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
