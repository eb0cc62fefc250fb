"""Projects of Dagster's ``dg`` command, and its programs as a user calls them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lakehouse_tests.helpers.places import ROOT

# what `create-dagster project` writes
PROJECT_FILE = """[project]
name = "my-project"
requires-python = ">=3.10,<3.15"
version = "0.1.0"
dependencies = [
    "dagster",
]

[dependency-groups]
dev = [
    "dagster-webserver",
    "dagster-dg-cli",
]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "my_project"
registry_modules = [
    "my_project.components.*",
]
"""
DEFINITIONS = """from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def create_dg_project(folder: Path, source: str = "src/") -> Path:
    """A project as ``create-dagster`` writes it, its modules in ``src/`` or elsewhere."""
    files = {
        "pyproject.toml": PROJECT_FILE,
        f"{source}my_project/__init__.py": "",
        f"{source}my_project/definitions.py": DEFINITIONS,
        f"{source}my_project/defs/__init__.py": "",
        f"{source}my_project/components/__init__.py": "",
    }
    write_files(folder, files)
    return folder


def run_in_project(project: Path, *command: str, modules: Path | None = None) -> str:
    """The output of a program of our environment in a project that is not installed.

    ``modules`` is a folder of modules that can be imported as well, as if the project were installed.
    """
    prefixes = ("LAKEHOUSE_", "DAGSTER_", "PYTHON")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    home = project / ".dagster"
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n", encoding="utf-8")
    environment |= {
        "DAGSTER_HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, filter(None, [modules, ROOT]))),
    }
    result = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout
