"""Maintenance with concurrent writers, and with tables that fail."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.declaration import Column, Json, StreamTable
from lakehouse.errors import ConflictError, LakehouseError, LedgerError, TableError
from lakehouse.ledger.ledger import Ledger
from lakehouse.operations import maintain
from lakehouse.operations.maintain import Maintained, has_removable_files
from lakehouse.operations.planned_changes import layouts_of
from lakehouse.settings import Settings
from lakehouse.storage import stored_table
from lakehouse.storage.layout import Layout
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.tables.logs import NAME, WrittenTable
from lakehouse_tests.helpers.tables.old_files import leave_old_file


@pytest.mark.invariant("11.1")
def test_a_vacuum_that_conflicts_with_another_writer_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = WrittenTable.create(tmp_path / "t")
    statements: list[str] = []

    def run_upkeep(_spark: Any, layout: Layout, statement: str, _run: str) -> None:
        statements.append(statement)
        if len(statements) == 1:
            raise ConflictError("Another process has been writing t", where=layout.uri)
        table.table.vacuum(dry_run=False)

    monkeypatch.setattr(stored_table, "run_upkeep", run_upkeep)
    spark: Any = None
    table_layout = Layout(NAME, str(table.folder), "", ())
    maintenance = maintain._TableMaintenance(StoredTable(spark, table_layout), "cli", is_merged=False)
    assert maintenance._vacuum(0) == 0
    assert statements == [], "no file is older than the retention"
    leave_old_file(str(table.folder))
    maintenance._vacuum(0)
    assert statements == [f"VACUUM delta.`{table.folder}`"] * 2


def test_files_that_vacuum_deletes_are_old_and_not_active(tmp_path: Path) -> None:
    uri, rows = str(tmp_path / "t"), pa.table({"n": [1, 2], "day": ["a b", "c/d"]})
    layout = Layout("t", uri, "", (), retention=timedelta(days=7))
    for mode in ("append", "overwrite"):
        write_deltalake(uri, rows, mode=mode, partition_by=["day"])
        assert not has_removable_files(layout), "all are young"
    active_names = {Path(path).name for path in DeltaTable(uri).file_uris()}
    files = [file for file in Path(uri).rglob("*.parquet") if "_delta_log" not in file.parts]
    assert len(files) == 4
    for file in (file for file in files if file.name in active_names):
        os.utime(file, (0, 0))
    assert not has_removable_files(layout), "old files that the newest version has"
    for file in files:
        os.utime(file, (0, 0))
    assert has_removable_files(layout)
    assert not has_removable_files(replace(layout, retention=timedelta(days=365 * 100)))
    assert has_removable_files(replace(layout, uri="s3://bucket/t")), "a store is not listed"


ID = Column("id", "INT", "Which.", required=True)


@pytest.fixture
def contexts(tmp_path: Path) -> list[TableContext]:
    """Two declarations, all of whose tables exist."""
    settings, spark = Settings(home=tmp_path, _env_file=None), None
    tables = [StreamTable(name, name, "", [ID], ["id"], format=Json()) for name in ("orders", "visits")]
    for table in tables:
        for layout in layouts_of(settings, table):
            WrittenTable.create(Path(layout.uri))
    return [TableContext(spark, settings, table) for table in tables]  # type: ignore[arg-type]


def fail_maintenance(monkeypatch: pytest.MonkeyPatch, **errors: Exception) -> None:
    """Let the maintenance of the tables with these names raise these errors."""

    def maintain_table(maintenance: maintain._TableMaintenance, _: Any) -> Maintained:
        name = maintenance.stored_table.layout.name
        if name in errors:
            raise errors[name]
        return Maintained(name, 1, 2, 1)

    monkeypatch.setattr(maintain._TableMaintenance, "maintain", maintain_table)
    monkeypatch.setattr(maintain, "_refresh", lambda _: {})


@pytest.mark.invariant("1.8")
def test_maintenance_refuses_the_merged_table_if_its_ledger_does_not_record_the_progress(
    contexts: list[TableContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_tables: dict[str, StoredTable] = {}

    def maintain_table(maintenance: maintain._TableMaintenance, _: Any) -> Maintained:
        stored_tables[maintenance.stored_table.layout.name] = maintenance.stored_table
        return Maintained(maintenance.stored_table.layout.name, 1, 2, 1)

    monkeypatch.setattr(maintain._TableMaintenance, "maintain", maintain_table)
    monkeypatch.setattr(maintain, "_refresh", lambda _: {})
    maintain.maintain(contexts[0])
    ledger = Ledger("/t", exists=True, unknown_restore=3)
    assert stored_tables["orders_rejected"].require(ledger) is ledger
    with pytest.raises(LedgerError, match="RESTORE in version 3"):
        stored_tables["orders"].require(ledger)


def test_if_a_table_fails_all_other_tables_are_maintained(
    contexts: list[TableContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = TableError("A file is missing")
    fail_maintenance(monkeypatch, orders=error)
    results: list[Maintained] = []
    with pytest.raises(TableError) as error_info:
        maintain.maintain_all(contexts, results.append)
    assert error_info.value is error
    assert [result.name for result in results] == [
        "orders_rejected",
        "orders_changes",
        "orders_erased",
        "visits",
        "visits_rejected",
        "visits_changes",
        "visits_erased",
    ]


def test_if_several_tables_fail_one_error_names_all_of_them(
    contexts: list[TableContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_maintenance(monkeypatch, orders=TableError("A file is missing"), visits_changes=ValueError("odd"))
    results: list[Maintained] = []
    with pytest.raises(LakehouseError, match=r"Maintenance of 2 tables failed: A file is missing\. odd"):
        maintain.maintain_all(contexts, results.append)
    assert len(results) == 6


def test_a_merged_table_without_recorded_progress_is_skipped_and_the_others_are_maintained(
    contexts: list[TableContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_maintenance(monkeypatch)

    def refresh(_: TableContext) -> dict[str, str]:
        raise LedgerError("No commit records the progress")

    monkeypatch.setattr(maintain, "_refresh", refresh)
    results: list[Maintained] = []
    with pytest.raises(LedgerError):
        maintain.maintain(contexts[0], results.append)
    assert [result.name for result in results] == ["orders_rejected", "orders_changes", "orders_erased"]
