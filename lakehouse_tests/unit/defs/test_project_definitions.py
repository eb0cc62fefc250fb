"""``lakehouse.project_definitions``: what Dagster loads in a project that is not installed, and what it refuses."""

import sys
from importlib import import_module
from pathlib import Path
from uuid import uuid4

import pytest

from lakehouse.cli.services import _has_definitions
from lakehouse.errors import SettingsError
from lakehouse.settings.project import PROJECT_DEFINITIONS, read_dg_project
from lakehouse_tests.helpers.dg_projects import PROJECT_FILE, write_files

SECTION = '[tool.lakehouse]\ndeclarations = "tables"\n'
WORKSPACE = 'directory_type = "workspace"\n[[{}workspace.projects]]\npath = "projects/my-project"\n'


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The root module of a project in the working directory; its name is unique, as a process imports a name once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, PROJECT_DEFINITIONS, raising=False)
    name = f"lake_{uuid4().hex}"
    write_files(tmp_path, {"pyproject.toml": PROJECT_FILE.replace("my_project", name) + SECTION})
    return name


def load_definitions() -> object:
    try:
        return import_module(PROJECT_DEFINITIONS).defs
    finally:
        sys.modules.pop(PROJECT_DEFINITIONS, None)


def test_the_definitions_of_the_project_are_found_in_its_folder_src(module: str) -> None:
    write_files(Path(), {f"src/{module}/definitions.py": "defs = 'ours'\n"})
    assert load_definitions() == "ours"


def test_another_module_of_definitions_is_loaded_if_the_project_names_it(module: str) -> None:
    text = f'[tool.dg.project]\nroot_module = "{module}"\ncode_location_target_module = "{module}.all"\n'
    write_files(Path(), {"pyproject.toml": text + SECTION, f"{module}/all.py": "defs = 'all of them'\n"})
    assert load_definitions() == "all of them"


def test_definitions_of_another_name_are_refused(module: str) -> None:
    write_files(Path(), {f"src/{module}/definitions.py": "definitions = 1\n"})
    with pytest.raises(SettingsError, match=r"no variable or function named defs.*Name its definitions defs"):
        load_definitions()


@pytest.mark.parametrize(
    ("text", "message"),
    [(SECTION, "has no .tool.dg.project."), ("", "has no .tool.dg.project."), ("[", "cannot be used")],
)
def test_a_project_that_is_not_one_of_dg_is_refused(module: str, text: str, message: str) -> None:
    write_files(Path(), {"pyproject.toml": text})
    with pytest.raises(SettingsError, match=message):
        load_definitions()


def test_our_module_of_definitions_means_the_definitions_of_the_root_module(tmp_path: Path) -> None:
    target = (
        f'root_module = "lake"\ncode_location_target_module = "{PROJECT_DEFINITIONS}"\ndefs_module = "lake.parts"\n'
    )
    write_files(tmp_path, {"pyproject.toml": f"[tool.dg.project]\n{target}"})
    project = read_dg_project(tmp_path)
    assert project is not None
    assert (project.definitions_module, project.defs_module) == ("lake.definitions", "lake.parts")
    assert project.folder_of("lake.parts") == tmp_path / "lake" / "parts"


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("workspace.yaml", "", True),
        ("pyproject.toml", "[tool.dagster]\n", True),
        ("pyproject.toml", PROJECT_FILE, True),
        ("pyproject.toml", SECTION, False),
        ("pyproject.toml", "[tool.dg]\n" + WORKSPACE.format("tool.dg."), False),
        ("dg.toml", WORKSPACE.format(""), False),
        ("pyproject.toml", "[", False),
        ("other.toml", PROJECT_FILE, False),
    ],
)
def test_up_leaves_to_dagster_what_the_folder_names(tmp_path: Path, file: str, text: str, expected: bool) -> None:
    write_files(tmp_path, {file: text})
    assert _has_definitions(tmp_path) is expected
