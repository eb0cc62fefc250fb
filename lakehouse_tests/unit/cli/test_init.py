"""``lakehouse init``: a new project in which everything works unchanged."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.cli import main
from lakehouse.cli.new_project import project_files
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import failure_of, misuse_of, output_of
from lakehouse_tests.helpers.dg_projects import run_in_project
from lakehouse_tests.helpers.places import ROOT


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new project, as the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEHOUSE_DECLARATIONS")
    output_of("init", "my-own.lake")
    monkeypatch.chdir("my-own.lake")
    return tmp_path / "my-own.lake"


def run(project: Path, *command: str) -> str:
    return subprocess.run([sys.executable, *command], cwd=project, capture_output=True, text=True, check=True).stdout


def test_the_project_is_a_small_folder_with_its_own_name(project: Path) -> None:
    files = {str(file.relative_to(project)) for file in project.rglob("*") if file.is_file()}
    assert files == {
        ".env",
        ".gitignore",
        "README.md",
        "pyproject.toml",
        "src/my_own_lake/__init__.py",
        "src/my_own_lake/definitions.py",
        "src/my_own_lake/defs/__init__.py",
        "src/my_own_lake/defs/lakehouse/defs.yaml",
        "src/my_own_lake/tables/readings.py",
        "tests/test_readings.py",
    }
    assert 'name = "my-own.lake"' in (project / "pyproject.toml").read_text()
    texts = [(project / file).read_text() for file in files]
    assert [text for text in texts if "my-lake" in text or "my_lake" in text] == []
    assert len((project / "src" / "my_own_lake" / "tables" / "readings.py").read_text().splitlines()) <= 40


def test_the_env_file_lists_every_setting_and_none_is_required(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a clone without that file, which may contain secrets."""
    text = (project / ".env").read_text()
    assert all(f"LAKEHOUSE_{name.upper()}=" in text for name in Settings.model_fields)
    assert [line for line in text.splitlines() if line and line[0] != "#"] == []
    monkeypatch.delenv("LAKEHOUSE_DECLARATIONS", raising=False)
    (project / ".env").unlink()
    assert Settings.load().declared_in == "src/my_own_lake/tables"


@pytest.mark.parametrize("name", ["a,b", "c#d"])
def test_a_folder_name_in_which_no_table_could_be_read_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    misuse_of("init", name)
    assert not any(tmp_path.iterdir())


def test_the_test_of_the_project_passes(project: Path) -> None:
    assert "2 passed" in run(project, "-m", "pytest", "-p", "no:cacheprovider")


def test_commands_and_dagster_see_the_table_of_the_project_and_not_our_examples(project: Path) -> None:
    program = "import sys; from lakehouse.cli import main; sys.exit(main.run(['status', '--json']))"
    assert '"table": "readings"' in run(project, "-c", program)
    assets = run(project, "-m", "dagster", "asset", "list", "-m", "lakehouse.project_definitions")
    assert {"readings", "readings_changes", "readings_by_sensor"} <= {*assets.split()}
    assert "temperatures" not in assets


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dg_and_dagster_load_a_new_project_that_is_not_installed(project: Path) -> None:
    assert "All definitions loaded successfully" in run_in_project(project, "dg", "check", "defs")
    definitions = run_in_project(project, "dg", "list", "defs", "--json")
    assert all(name in definitions for name in ("readings_by_sensor", "merge_readings", "readings_sensor"))
    run_in_project(project, "dagster", "definitions", "validate")  # finds them as `dagster dev` and `lakehouse up` do


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_commands_of_the_page_about_dg_work_in_a_new_project(project: Path) -> None:
    """Those that start nothing; ``test_own_project`` runs the others."""
    page = (ROOT / "docs" / "how-to" / "dg-project.md").read_text(encoding="utf-8")
    commands = re.findall(r"^dg (?:list|check|scaffold) .*$", page, re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        if "--from-topic" not in command:  # needs a broker
            run_in_project(project, *command.split())
    assert (project / "src" / "my_own_lake" / "defs" / "report.py").exists()


def test_all_steps_of_a_run_in_a_new_project_share_one_process(project: Path) -> None:
    program = "from lakehouse.project_definitions import defs; print(defs().executor.name)"
    assert run(project, "-c", program).strip() == "in_process"


@pytest.mark.parametrize(
    ("folder", "module"),
    [
        ("my-lake", "my_lake"),
        ("My.Lake", "my_lake"),
        ("my_lake2", "my_lake2"),
        ("2026", "lake_2026"),
        ("class", "lake_class"),
        ("json", "lake_json"),
        ("test", "lake_test"),
        ("lakehouse", "lake_lakehouse"),
        ("two words", "my_lake"),
    ],
)
def test_the_module_of_a_project_is_a_valid_name_that_hides_no_other(folder: str, module: str) -> None:
    files = project_files(folder)
    assert f"src/{module}/definitions.py" in files
    assert f'root_module = "{module}"' in files["pyproject.toml"]


def test_a_new_folder_or_an_existing_project_is_given() -> None:
    for arguments in ([], ["lake", "--into", "project"]):
        assert "give either a new FOLDER or --into" in misuse_of("init", *arguments)


@pytest.mark.parametrize("existing_text", ["a file", "a folder with a file"])
def test_existing_files_are_not_changed(existing_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    existing_file = Path("lake") if existing_text == "a file" else Path("lake/mine")
    existing_file.parent.mkdir(exist_ok=True)
    existing_file.write_text("mine")
    assert "lake already exists" in misuse_of("init", "lake")
    assert existing_file.read_text() == "mine"
    assert len([*tmp_path.rglob("*")]) <= 2


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below_a_file, too_long = tmp_path / "file" / "lake", tmp_path / ("x" * 300)
    for folder, message, code in (
        (below_a_file, "is a file, not a folder", main.WRONG_USE),
        (too_long, "too long", main.FAILED),
    ):
        assert message in failure_of("init", str(folder), code=code)
