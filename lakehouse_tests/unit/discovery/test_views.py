"""Views are found where tables are, in an order in which each comes after those that it reads."""

from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.defs.build import build_defs
from lakehouse.discovery import declared_tables, declared_views
from lakehouse.errors import DeclarationError
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import failure_of, misuse_of, output_of, read_json_output
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


def test_the_commands_use_them(project: Path) -> None:
    assert "lakehouse materialize few" in failure_of("query", "FROM few")
    assert "View few reads first, which does not exist yet" in failure_of("materialize")
    assert "Unknown materialized view 'fews'. Did you mean few? Declared: few" in misuse_of("materialize", "fews")


def test_columns_are_checked_before_rows_are_stored_but_not_those_of_other_views(project: Path) -> None:
    write_deltalake(project.parent / "home" / "tables" / "first", pa.table({"id": [1]}))
    sums = """
from lakehouse import View
counts = View("counts", "SELECT id, count(*) FROM first GROUP BY id", "An id.")
sums = View("sums", "SELECT count(*)::HUGEINT AS rows FROM first", "One sum.", materialized=True)
of_counts = View("of_counts", "SELECT id FROM counts", "An id.", materialized=True)
"""
    write(project, "sums", sums)
    output_of("materialize", "few")
    for name, problem in (("sums", "Delta has no type for HUGEINT"), ("of_counts", "has no name of its own")):
        assert problem in failure_of("materialize", name)
        assert not (project.parent / "home" / "tables" / name).exists()


def test_status_shows_each_view_and_its_news(project: Path) -> None:
    first = project.parent / "home" / "tables" / "first"
    output = output_of("status")
    assert "few: a view whose rows are not stored yet. View few reads first, which does not exist yet" in output
    assert "late: a view, computed when it is read\n" in output
    write_deltalake(first, pa.table({"id": [1, 2, 20]}))
    assert "few: a view whose rows are not stored yet. Run: lakehouse materialize few\n" in output_of("status")
    output_of("materialize")
    output = output_of("status")
    assert "few: a view, version 0, 2 rows (" in output and "Computed from: first 0.\n" in output
    assert "Out of date" not in output
    write_deltalake(first, pa.table({"id": [3]}), mode="append")
    assert "Out of date: rows of first changed. Run: lakehouse materialize few\n" in output_of("status")
    few, late = read_json_output("status")["views"]
    assert (few["computed_from"], few["news"], few["up_to_date"]) == ({"first": 0}, ["first"], False)
    assert (late["view"], late["materialized"], late["up_to_date"]) == ("late", False, True)
    assert "few" not in output_of("status", "first")


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
