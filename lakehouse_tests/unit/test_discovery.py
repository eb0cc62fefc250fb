"""Where declarations are found: a folder of files or a module, and the errors of those that cannot be read."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pytest

from lakehouse.cli import main
from lakehouse.defs.build import build_defs
from lakehouse.discovery import declared_tables, find_tables
from lakehouse.errors import DeclarationError, SettingsError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings

TABLE = """
from lakehouse.declaration import Column, StreamTable
number = Column("id", "INT", "", required=True)
{name} = StreamTable(name="{name}", topic="{name}", doc="", columns=[number], key=["id"])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for declarations in the working directory; its name is unique, as a process imports a name once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEHOUSE_DECLARATIONS")
    monkeypatch.setattr(sys, "path", [*sys.path])
    declarations = tmp_path / f"lake_{uuid4().hex}"
    declarations.mkdir()
    return declarations


def write(folder: Path, name: str, text: str = TABLE) -> None:
    (folder / f"{name}.py").write_text(text.replace("{name}", name), encoding="utf-8")


def list_declared(folder: Path) -> list[str]:
    return [table.name for table in declared_tables(Settings(declarations=str(folder)))]


def test_without_a_project_nothing_is_declared_and_the_error_names_the_examples(folder: Path) -> None:
    assert find_tables(Settings()) == ()
    message = r"No lakehouse project here.*LAKEHOUSE_DECLARATIONS=lakehouse\.examples\.tables"
    with pytest.raises(SettingsError, match=message):
        declared_tables(Settings())


def test_a_project_is_found_from_a_folder_below_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "first")
    Path("pyproject.toml").write_text(f'[tool.lakehouse]\ndeclarations = "{folder.name}"\n')
    Path(".env").write_text("LAKEHOUSE_TABLES=lake\n")
    project = Path.cwd()
    inner_folder = project / "notebooks" / "deep"
    inner_folder.mkdir(parents=True)
    (project / "notebooks" / "pyproject.toml").write_text("[tool.other\n")
    monkeypatch.chdir(inner_folder)
    settings = Settings.load()
    assert [table.name for table in declared_tables(settings)] == ["first"]
    assert settings.home_folder == project / ".lakehouse"
    assert settings.tables_root == str(project / "lake")
    assert Path.cwd() == inner_folder


def test_the_tables_of_a_folder_are_sorted_by_name(folder: Path) -> None:
    for name in ("second", "first", "_draft"):
        write(folder, name)
    assert list_declared(folder) == ["first", "second"]


def test_a_folder_may_be_relative_to_the_working_directory(folder: Path) -> None:
    write(folder, "first")
    assert list_declared(Path(folder.name)) == ["first"]


def test_a_file_may_import_other_files_and_their_tables_count_once(folder: Path) -> None:
    write(folder, "first")
    (folder / "second.py").write_text(f"from {folder.name}.first import first\nother = first\n", encoding="utf-8")
    assert list_declared(folder) == ["first"]


def test_tables_may_be_declared_in_a_list(folder: Path) -> None:
    columns = '[Column("id", "INT", "", required=True)]'
    function = f'def declare(name): return StreamTable(name, name, "", {columns}, ["id"])\n'
    tables = "tables = [declare('first'), declare('second')]\n"
    write(folder, "many", f"from lakehouse.declaration import Column, StreamTable\n{function}{tables}")
    assert list_declared(folder) == ["first", "second"]


def test_a_module_of_the_working_directory_declares_its_tables(folder: Path) -> None:
    write(folder, "first")
    assert list_declared(Path(f"{folder.name}.first")) == ["first"]


def test_declarations_are_read_once_by_a_process(folder: Path) -> None:
    write(folder, "first")
    settings = Settings(declarations=str(folder))
    assert declared_tables(settings)[0] is declared_tables(settings)[0]


def test_a_folder_without_a_table_is_refused(folder: Path) -> None:
    write(folder, "helper", "MOST = 3\n")
    with pytest.raises(DeclarationError, match=r"No table is declared in .*LAKEHOUSE_DECLARATIONS"):
        list_declared(folder)


@pytest.mark.parametrize("location", ["not_there", "not_there.either", "lakehouse.examples.tables.nope"])
def test_a_setting_that_names_neither_a_folder_nor_a_module_is_refused(location: str) -> None:
    message = "cannot be imported: '.*neither a folder nor a module.*LAKEHOUSE_DECLARATIONS"
    with pytest.raises(SettingsError, match=message):
        list_declared(Path(location))


def test_a_folder_with_the_name_of_another_module_is_refused(folder: Path) -> None:
    shadowed_folder = folder / "json"
    shadowed_folder.mkdir()
    write(shadowed_folder, "first")
    with pytest.raises(SettingsError, match=r"another module that is named json.*Rename the folder"):
        list_declared(shadowed_folder)


def test_the_files_of_a_folder_in_a_package_are_imported_as_the_package_imports_them(folder: Path) -> None:
    """Also if another module has the name of the folder."""
    declarations = folder / "json"
    declarations.mkdir()
    (folder / "__init__.py").touch()
    write(declarations, "first")
    text = f"from {folder.name}.json.first import first\nother = first\n"
    (declarations / "second.py").write_text(text, encoding="utf-8")
    assert list_declared(declarations) == ["first"]
    assert f"{folder.name}.json.first" in sys.modules


@pytest.mark.parametrize("statement", ["from {}.first import first", "import {}.first", "from {} import first"])
def test_an_import_without_the_name_of_the_package_is_reported_with_what_to_write(folder: Path, statement: str) -> None:
    declarations = folder / f"tables_{uuid4().hex}"
    declarations.mkdir()
    (folder / "__init__.py").touch()
    write(declarations, "first")
    write(declarations, "second", f"x = 1\n{statement.format(declarations.name)}\n")
    with pytest.raises(DeclarationError) as error:
        list_declared(declarations)
    assert error.value.what == f"ModuleNotFoundError: No module named '{declarations.name}'"
    assert error.value.where == f"{declarations}/second.py, line 2"
    assert error.value.action.startswith(
        f"Write from {folder.name}.{declarations.name} instead of from {declarations.name}:"
    )
    write(declarations, "second", f"x = 1\n{statement.format(f'{folder.name}.{declarations.name}')}\n")
    assert list_declared(declarations) == ["first"]


def test_a_project_that_is_itself_in_a_package_imports_its_folder_as_before(folder: Path) -> None:
    Path("__init__.py").touch()
    write(folder, "first")
    assert list_declared(Path(folder.name)) == ["first"]
    assert f"{folder.name}.first" in sys.modules


def test_subfolders_and_dicts_declare_their_tables_too(folder: Path) -> None:
    (folder / "sales" / "eu").mkdir(parents=True)
    (folder / "_drafts").mkdir()
    write(folder / "sales" / "eu", "sold")
    write(folder / "_drafts", "later")
    write(folder, "many", TABLE + '\nmany = {"x": many}\n')
    assert list_declared(folder) == ["many", "sold"]


@pytest.mark.parametrize("name", ["orders.v2", "2026", "my-orders"])
def test_a_file_that_cannot_be_imported_by_its_name_is_refused(folder: Path, name: str) -> None:
    write(folder, name, TABLE.replace("{name}", "first"))
    with pytest.raises(SettingsError, match=rf"cannot be imported by its name: {name}\.py.*Rename it"):
        list_declared(folder)


def test_a_file_that_hides_a_folder_of_its_name_is_refused(folder: Path) -> None:
    (folder / "sales" / "eu").mkdir(parents=True)
    write(folder / "sales" / "eu", "sold")
    write(folder, "sales")
    with pytest.raises(SettingsError, match=r"sales\.py and the folder sales both contain declarations.*Rename one"):
        list_declared(folder)


def test_a_folder_whose_name_contains_a_dot_is_refused(folder: Path) -> None:
    dotted_folder = folder / "v1.2"
    dotted_folder.mkdir()
    write(dotted_folder, "first")
    with pytest.raises(SettingsError, match=r"contains a dot.*Rename the folder"):
        list_declared(dotted_folder)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("x = 1\ndef broken(:\n", "SyntaxError", 2),
        ("x = 1\n\nx / 0\n", "ZeroDivisionError: division by zero", 3),
        ("import no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package'", 1),
        (TABLE.replace('"INT", "", required=True', '"INTEGER", ""'), "unknown type INTEGER", 4),
    ],
)
def test_a_file_that_fails_is_named_with_its_line(folder: Path, text: str, message: str, line: int) -> None:
    write(folder, "first", text)
    with pytest.raises(DeclarationError) as error:
        list_declared(folder)
    assert message in str(error.value)
    assert f"{folder}/first.py, line {line}" in str(error.value)


def test_a_file_that_failed_is_read_again_after_it_is_corrected(folder: Path) -> None:
    write(folder, "first", "x = 1 / 0\n")
    with pytest.raises(DeclarationError):
        list_declared(folder)
    write(folder, "first")
    assert list_declared(folder) == ["first"]


def test_two_declarations_of_one_name_are_refused(folder: Path) -> None:
    write(folder, "first")
    write(folder, "second", TABLE.replace("{name}", "first"))
    with pytest.raises(DeclarationError, match=r"another declaration also uses .* first.*first\.py and .*second\.py"):
        list_declared(folder)


def test_commands_and_dagster_know_the_tables_of_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "readings")
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", folder.name)
    assert main.run(["status", "temperatures"]) == main.WRONG_USE
    assert "Unknown table 'temperatures'. Declared tables: readings" in " ".join(capsys.readouterr().err.split())
    keys = build_defs().resolve_asset_graph().get_all_asset_keys()
    assert dg.AssetKey("readings_changes") in keys
    assert dg.AssetKey("temperatures") not in keys


def test_a_command_names_the_wrong_line_without_a_traceback(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "readings", "x = 1 / 0\n")
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", folder.name)
    assert main.run(["status"]) == main.FAILED
    error = " ".join(capsys.readouterr().err.split())
    assert "ZeroDivisionError" in error
    assert "readings.py, line 1" in error
    assert "Traceback" not in error


def test_the_project_file_names_the_declarations_and_a_setting_overrides_it(folder: Path) -> None:
    write(folder, "first")
    Path("pyproject.toml").write_text(f'[tool.lakehouse]\ndeclarations = "{folder.name}"\n')
    assert [table.name for table in declared_tables(Settings())] == ["first"]
    assert temperatures in declared_tables(Settings(declarations="lakehouse.examples.tables"))


def test_settings_loaded_in_several_threads_are_equal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("pyproject.toml").write_text(f'[tool.lakehouse]\ndeclarations = "{folder.name}"\n')
    Path(".env").write_text("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS=broker:9092\n")
    project, inner_folder = Path.cwd(), folder / "notebooks"
    inner_folder.mkdir()
    monkeypatch.chdir(inner_folder)
    with ThreadPoolExecutor(4) as threads:
        all_settings = [future.result() for future in [threads.submit(Settings.load) for _ in range(200)]]
    assert {(settings.home_folder, settings.kafka_bootstrap_servers) for settings in all_settings} == {
        (project / ".lakehouse", "broker:9092")
    }


def test_a_project_of_another_user_is_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "first")
    Path("pyproject.toml").write_text(f'[tool.lakehouse]\ndeclarations = "{folder.name}"\n')
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    os.chown("pyproject.toml", 54321, -1)
    assert [table.name for table in declared_tables(Settings())] == ["first"]
    monkeypatch.chdir(folder)
    assert find_tables(Settings()) == ()


@pytest.mark.parametrize(
    "project_file",
    ["[tool.lakehouse", "[tool.lakehouse]\ntables = 1\n", "[tool.lakehouse]\ndeclarations = ['a']\n"]
    + [f"[tool.lakehouse]\ndeclarations = '{location}'\n" for location in ("./nowhere", "two words")],
)
def test_an_invalid_project_file_is_named(folder: Path, project_file: str) -> None:
    Path("pyproject.toml").write_text(project_file)
    with pytest.raises(SettingsError, match=r"project file cannot be used.*pyproject\.toml"):
        declared_tables(Settings())


@pytest.mark.parametrize(
    ("replacement", "message", "action", "line"),
    [
        (("required=", "requird="), "Column has no parameter 'requird'", "Write required.", 3),
        (("topic=", "topics="), "StreamTable has no parameter 'topics'", "Write topic.", 4),
        ((', key=["id"]', ""), "StreamTable is missing key", "Add key=... to it.", 4),
        (('"", required=True', "required=True"), "Column is missing doc", "Add doc=... to it.", 3),
        (("required=", "qqq="), "Column has no parameter 'qqq'", "It takes name, type, doc, required, between,", 3),
        (("import Column", "import Colum"), "lakehouse has no 'Colum'", "Write Column.", 2),
        (("Column(", "Colunm("), "name 'Colunm' is not defined", "Write Column, and import it from lakehouse.", 3),
        (("import Column, ", "import "), "name 'Column' is not defined", "Write Column, and import it", 3),
        (("Column(", "qqq("), "name 'qqq' is not defined", "Correct the file.", 3),
    ],
)
def test_a_misspelled_name_is_reported_with_its_line_and_the_nearest_valid_name(
    folder: Path, replacement: tuple[str, str], message: str, action: str, line: int
) -> None:
    text = TABLE.replace("lakehouse.declaration", "lakehouse")
    assert replacement[0] in text
    write(folder, "first", text.replace(*replacement, 1))
    with pytest.raises(DeclarationError) as error:
        list_declared(folder)
    assert message in error.value.what
    assert error.value.action.startswith(action)
    assert error.value.where == f"{folder}/first.py, line {line}"
    write(folder, "first", text)
    assert list_declared(folder) == ["first"], "the corrected file is read"


def test_an_error_in_a_function_of_the_user_is_reported_unchanged(folder: Path) -> None:
    write(folder, "first", "def Column(name): ...\nColumn(nam=1)\n")
    with pytest.raises(DeclarationError, match=r"Column\(\) got an unexpected keyword.*Correct the file"):
        list_declared(folder)
