"""``lakehouse init``: a new project in which everything works unchanged."""

import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.cli import main
from lakehouse.settings import Settings


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new project, as the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEHOUSE_DECLARATIONS")
    assert main.run(["init", "my-own.lake"]) == main.DONE
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
        "definitions.py",
        "pyproject.toml",
        "tables/readings.py",
        "tests/test_readings.py",
    }
    assert 'name = "my-own.lake"' in (project / "pyproject.toml").read_text()
    assert len((project / "tables" / "readings.py").read_text().splitlines()) <= 40


def test_the_env_file_lists_every_setting_and_none_is_required(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a clone without that file, which may contain secrets."""
    text = (project / ".env").read_text()
    assert all(f"LAKEHOUSE_{name.upper()}=" in text for name in Settings.model_fields)
    assert [line for line in text.splitlines() if line and line[0] != "#"] == []
    monkeypatch.delenv("LAKEHOUSE_DECLARATIONS", raising=False)
    (project / ".env").unlink()
    assert Settings.load().declared_in == "tables"


@pytest.mark.parametrize("name", ["a,b", "c#d"])
def test_a_folder_name_in_which_no_table_could_be_read_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(["init", name]) == main.WRONG_USE
    assert not any(tmp_path.iterdir())


def test_the_test_of_the_project_passes(project: Path) -> None:
    assert "2 passed" in run(project, "-m", "pytest", "-p", "no:cacheprovider")


def test_commands_and_dagster_see_the_table_of_the_project_and_not_our_examples(project: Path) -> None:
    program = "import sys; from lakehouse.cli import main; sys.exit(main.run(['status', '--json']))"
    assert '"table": "readings"' in run(project, "-c", program)
    assets = run(project, "-m", "dagster", "asset", "list", "-m", "definitions")
    assert {"readings", "readings_changes", "readings_by_sensor"} <= {*assets.split()}
    assert "temperatures" not in assets


@pytest.mark.parametrize("existing", ["a file", "a folder with a file"])
def test_existing_files_are_not_changed(
    existing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    existing_file = Path("lake") if existing == "a file" else Path("lake/mine")
    existing_file.parent.mkdir(exist_ok=True)
    existing_file.write_text("mine")
    assert main.run(["init", "lake"]) == main.WRONG_USE
    assert "lake already exists" in " ".join(capsys.readouterr().err.split())
    assert existing_file.read_text() == "mine"
    assert len([*tmp_path.rglob("*")]) <= 2


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    below_a_file, too_long = tmp_path / "file" / "lake", tmp_path / ("x" * 300)
    for folder, message, code in (
        (below_a_file, "is a file, not a folder", main.WRONG_USE),
        (too_long, "too long", main.FAILED),
    ):
        assert main.run(["init", str(folder)]) == code
        assert message in " ".join(capsys.readouterr().err.split())
