"""``lakehouse remove`` without Spark: what it shows, what is gone afterwards, and what it refuses without a change."""

import io
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from filelock import FileLock

from lakehouse.cli import main
from lakehouse.declaration import Export
from lakehouse.exports.exporter import Exporter
from lakehouse.settings import Settings
from lakehouse.storage import lock
from lakehouse_tests.helpers.commands import failure_of, lakehouse_says, output_of
from lakehouse_tests.helpers.tables.exported import append, day

DECLARATIONS = """
from lakehouse import Column, Export, Measure, Rollup, StreamTable, TableRows, View

columns = [Column("id", "STRING", required=True, doc=""), Column("price", "DOUBLE", doc="")]
by_id = Rollup("sales_by_id", ["id"], {{"sales": Measure("count(*)", "BIGINT", "")}}, doc="")
sales = StreamTable("sales", "sales", "", columns, key=["id"], rollups=[by_id])
others = StreamTable("others", "others", "", columns, key=["id"])
files = Export("sales_files", of="sales")
{}
"""
TABLES = ("sales", "sales_rejected", "sales_changes", "sales_by_id", "others")
READERS = {
    "table by_path": 'path = "{tables}/../tables/sales"\n'
    'by_path = StreamTable("by_path", doc="", columns=columns, key=["id"], source=TableRows(path))',
    "table copies": 'copies = StreamTable("copies", doc="", columns=columns, key=["id"], source=TableRows("sales"))',
    "view dear": 'dear = View("dear", "SELECT * FROM sales_changes", doc="Dear sales.")',
}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home with the tables of two declarations, and an export of one."""
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", str(folder_of_declarations(tmp_path)))
    declare(tmp_path)
    settings = Settings(home=tmp_path)
    for name in TABLES:
        append(settings, ("a", 1.0, day(1)), name=name)
    Exporter(settings, Export("sales_files", of="sales")).update()
    return settings


def folder_of_declarations(home: Path) -> Path:
    """A folder of a name that no other test imports."""
    return home / f"declared_in_{home.name}"


def declare(home: Path, reader: str = "") -> None:
    folder = folder_of_declarations(home)
    folder.mkdir(exist_ok=True)
    (folder / "sales.py").write_text(DECLARATIONS.format(reader))


def names_in(settings: Settings) -> list[str]:
    """The tables and exports that have a folder, and folders of what was removed."""
    places = (Path(settings.tables_root), settings.home_folder / "exports")
    return sorted(folder.name for place in places for folder in place.iterdir() if folder.name != ".locks")


def test_a_removed_table_leaves_nothing_and_its_name_is_free(settings: Settings) -> None:
    output = output_of("remove", "sales", "--yes")
    assert output.endswith("Removed sales. Delete its declaration too: the next merge would create it again.\n")
    assert all(name in output for name in (*TABLES[:4], "sales_files"))
    assert names_in(settings) == ["others"]
    append(settings, ("b", 2.0, day(1)))
    assert DeltaTable(settings.table_uri("sales")).version() == 0
    assert output_of("remove", "sales", "--yes")
    assert output_of("remove", "sales") == "Nothing is stored of sales. Delete its declaration.\n"


def test_nothing_is_removed_without_a_yes(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert lakehouse_says("remove", "sales").code == 130
    assert names_in(settings) == sorted((*TABLES, "sales_files"))


@pytest.mark.parametrize("reader", READERS)
def test_a_table_that_others_read_stays(settings: Settings, reader: str) -> None:
    declare(settings.home_folder, READERS[reader].replace("{tables}", settings.tables_root))
    error = failure_of("remove", "sales", "--yes", code=main.FAILED)
    assert f"sales is read by {reader}" in error
    assert names_in(settings) == sorted((*TABLES, "sales_files"))


def test_a_damaged_table_is_removed(settings: Settings) -> None:
    shutil.rmtree(Path(settings.table_uri("sales"), "_delta_log"))
    output_of("remove", "sales", "--yes")
    assert names_in(settings) == ["others"]


def test_a_removal_that_is_killed_is_finished_by_the_next(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    delete = shutil.rmtree

    def fail(folder: Path) -> None:
        if folder.parent.name == ".removed":
            raise PermissionError(13, "Permission denied", str(folder))
        delete(folder)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", fail)
        assert "Permission denied" in failure_of_removal()
    assert ".removed" in names_in(settings)
    assert not {*names_in(settings)} & {*TABLES[:4]}
    output_of("remove", "sales", "--yes")
    assert names_in(settings) == ["others"]


def test_files_that_no_export_wrote_stay(settings: Settings) -> None:
    other_file = settings.home_folder / "exports" / "sales_files" / "thesis.txt"
    other_file.write_text("mine")
    never_run = settings.home_folder / "exports" / "never_run" / "thesis.txt"
    never_run.parent.mkdir()
    never_run.write_text("mine")
    declare(settings.home_folder, 'never_run = Export("never_run", of="sales")')
    assert "never_run" not in output_of("remove", "sales", "--yes")
    assert [*other_file.parent.iterdir()] == [other_file]
    assert never_run.exists()


def test_a_table_that_is_a_link_stays_with_all_others(settings: Settings) -> None:
    folder = Path(settings.table_uri("sales_changes"))
    target = folder.rename(settings.home_folder / "elsewhere")
    folder.symlink_to(target)
    assert "The folder of sales_changes is a link" in failure_of("remove", "sales", "--yes")
    assert {*TABLES} < {*names_in(settings)}


def test_no_table_is_removed_while_another_program_writes_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_PATIENCE", 0.1)
    with FileLock(Path(settings.tables_root, ".locks", "sales_by_id")):
        assert "sales_by_id was locked" in failure_of_removal()
    assert names_in(settings) == sorted((*TABLES, "sales_files"))


def failure_of_removal() -> str:
    result = lakehouse_says("remove", "sales", "--yes")
    assert result.code == main.FAILED
    return result.err
