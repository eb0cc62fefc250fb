"""Where declarations are found: a folder of files or a module, and which of their tables count."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.defs.build import build_defs
from lakehouse.discovery import declared_tables, find_readable_tables, find_tables
from lakehouse.errors import DeclarationError, LakehouseError, SettingsError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import misuse_of
from lakehouse_tests.helpers.declaration_files import TABLE, list_declared, write


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


def test_one_file_declares_its_tables_and_no_file_next_to_it(folder: Path) -> None:
    write(folder, "first")
    write(folder, "second")
    assert list_declared(folder / "second.py") == ["second"]
    assert list_declared(Path(folder.name) / "second.py") == ["second"]


def test_readable_tables_are_those_of_the_files_that_do_not_fail(folder: Path) -> None:
    write(folder, "first")
    write(folder, "second", "1 / 0\n")
    write(folder, "third", f"from {folder.name} import second\n")
    write(folder, "my-orders")
    errors: list[LakehouseError] = []
    tables = find_readable_tables(Settings(declarations=str(folder)), errors.append)
    assert [table.name for table in tables] == ["first"]
    problems = [(Path(error.where.partition(",")[0]).name, error.what) for error in errors]
    assert problems == [
        ("my-orders.py", "A file of declarations cannot be imported by its name: my-orders.py"),
        ("second.py", "ZeroDivisionError: division by zero"),
    ]


def test_a_folder_whose_package_fails_has_no_readable_tables(folder: Path) -> None:
    write(folder, "first")
    write(folder, "__init__", "1 / 0\n")
    with pytest.raises(DeclarationError, match="ZeroDivisionError"):
        find_readable_tables(Settings(declarations=str(folder)), lambda _: None)


def test_readable_tables_with_one_name_are_refused_although_another_file_fails(folder: Path) -> None:
    write(folder, "first")
    write(folder, "second", (folder / "first.py").read_text())
    write(folder, "third", "1 / 0\n")
    with pytest.raises(DeclarationError, match="first") as error:
        find_readable_tables(Settings(declarations=str(folder)), lambda _: None)
    assert error.value.where == f"{folder / 'first.py'} and {folder / 'second.py'}"


def test_a_file_that_ends_the_program_fails_like_others(folder: Path) -> None:
    write(folder, "first")
    write(folder, "second", "import sys\nsys.exit(0)\n")
    with pytest.raises(DeclarationError, match=r"SystemExit: 0 .*second.py, line 2"):
        list_declared(folder)


def test_declarations_are_read_once_by_a_process(folder: Path) -> None:
    write(folder, "first")
    settings = Settings(declarations=str(folder))
    assert declared_tables(settings)[0] is declared_tables(settings)[0]


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


def test_commands_and_dagster_know_the_tables_of_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "readings")
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", folder.name)
    assert "Unknown table 'temperatures'. Declared tables: readings" in misuse_of("status", "temperatures")
    keys = build_defs().resolve_asset_graph().get_all_asset_keys()
    assert dg.AssetKey("readings_changes") in keys
    assert dg.AssetKey("temperatures") not in keys


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
