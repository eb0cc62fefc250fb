"""VACUUM waits for an export of changes that lags beyond half of the retention; status and maintenance name it."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse.cli import main
from lakehouse.declaration import Export, StreamTable, Upkeep
from lakehouse.exports.exporter import Exporter
from lakehouse.exports.manifests import manifest_path
from lakehouse.exports.progress import export_status
from lakehouse.operations.readers import VacuumReaders
from lakehouse.operations.status import status
from lakehouse.settings import Settings
from lakehouse_tests.helpers.declaration_files import write
from lakehouse_tests.helpers.tables.exported import append, day, delete
from lakehouse_tests.unit.exports.test_exports_in_dagster import SALES

YOUNG = replace(SALES, key=())  # a log table has no feed that VACUUM would wait for, too
LOG, KEYED = replace(YOUNG), replace(SALES)
for table in (LOG, KEYED):
    object.__setattr__(table, "upkeep", Upkeep(timedelta(0)))  # a declaration refuses less than an hour
CHANGED = Export("sales_changed", of="sales", changes=True)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(home=tmp_path, sync=False)
    append(settings, ("a", 1.0, day(1)))
    Exporter(settings, CHANGED).update()
    append(settings, ("b", 1.0, day(1)))
    return settings


def reason(settings: Settings, export: Export = CHANGED, table: StreamTable = LOG, name: str = "sales") -> str | None:
    return VacuumReaders(settings, table, name, {}, [export]).reason_to_wait()


@pytest.mark.invariant("10.9")
def test_vacuum_waits_for_an_export_that_lags_beyond_half_of_the_retention(settings: Settings) -> None:
    message = "export sales_changed has read sales only up to version 0. Run: lakehouse export sales_changed"
    assert reason(settings) == message
    assert reason(settings, table=YOUNG) is None
    assert reason(settings, name="sales_rejected") is None
    Exporter(settings, CHANGED).update()
    assert reason(settings) is None


def test_a_commit_of_a_clock_that_was_ahead_does_not_hide_older_changes(settings: Settings) -> None:
    append(settings, ("c", 1.0, day(1)))
    commit = Path(settings.table_uri("sales"), "_delta_log", f"{1:020d}.json")
    info = next(info for info in DeltaTable(settings.table_uri("sales")).history() if info["version"] == 1)
    commit.write_text(commit.read_text().replace(str(info["timestamp"]), str(info["timestamp"] + 10**9)))
    assert "export sales_changed has read sales only up to version 0" in (reason(settings) or "")


@pytest.mark.invariant("10.9")
def test_a_disabled_export_and_one_of_all_rows_hold_nothing(settings: Settings) -> None:
    assert reason(settings, replace(CHANGED, enabled=False)) is None
    assert reason(settings, replace(CHANGED, changes=False)) is None
    assert reason(settings, replace(CHANGED, folder="never_ran")) is None


def test_an_export_that_cannot_continue_holds_nothing(settings: Settings) -> None:
    Path(settings.table_uri("sales")).rename(Path(settings.tables_root, "former"))
    append(settings, ("a", 1.0, day(1)))
    assert reason(settings) is None


def test_vacuum_waits_if_it_is_unknown_what_an_export_has_read(settings: Settings) -> None:
    manifest_path(settings.home_folder / "exports" / "sales_changed", 1).write_text("{}")
    waiting = "It is unknown what export sales_changed has read: The manifest of version 1 of an export cannot be read"
    assert (reason(settings) or "").startswith(waiting)
    assert reason(settings, replace(CHANGED, enabled=False)) is None
    (settings.home_folder / "exports" / "lost").mkdir()
    (settings.home_folder / "exports" / "lost" / "_export").write_text("a file")
    waiting = "It is unknown what export sales_changed has read: The manifests of an export cannot be read: Not a dir"
    assert (reason(settings, replace(CHANGED, folder="lost")) or "").startswith(waiting)


def test_the_lag_counts_only_versions_that_may_have_changed_rows(settings: Settings) -> None:
    DeltaTable(settings.table_uri("sales")).optimize.compact()
    delete(settings, "id = 'a'")
    state = export_status(settings, CHANGED, timedelta(days=7))
    assert (state.version, state.source_version, state.lag, state.holds_vacuum) == (1, 0, 2, False)
    never_run = export_status(settings, replace(CHANGED, folder="never_ran"), timedelta(days=7))
    assert (never_run.version, never_run.lag) == (None, 3)


def test_status_has_the_exports_of_a_table(settings: Settings) -> None:
    (state,) = status(settings, KEYED, [CHANGED]).exports
    assert (state.export, state.lag, state.holds_vacuum, state.is_up_to_date) == ("sales_changed", 1, True, False)
    (state,) = status(settings, KEYED, [replace(CHANGED, enabled=False)]).exports
    assert state.is_up_to_date
    Exporter(settings, CHANGED).update()
    (state,) = status(settings, KEYED, [CHANGED]).exports
    assert state.is_up_to_date
    manifest_path(settings.home_folder / "exports" / "sales_changed", 2).write_text("{}")
    (state,) = status(settings, KEYED, [CHANGED]).exports
    assert not state.is_up_to_date


DECLARATIONS = """
from datetime import timedelta
from lakehouse import Column, Export, StreamTable, Upkeep
sales = StreamTable(
    name="sales", topic="sales", doc="", columns=[Column("id", "STRING", "", required=True)],
    key=["id"], upkeep=Upkeep(retention=timedelta(1)),
)
exports = [
    Export("sales_changed", of="sales", changes=True, file=__file__),
    Export("all_sales", of="sales", format="csv"),
    Export("old_sales", of="sales", enabled=False),
]
"""


@pytest.fixture
def project(settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(folder, "sales", DECLARATIONS)
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", str(folder))
    monkeypatch.setenv("LAKEHOUSE_HOME", str(settings.home_folder))
    monkeypatch.setenv("LAKEHOUSE_EXPORTS", str(settings.home_folder / "exports"))
    return folder


def test_the_commands_run_exports_and_show_their_lag(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    main.run(["status", "sales"])
    output = capfd.readouterr().out
    assert "Export all_sales of sales never ran. Run: lakehouse export all_sales" in output
    assert "Export old_sales of sales is disabled." in output
    assert "Export sales_changed: version 1 has sales up to version 0; lag: 1 version. Run: lakehouse" in output
    assert main.run(["export", "--json"]) == 0
    updates = {update["name"]: update for update in json.loads(capfd.readouterr().out)}
    assert {name: (update["kind"], update["rows"]) for name, update in updates.items()} == {
        "all_sales": ("whole", 2),
        "sales_changed": ("changes", 1),
    }
    main.run(["status", "sales"])
    assert "Export sales_changed: version 2 has sales up to version 1; nothing is newer." in capfd.readouterr().out
    assert main.run(["export", "sales_changed", "--whole"]) == 0
    assert "whole" in capfd.readouterr().out


def test_wrong_names_are_wrong_use_and_an_error_does_not_keep_other_exports_from_running(
    project: Path, settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["export", "all_sale"]) == main.WRONG_USE
    assert "Unknown export 'all_sale'. Did you mean all_sales? Declared: all_sales, old_sales" in capfd.readouterr().err
    assert main.run(["export", "sales"]) == main.WRONG_USE
    assert "Exports of the table sales: all_sales, old_sales, sales_changed" in capfd.readouterr().err
    assert main.run(["export", "old_sales"]) == main.FAILED
    captured = capfd.readouterr()
    assert ("Export old_sales is disabled" in captured.err, captured.out) == (True, "")
    DeltaTable(settings.table_uri("sales")).restore(0)
    assert main.run(["export", "sales_changed", "all_sales"]) == main.FAILED
    captured = capfd.readouterr()
    assert "Export sales_changed cannot continue: version 2 is a RESTORE" in captured.err
    assert "all_sales" in captured.out
    Path(settings.table_uri("sales")).rename(Path(settings.tables_root, "former"))
    assert main.run(["export"]) == main.FAILED
    assert "2 exports failed: " in capfd.readouterr().err


def test_an_export_waits_for_a_table_that_does_not_exist_yet_unless_it_is_named(
    project: Path, settings: Settings, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(settings.table_uri("sales")).rename(Path(settings.tables_root, "former"))
    monkeypatch.setenv("LAKEHOUSE_EXPORTS", str(settings.home_folder / "new"))
    assert main.run(["export"]) == main.DONE
    assert "all_sales waits: sales does not exist yet." in capfd.readouterr().err
    assert main.run(["export", "all_sales"]) == main.FAILED
