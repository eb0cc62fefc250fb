"""A file of declarations that fails stops its own tables only, and is red everywhere until it is corrected."""

import json
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.defs.build import build_broken_files, build_defs
from lakehouse.discovery import find_outlets, readable_declarations
from lakehouse.errors import DeclarationError, LakehouseError
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import failure_of, lakehouse_says, notices_of
from lakehouse_tests.helpers.declaration_files import TABLE, write

READERS = """
from lakehouse import Export, View
good_view = View(name="good_view", sql="SELECT id FROM first", doc="A row.")
bad_view = View(name="bad_view", sql="SELECT id FROM second", doc="A row.")
worse_view = View(name="worse_view", sql="SELECT id FROM bad_view", doc="A row.")
good_export = Export("good_export", of="first")
bad_export = Export("bad_export", of="second")
"""
CHECK = dg.AssetCheckKey(dg.AssetKey(["lakehouse", "declarations"]), "every_file_loads")


@pytest.fixture
def project(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two files, of which the second has a syntax error."""
    write(folder, "first")
    write(folder, "second", f"{TABLE}\nimport (\n")
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", str(folder))
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    return folder


@pytest.mark.invariant("12.12")
def test_commands_of_other_tables_go_on_with_a_notice(project: Path) -> None:
    assert f"{project / 'second.py'}, line 6" in notices_of("audit", "first")
    for command in (["audit", "second"], ["audit"]):
        assert "SyntaxError" in failure_of(*command)


@pytest.mark.invariant("12.12")
def test_the_status_shows_the_tables_and_the_file_and_fails(project: Path) -> None:
    result = lakehouse_says("status")
    assert result.code == 1
    assert "first: not created yet" in result.out and "Broken: SyntaxError" in result.out
    result = lakehouse_says("status", "--json")
    assert result.code == 1
    fields = json.loads(result.out)
    assert [table["table"] for table in fields["tables"]] == ["first"]
    assert "second.py" in fields["broken"][0]


@pytest.mark.invariant("12.12")
def test_dagster_loads_the_other_tables_and_shows_the_file_until_it_is_corrected(project: Path) -> None:
    definitions = build_defs()
    assert definitions.resolve_job_def("merge_first")
    sensor = definitions.resolve_sensor_def("lakehouse_declarations_sensor")
    with dg.DagsterInstance.ephemeral() as instance, dg.build_sensor_context(instance) as context:
        with pytest.raises(DeclarationError, match=r"second\.py"):
            sensor.evaluate_tick(context)
        record = instance.get_latest_asset_check_evaluation_record(CHECK)
    assert record is not None
    assert record.evaluation is not None
    assert not record.evaluation.passed
    (project / "second.py").write_text(TABLE.replace("{name}", "second"))
    names = [corrected.name for corrected in build_defs().get_repository_def().sensor_defs]
    assert {"first_sensor", "second_sensor"} <= set(names)
    assert sensor.name not in names


def test_parts_of_one_code_location_show_the_file_once(project: Path) -> None:
    """As two components of a project do, which load different tables."""
    errors: list[LakehouseError] = []
    readable_declarations(Settings.load(), errors.append)
    broken_files = build_broken_files(tuple(map(str, errors)))
    repository = dg.Definitions.merge(build_defs(), broken_files).get_repository_def()
    assert [sensor.name for sensor in repository.sensor_defs].count("lakehouse_declarations_sensor") == 1


def test_readers_of_tables_that_cannot_be_loaded_are_left_out_with_the_reason(project: Path) -> None:
    write(project, "readers", READERS)
    errors: list[LakehouseError] = []
    declarations = readable_declarations(Settings.load(), errors.append)
    assert [view.name for view in declarations.views] == ["good_view"]
    assert [export.name for export in declarations.outlets] == ["good_export"]
    assert named_in(errors[1:]) == ["bad_view", "worse_view", "bad_export"]


def named_in(errors: Sequence[LakehouseError]) -> list[str]:
    """The names in quotes that errors begin with."""
    return [error.what.split("'")[1] for error in errors]


@pytest.mark.invariant("12.12")
def test_maintenance_waits_for_the_file_because_it_may_declare_an_export_that_needs_old_files(project: Path) -> None:
    with pytest.raises(DeclarationError, match="SyntaxError"):
        find_outlets(Settings.load())


def test_without_a_table_that_can_be_loaded_the_error_of_the_file_is_raised(project: Path) -> None:
    (project / "first.py").unlink()
    with pytest.raises(DeclarationError, match="SyntaxError"):
        build_defs()
    failure_of("status")
