"""``lakehouse init --into``: what is added to a project of ``dg``, what is kept, and what is refused."""

import tomllib
from pathlib import Path

import pytest

from lakehouse_tests.helpers.commands import failure_of, misuse_of, output_of
from lakehouse_tests.helpers.dg_projects import PROJECT_FILE, create_dg_project, run_in_project, write_files

EXAMPLE = "src/my_project/tables/readings.py"
COMPONENT = "src/my_project/defs/lakehouse/defs.yaml"
SECTION = '[tool.lakehouse]\ndeclarations = "elsewhere"\n'
STATUS = "import sys; from lakehouse.cli import main; sys.exit(main.run(['status', '--json']))"
MODULES = "from lakehouse import Settings, declared_tables; import sys; declared_tables(Settings.load());"
MODULES += "print([name for name in sys.modules if name.endswith('readings')])"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEHOUSE_DECLARATIONS")
    return create_dg_project(tmp_path / "my-project")


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of a folder, with its content and the time when it was last written."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def add_files(project: Path) -> tuple[set[str], str]:
    """The new files, and the output. Of the existing files, only the end of the project file may change."""
    before = contents(project)
    output = output_of("init", "--into", str(project))
    after = contents(project)
    assert after["pyproject.toml"][0].startswith(before["pyproject.toml"][0])
    assert [name for name in before if name != "pyproject.toml" and before[name] != after[name]] == []
    return after.keys() - before.keys(), output


def list_added_files(project: Path) -> set[str]:
    return add_files(project)[0]


def test_a_project_of_dg_gets_an_example_a_component_settings_and_a_section(project: Path) -> None:
    added_files, output = add_files(project)
    assert added_files == {".env", COMPONENT, EXAMPLE} and output.count("Wrote ") == 4
    section = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["lakehouse"]
    assert section == {"declarations": "src/my_project/tables"}
    assert '"table": "readings"' in run_in_project(project, "python", "-c", STATUS)


def test_a_second_run_writes_nothing_and_says_so(project: Path) -> None:
    list_added_files(project)
    before = contents(project)
    output = output_of("init", "--into", str(project))
    assert output.count("Kept ") == 4 and "Nothing was missing." in output
    assert contents(project) == before


def test_declarations_are_imported_as_the_project_does_despite_another_module_named_tables(
    project: Path, tmp_path: Path
) -> None:
    list_added_files(project)
    other_modules = tmp_path / "other"
    write_files(other_modules, {"tables/__init__.py": "raise RuntimeError('PyTables')\n"})
    assert "my_project.tables.readings" in run_in_project(project, "python", "-c", MODULES, modules=other_modules)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dg_and_dagster_load_the_tables_of_a_changed_project_that_is_installed(project: Path) -> None:
    list_added_files(project)
    assert "All definitions loaded successfully" in run_in_project(project, "dg", "check", "defs")
    definitions = run_in_project(project, "dg", "list", "defs", "--json", modules=project / "src")
    assert "readings_by_sensor" in definitions
    run_in_project(project, "dagster", "definitions", "validate", modules=project / "src")


def test_a_project_without_a_folder_src_is_extended_below_its_root_module(tmp_path: Path) -> None:
    project = create_dg_project(tmp_path / "flat", source="")
    assert list_added_files(project) == {".env", COMPONENT.removeprefix("src/"), EXAMPLE.removeprefix("src/")}
    assert '"my_project/tables"' in (project / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({".env": "SECRET=1\n"}, {COMPONENT, EXAMPLE}),
        ({"src/my_project/tables/prices.py": "x = 1\n"}, {".env", COMPONENT}),
        ({"src/my_project/defs/prices/defs.yaml": "type: lakehouse.LakehouseTables\n"}, {".env", EXAMPLE}),
        ({COMPONENT: "type: dagster.PythonScriptComponent\n"}, {".env", EXAMPLE}),
        ({"pyproject.toml": PROJECT_FILE + SECTION}, {".env", COMPONENT}),
        (
            {"pyproject.toml": PROJECT_FILE + SECTION, "elsewhere/__init__.py": ""},
            {".env", COMPONENT, "elsewhere/readings.py"},
        ),
        ({"pyproject.toml": PROJECT_FILE + SECTION, "elsewhere/prices.py": "x = 1\n"}, {".env", COMPONENT}),
    ],
)
def test_what_exists_is_kept_and_named(project: Path, files: dict[str, str], expected: set[str]) -> None:
    write_files(project, files)
    before = (project / "pyproject.toml").read_text()
    added_files, output = add_files(project)
    assert added_files == expected and "Kept " in output
    if SECTION in before:
        assert (project / "pyproject.toml").read_text() == before


@pytest.mark.parametrize("text", [PROJECT_FILE.replace("\n", "\r\n"), PROJECT_FILE.rstrip()])
def test_the_text_of_the_project_file_is_kept_byte_by_byte(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_bytes(text.encode())
    list_added_files(project)
    assert tomllib.loads((project / "pyproject.toml").read_bytes().decode())["tool"]["lakehouse"]


@pytest.mark.parametrize(
    ("project_file", "message"),
    [
        (None, "contains no pyproject.toml; for a new project, run: lakehouse init"),
        (
            "[project]\nname = 'x'\n",
            "is not a project of dg: its pyproject.toml has no [tool.dg.project] with a root_module",
        ),
        (
            "[tool.dg]\ndirectory_type = 'workspace'\n[[tool.dg.workspace.projects]]\npath = 'x'\n",
            "not a project of dg",
        ),
        ("[tool.dg\n", "cannot be read"),
        (PROJECT_FILE.replace("my_project", "my-project"), "is not a module name: 'my-project'"),
        (PROJECT_FILE.replace("my_project", "other_project"), "the folder of components is missing"),
        (PROJECT_FILE + "[tool.lakehouse]\nfolder = 1\n", "must have the key declarations, a string"),
    ],
)
def test_a_folder_that_is_not_a_usable_project_of_dg_is_refused_unchanged(
    project: Path, project_file: str | None, message: str
) -> None:
    (project / "pyproject.toml").unlink()
    if project_file is not None:
        write_files(project, {"pyproject.toml": project_file})
    before = contents(project)
    assert message.replace(" ", "") in misuse_of("init", "--into", "my-project").replace(" ", "")
    assert contents(project) == before


def test_a_project_file_to_which_no_section_can_be_appended_is_refused_unchanged(project: Path) -> None:
    inline = 'tool = {dg = {directory_type = "project", project = {root_module = "my_project"}}}\n'
    write_files(project, {"pyproject.toml": inline})
    before = contents(project)
    assert 'lakehouse = {declarations = "src/my_project/tables"}' in failure_of("init", "--into", "my-project")
    assert contents(project) == before
