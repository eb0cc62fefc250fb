"""``lakehouse restore`` without Spark: what it shows, what it restores, and what it refuses without a change."""

import fcntl
import io
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import table as arrow_table

from lakehouse.errors import ConflictError, TableDamagedError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.durability import require_undamaged
from lakehouse.operations.rewrite_tables import plan_restore
from lakehouse.settings import Settings
from lakehouse.storage import delta_rs_writer, lock
from lakehouse.storage.row_order import merged_layout
from lakehouse_tests.helpers.commands import CommandResult, lakehouse_says
from lakehouse_tests.helpers.tables.logs import WrittenTable
from lakehouse_tests.helpers.tables.tables import redeclare


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WrittenTable:
    """The merged table with three batches: version 1 has the progress 1 and one row, and so on."""
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    table = WrittenTable.create(tmp_path / "tables" / "temperatures", "temperatures")
    for row in (1, 2, 3):
        table.merge(row)
    return table


def restore(version: int, name: str = "temperatures") -> CommandResult:
    return lakehouse_says("restore", name, "--version", str(version), "--yes")


def require_refused(result: CommandResult, table: WrittenTable, reason: str) -> None:
    assert result.code == 1
    assert reason in result.err
    assert (table.version, table.rows, table.progress) == (3, [1, 2, 3], 3)


@pytest.mark.invariant("1.6")
def test_a_restore_brings_back_rows_and_progress_and_names_the_next_command(table: WrittenTable) -> None:
    result = restore(1)
    assert result.code == 0, result.err
    assert (table.version, table.rows, table.progress) == (4, [1], 1)
    assert result.out.endswith("Restored temperatures to version 1. Next: lakehouse merge temperatures\n")
    assert [commit.operation for commit in table.ledger.foreign] == ["RESTORE"]
    assert "Version 4 restored an earlier version: RESTORE, " in lakehouse_says("audit", "temperatures").out


def test_the_rows_and_the_offsets_that_go_back_are_shown_first(
    table: WrittenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    result = lakehouse_says("restore", "temperatures", "--version", "1")
    assert result.code == 130
    time = f"{table.committed_at(1):%Y-%m-%d %H:%M:%S} UTC"
    assert f"goes back from version 3 to version 1 of {time}: 3 rows now, 1 then" in result.err
    assert ["0", "3", "1"] in [line.split() for line in result.out.splitlines()]
    assert (table.version, table.progress) == (3, 3), "it was not confirmed"


def test_a_restore_to_before_the_first_batch_continues_at_the_earliest_offset(table: WrittenTable) -> None:
    assert "earliest" in restore(0).out
    assert (table.rows, table.progress) == ([], None)


@pytest.mark.invariant("2.6")
def test_a_restore_to_before_the_start_says_that_it_is_looked_up_again(
    table: WrittenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared_table = redeclare(temperatures, start="latest")
    monkeypatch.setattr("lakehouse.cli.maintenance.select_tables", lambda *_: (declared_table,))
    assert "looks up the start again" not in restore(1).err
    result = restore(0)
    assert "The next merge looks up the start again: start='latest'." in " ".join(result.err.split())
    assert "earliest" not in result.out


@pytest.mark.parametrize("version", [3, 9])
def test_a_version_that_is_not_earlier_is_refused(table: WrittenTable, version: int) -> None:
    require_refused(restore(version), table, f"Version {version} of temperatures is not an earlier version")


def test_a_version_that_the_log_no_longer_shows_is_refused(table: WrittenTable) -> None:
    table.clean(before=2)
    result = restore(1)
    assert "no longer shows version 1" in result.err
    assert (result.code, table.version, table.rows) == (1, 3, [1, 2, 3])


def test_a_version_whose_files_are_deleted_is_refused(table: WrittenTable) -> None:
    files = {*DeltaTable(str(table.folder), version=2).file_uris()}
    table.table.delete("number = 2")
    (deleted_file,) = files - {*table.table.file_uris()}
    Path(deleted_file).unlink()
    result = restore(2)
    assert "VACUUM has deleted files" in result.err
    assert (result.code, table.version, table.rows) == (1, 4, [1, 3])


def test_a_table_at_a_uri_of_the_disk_is_restored(table: WrittenTable) -> None:
    layout = replace(merged_layout(temperatures, Settings.load()), uri=table.folder.as_uri())
    plan_restore(layout, 1).run()
    assert (table.version, table.rows, table.progress) == (4, [1], 1)


def test_a_disk_without_hard_links_is_refused_with_the_statement_for_spark(
    table: WrittenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_rs_writer, "supports_links", lambda _: False)
    require_refused(restore(1), table, "TO VERSION AS OF 1")


def test_a_restore_of_rejected_records_says_what_is_left_of_them(table: WrittenTable) -> None:
    rejected = WrittenTable.create(table.folder.with_name("temperatures_rejected"), "temperatures_rejected")
    rejected.merge(1)
    rejected.merge(2)
    assert "are then only in the topic" in " ".join(restore(1, rejected.name).err.split())


def test_a_table_that_does_not_exist_is_refused(table: WrittenTable) -> None:
    require_refused(restore(1, "temperatures_changes"), table, "Table temperatures_changes does not exist")


def test_a_table_without_a_commit_of_lakehouse_is_refused(table: WrittenTable) -> None:
    uri = str(table.folder.with_name("temperatures_rejected"))
    for number in (1, 2):
        write_deltalake(uri, arrow_table({"n": [number]}), mode="append")
    require_refused(restore(0, "temperatures_rejected"), table, "temperatures_rejected has no commit of lakehouse")
    assert DeltaTable(uri).version() == 1


def test_a_derived_table_is_restored_by_its_own_name(table: WrittenTable) -> None:
    rollup = WrittenTable.create(table.folder.with_name("temperatures_by_location"), "temperatures_by_location")
    rollup.merge(1)
    rollup.merge(2)
    assert "Next: lakehouse merge temperatures\n" in restore(1, rollup.name).out
    assert (rollup.rows, table.rows) == ([1], [1, 2, 3])


@pytest.mark.invariant("11.2")
def test_a_restore_waits_for_the_writer_of_the_table(table: WrittenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_PATIENCE", 0.2)
    lock_file = table.folder.parent / ".locks" / table.name
    lock_file.parent.mkdir()
    with lock_file.open("w") as other_writer:
        fcntl.flock(other_writer, fcntl.LOCK_EX)
        result = restore(1)
    require_refused(result, table, "temperatures was locked for")
    assert restore(1).code == 0


def test_a_commit_after_the_plan_prevents_the_restore(table: WrittenTable) -> None:
    planned_restore = plan_restore(merged_layout(temperatures, Settings.load()), 1)
    table.merge(4)
    with pytest.raises(ConflictError):
        planned_restore.run()
    assert (table.version, table.rows) == (4, [1, 2, 3, 4])


@pytest.mark.invariant("11.9")
def test_a_restore_undoes_a_commit_that_a_power_cut_left_incomplete(table: WrittenTable) -> None:
    (newest_file,) = {*table.table.file_uris()} - {*DeltaTable(str(table.folder), version=2).file_uris()}
    Path(newest_file).unlink()
    with pytest.raises(TableDamagedError, match="lakehouse restore temperatures --version 2$"):
        require_undamaged(str(table.folder))
    assert restore(2).code == 0
    require_undamaged(str(table.folder))
    assert (table.rows, table.progress) == ([1, 2], 2)
