"""Views are found where tables are, in an order in which each comes after those that it reads."""

from pathlib import Path

import dagster as dg
import pytest

from lakehouse.cli import main
from lakehouse.defs.build import build_defs
from lakehouse.discovery import declared_tables, declared_views
from lakehouse.errors import DeclarationError
from lakehouse.settings import Settings
from lakehouse_tests.helpers.declaration_files import write

VIEWS = """
from lakehouse import View
late = View("late", "SELECT id FROM few WHERE id > 3", "A number.")
views = [View("few", "SELECT id FROM first WHERE id < 9", "A number.", materialized=True)]
"""


@pytest.fixture
def project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(folder, "first")
    write(folder, "views", VIEWS)
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", str(folder))
    monkeypatch.setenv("LAKEHOUSE_HOME", str(folder.parent / "home"))
    return folder


def test_views_are_found_with_tables(project: Path) -> None:
    settings = Settings.load()
    assert [table.name for table in declared_tables(settings)] == ["first"]
    assert [view.name for view in declared_views(settings)] == ["few", "late"]


def test_dagster_loads_them(project: Path) -> None:
    keys = {spec.key for spec in build_defs().resolve_all_asset_specs()}
    assert {dg.AssetKey("few"), dg.AssetKey("late")} <= keys


def test_the_commands_use_them(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.run(["query", "FROM few"]) == main.FAILED
    assert "lakehouse materialize few" in capfd.readouterr().err
    assert main.run(["materialize"]) == main.FAILED
    assert "View few reads first, which does not exist yet" in capfd.readouterr().err
    assert main.run(["materialize", "fews"]) == main.WRONG_USE
    assert "Unknown materialized view 'fews'. Did you mean few? Declared: few" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT id FROM fist", "View 'wrong': unknown table fist. Did you mean first?"),
        ("SELECT id FROM wrong", "View 'wrong': it reads itself: wrong reads wrong"),
    ],
)
def test_a_wrong_view_is_refused_for_every_command(project: Path, sql: str, message: str) -> None:
    write(project, "wrong", f'from lakehouse import View\nwrong = View("wrong", "{sql}", "A number.")\n')
    with pytest.raises(DeclarationError, match=message):
        declared_tables(Settings.load())


def test_a_name_that_is_used_twice_is_refused_with_both_files(project: Path) -> None:
    write(project, "twin", 'from lakehouse import View\ntwin = View("first_changes", "SELECT 1 AS x", "One.")\n')
    with pytest.raises(DeclarationError, match=r"also uses the name first_changes \(.*first\.py and .*twin\.py\)"):
        declared_tables(Settings.load())
