"""Where declarations are found: a folder of files or a module, and what is said of those that cannot be read."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pytest

from lakehouse.cli import main
from lakehouse.defs.build import build_defs
from lakehouse.discovery import declared_tables, tables_there
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
    """A folder for declarations in the working directory; a process imports a name once, so each has its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEHOUSE_DECLARATIONS")
    monkeypatch.setattr(sys, "path", [*sys.path])
    made = tmp_path / f"lake_{uuid4().hex}"
    made.mkdir()
    return made


def write(folder: Path, name: str, text: str = TABLE) -> None:
    (folder / f"{name}.py").write_text(text.replace("{name}", name), encoding="utf-8")


def declared(folder: Path) -> list[str]:
    return [table.name for table in declared_tables(Settings(declarations=str(folder)))]


def test_without_a_project_nothing_is_declared_and_the_error_names_the_examples(folder: Path) -> None:
    assert tables_there(Settings()) == ()
    said = r"No lakehouse project here.*LAKEHOUSE_DECLARATIONS=lakehouse\.examples\.tables"
    with pytest.raises(SettingsError, match=said):
        declared_tables(Settings())


def test_a_project_is_found_from_a_folder_below_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "first")
    Path("pyproject.toml").write_text(f'[tool.lakehouse]\ndeclarations = "{folder.name}"\n')
    Path(".env").write_text("LAKEHOUSE_TABLES=lake\n")
    project = Path.cwd()
    below = project / "notebooks" / "deep"
    below.mkdir(parents=True)
    (project / "notebooks" / "pyproject.toml").write_text("[tool.other\n")
    monkeypatch.chdir(below)
    settings = Settings.load()
    assert [table.name for table in declared_tables(settings)] == ["first"]
    assert settings.home_folder == project / ".lakehouse"
    assert settings.tables_root == str(project / "lake")
    assert Path.cwd() == below


def test_a_folder_declares_the_tables_of_its_files_in_the_order_of_their_names(folder: Path) -> None:
    for name in ("second", "first", "_draft"):
        write(folder, name)
    assert declared(folder) == ["first", "second"]


def test_a_folder_may_be_told_as_it_lies_in_the_working_directory(folder: Path) -> None:
    write(folder, "first")
    assert declared(Path(folder.name)) == ["first"]


def test_a_file_may_import_its_neighbours_and_their_tables_count_once(folder: Path) -> None:
    write(folder, "first")
    (folder / "second.py").write_text(f"from {folder.name}.first import first\nother = first\n", encoding="utf-8")
    assert declared(folder) == ["first"]


def test_tables_may_be_made_in_a_list(folder: Path) -> None:
    made = 'def made(name):\n    return StreamTable(name, name, "", [Column("id", "INT", "", required=True)], ["id"])\n'
    text = f"from lakehouse.declaration import Column, StreamTable\n{made}tables = [made('first'), made('second')]\n"
    write(folder, "many", text)
    assert declared(folder) == ["first", "second"]


def test_a_module_of_the_working_directory_declares_its_tables(folder: Path) -> None:
    write(folder, "first")
    assert declared(Path(f"{folder.name}.first")) == ["first"]


def test_declarations_are_read_once_by_a_process(folder: Path) -> None:
    write(folder, "first")
    settings = Settings(declarations=str(folder))
    assert declared_tables(settings)[0] is declared_tables(settings)[0]


def test_a_folder_without_a_table_is_refused(folder: Path) -> None:
    write(folder, "helper", "MOST = 3\n")
    with pytest.raises(DeclarationError, match=r"No table is declared in .*LAKEHOUSE_DECLARATIONS"):
        declared(folder)


@pytest.mark.parametrize("where", ["not_there", "not_there.either", "lakehouse.examples.tables.nope"])
def test_what_is_neither_a_folder_nor_a_module_is_a_setting_that_cannot_be_used(where: str) -> None:
    with pytest.raises(SettingsError, match="declared in '.*neither a folder nor a module.*LAKEHOUSE_DECLARATIONS"):
        declared(Path(where))


def test_a_folder_that_is_named_like_something_else_python_finds_is_refused(folder: Path) -> None:
    other = folder / "json"
    other.mkdir()
    write(other, "first")
    with pytest.raises(SettingsError, match=r"is named json.*Rename the folder"):
        declared(other)


def test_subfolders_and_dicts_declare_their_tables_too(folder: Path) -> None:
    (folder / "sales" / "eu").mkdir(parents=True)
    (folder / "_drafts").mkdir()
    write(folder / "sales" / "eu", "sold")
    write(folder / "_drafts", "later")
    write(folder, "many", TABLE + '\nmany = {"x": many}\n')
    assert declared(folder) == ["many", "sold"]


@pytest.mark.parametrize("name", ["orders.v2", "2026", "my-orders"])
def test_a_file_that_cannot_be_imported_by_its_name_is_refused(folder: Path, name: str) -> None:
    write(folder, name, TABLE.replace("{name}", "first"))
    with pytest.raises(SettingsError, match=rf"cannot be imported by its name: {name}\.py.*Rename it"):
        declared(folder)


def test_a_file_that_hides_a_folder_of_its_name_is_refused(folder: Path) -> None:
    (folder / "sales" / "eu").mkdir(parents=True)
    write(folder / "sales" / "eu", "sold")
    write(folder, "sales")
    with pytest.raises(SettingsError, match=r"sales\.py and the folder sales both hold declarations.*Rename one"):
        declared(folder)


def test_a_folder_whose_name_holds_a_dot_is_refused(folder: Path) -> None:
    other = folder / "v1.2"
    other.mkdir()
    write(other, "first")
    with pytest.raises(SettingsError, match=r"holds a dot.*Rename the folder"):
        declared(other)


@pytest.mark.parametrize(
    ("text", "fact", "line"),
    [
        ("x = 1\ndef broken(:\n", "SyntaxError", 2),
        ("x = 1\n\nx / 0\n", "ZeroDivisionError: division by zero", 3),
        ("import no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package'", 1),
        (TABLE.replace('"INT", "", required=True', '"INTEGER", ""'), "unknown type INTEGER", 4),
    ],
)
def test_a_file_that_fails_is_named_with_its_line(folder: Path, text: str, fact: str, line: int) -> None:
    write(folder, "first", text)
    with pytest.raises(DeclarationError) as failed:
        declared(folder)
    assert fact in str(failed.value)
    assert f"{folder}/first.py, line {line}" in str(failed.value)


def test_a_file_that_failed_is_read_again_once_it_is_mended(folder: Path) -> None:
    write(folder, "first", "x = 1 / 0\n")
    with pytest.raises(DeclarationError):
        declared(folder)
    write(folder, "first")
    assert declared(folder) == ["first"]


def test_two_declarations_of_one_name_are_refused(folder: Path) -> None:
    write(folder, "first")
    write(folder, "second", TABLE.replace("{name}", "first"))
    with pytest.raises(DeclarationError, match=r"first is also a name of .* 'first'.*first\.py and .*second\.py"):
        declared(folder)


def test_commands_and_dagster_know_the_tables_of_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "readings")
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", folder.name)
    assert main.run(["status", "temperatures"]) == main.WRONG_USE
    assert "No table is declared as 'temperatures': readings" in " ".join(capsys.readouterr().err.split())
    keys = build_defs().resolve_asset_graph().get_all_asset_keys()
    assert dg.AssetKey("readings_changes") in keys
    assert dg.AssetKey("temperatures") not in keys


def test_a_command_says_in_one_sentence_which_line_is_wrong(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "readings", "x = 1 / 0\n")
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", folder.name)
    assert main.run(["status"]) == main.FAILED
    said = " ".join(capsys.readouterr().err.split())
    assert "ZeroDivisionError" in said
    assert "readings.py, line 1" in said
    assert "Traceback" not in said


def test_a_project_says_itself_where_its_declarations_are_and_a_setting_goes_before(folder: Path) -> None:
    write(folder, "first")
    Path("pyproject.toml").write_text(f'[tool.lakehouse]\ndeclarations = "{folder.name}"\n')
    assert [table.name for table in declared_tables(Settings())] == ["first"]
    assert temperatures in declared_tables(Settings(declarations="lakehouse.examples.tables"))


def test_settings_that_are_loaded_in_threads_below_a_project_are_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("pyproject.toml").write_text(f'[tool.lakehouse]\ndeclarations = "{folder.name}"\n')
    Path(".env").write_text("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS=broker:9092\n")
    project, below = Path.cwd(), folder / "notebooks"
    below.mkdir()
    monkeypatch.chdir(below)
    with ThreadPoolExecutor(4) as threads:
        loaded = [each.result() for each in [threads.submit(Settings.load) for _ in range(200)]]
    assert {(each.home_folder, each.kafka_bootstrap_servers) for each in loaded} == {
        (project / ".lakehouse", "broker:9092")
    }


def test_a_project_of_somebody_else_above_is_not_entered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "first")
    Path("pyproject.toml").write_text(f'[tool.lakehouse]\ndeclarations = "{folder.name}"\n')
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    os.chown("pyproject.toml", 54321, -1)
    assert [table.name for table in declared_tables(Settings())] == ["first"]
    monkeypatch.chdir(folder)
    assert tables_there(Settings()) == ()


@pytest.mark.parametrize(
    "said",
    ["[tool.lakehouse", "[tool.lakehouse]\ntables = 1\n", "[tool.lakehouse]\ndeclarations = ['a']\n"]
    + [f"[tool.lakehouse]\ndeclarations = '{where}'\n" for where in ("./nowhere", "two words")],
)
def test_a_project_file_that_says_it_otherwise_is_named(folder: Path, said: str) -> None:
    Path("pyproject.toml").write_text(said)
    with pytest.raises(SettingsError, match=r"project file cannot be used.*pyproject\.toml"):
        declared_tables(Settings())


@pytest.mark.parametrize(
    ("wrong", "fact", "action", "line"),
    [
        (("required=", "requird="), "Column has no word 'requird'", "Write required.", 3),
        (("topic=", "topics="), "StreamTable has no word 'topics'", "Write topic.", 4),
        ((', key=["id"]', ""), "StreamTable lacks key", "Write key=... in it.", 4),
        (('"", required=True', "required=True"), "Column lacks doc", "Write doc=... in it.", 3),
        (("required=", "qqq="), "Column has no word 'qqq'", "Its words are name, type, doc, required, between,", 3),
        (("import Column", "import Colum"), "lakehouse has no 'Colum'", "Write Column.", 2),
        (("Column(", "Colunm("), "name 'Colunm' is not defined", "Write Column, and import it from lakehouse.", 3),
        (("import Column, ", "import "), "name 'Column' is not defined", "Write Column, and import it", 3),
        (("Column(", "qqq("), "name 'qqq' is not defined", "Correct the file.", 3),
    ],
)
def test_a_misspelt_word_is_named_with_its_part_its_line_and_the_nearest_that_exists(
    folder: Path, wrong: tuple[str, str], fact: str, action: str, line: int
) -> None:
    text = TABLE.replace("lakehouse.declaration", "lakehouse")
    assert wrong[0] in text
    write(folder, "first", text.replace(*wrong, 1))
    with pytest.raises(DeclarationError) as failed:
        declared(folder)
    assert fact in failed.value.what
    assert failed.value.action.startswith(action)
    assert failed.value.where == f"{folder}/first.py, line {line}"
    write(folder, "first", text)
    assert declared(folder) == ["first"], "what it says to write is read"


def test_a_word_that_a_function_of_their_own_does_not_have_is_told_as_it_is(folder: Path) -> None:
    write(folder, "first", "def Column(name): ...\nColumn(nam=1)\n")
    with pytest.raises(DeclarationError, match=r"Column\(\) got an unexpected keyword.*Correct the file"):
        declared(folder)
