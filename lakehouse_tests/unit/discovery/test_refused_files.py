"""A file or a folder that cannot be read is refused, with its line and what to correct."""

from pathlib import Path
from uuid import uuid4

import pytest

from lakehouse.discovery import declared_tables
from lakehouse.errors import DeclarationError, SettingsError
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import failure_of
from lakehouse_tests.helpers.declaration_files import TABLE, list_declared, write


def test_a_folder_without_a_table_is_refused(folder: Path) -> None:
    write(folder, "helper", "MOST = 3\n")
    with pytest.raises(DeclarationError, match=r"No table is declared in .*LAKEHOUSE_DECLARATIONS"):
        list_declared(folder)


@pytest.mark.parametrize("location", ["not_there", "not_there.either", "lakehouse.examples.tables.nope"])
def test_a_setting_that_names_neither_a_folder_nor_a_module_is_refused(location: str) -> None:
    message = "cannot be imported: '.*neither a folder, a file nor a module.*LAKEHOUSE_DECLARATIONS"
    with pytest.raises(SettingsError, match=message):
        list_declared(Path(location))


def test_a_folder_with_the_name_of_another_module_is_refused(folder: Path) -> None:
    shadowed_folder = folder / "json"
    shadowed_folder.mkdir()
    write(shadowed_folder, "first")
    with pytest.raises(SettingsError, match=r"another module that is named json.*Rename the folder"):
        list_declared(shadowed_folder)


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


@pytest.mark.parametrize(("name", "reason"), [("my-orders", "my-orders is not a name"), ("json", "another module")])
def test_a_single_file_that_cannot_be_imported_by_its_name_is_refused(folder: Path, name: str, reason: str) -> None:
    write(folder, name, TABLE.replace("{name}", "first"))
    with pytest.raises(SettingsError, match=rf"The file of declarations cannot be imported: .*{reason}.*Rename the"):
        list_declared(folder / f"{name}.py")


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


def test_a_command_names_the_wrong_line_without_a_traceback(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "readings", "x = 1 / 0\n")
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", folder.name)
    error = failure_of("status")
    assert "ZeroDivisionError" in error
    assert "readings.py, line 1" in error
    assert "Traceback" not in error


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
        (("topic=", "topik="), "StreamTable has no parameter 'topik'", "Write topic.", 4),
        ((', key=["id"]', ""), "key is missing", "Add key=... to it.", 4),
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
