"""Maintenance changes no row, keeps every file that is still needed, and carries the ledger forward."""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column
from lakehouse.ingest.load import load_base
from lakehouse.ledger.audit import every_change_kept
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.operations.maintain import Maintained, maintain
from lakehouse.operations.verify import verify_rollup
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import Stream, clean_log, hour, record
from lakehouse_tests.helpers.waiting import wait_until

SECOND, HOUR, WEEK = timedelta(seconds=1), timedelta(hours=1), timedelta(days=7)


class MaintainedStream(Stream):
    """A stream whose tables are maintained."""

    def maintain(self) -> dict[str, Maintained]:
        """Run maintenance; return its results by the suffix of the table name."""
        results = maintain(TableContext(self.spark, self.settings, self.table))
        return {result.name.removeprefix(self.table.name): result for result in results}

    def send_and_merge(self, *values: bytes) -> None:
        self.send(*values)
        self.merge()

    def set_retention(self, retention: timedelta) -> None:
        """Set a retention, also one below the minimum of a declaration, so that no test waits an hour."""
        self.table = replace(self.table, retention=WEEK)
        object.__setattr__(self.table, "retention", retention)

    def ledger_of(self, name: str) -> Ledger:
        return read_ledger(self.settings.table_uri(name), name, whole=True)

    def operations(self) -> list[str]:
        return [commit["operation"] for commit in DeltaTable(self.uri).history()]

    def files(self) -> set[str]:
        """The data files of the merged table on disk."""
        return {file.name for file in Path(self.uri).rglob("*.parquet") if "_delta_log" not in file.parts}

    def assert_rollup_is_right(self) -> None:
        finding = verify_rollup(TableContext(self.spark, self.settings, self.table), self.table.rollups[0])
        assert finding.passed, finding.detail


def backdate(files: set[Path]) -> None:
    """Set the modification times of files back by two hours."""
    for file in files:
        os.utime(file, (time.time() - 7200,) * 2)


def base_folder(folder: Path) -> Path:
    folder.mkdir()
    hourly = '{"time": ["2023-01-05T00:00"], "temperature_2m": [4.5]}'
    (folder / "a.json").write_text(f'{{"latitude": 13.0, "longitude": 77.6, "hourly": {hourly}}}')
    return folder


@pytest.fixture(scope="module")
def maintenance_runs(spark, broker, tmp_path_factory) -> tuple[MaintainedStream, dict[str, Any]]:
    """A stream with base rows and three batches; its states before and its results of two maintenance runs."""
    stream = MaintainedStream.create(spark, broker)
    load_base(TableContext(spark, broker, stream.table), base_folder(tmp_path_factory.mktemp("base") / "1"))
    for number in range(3):
        stream.send_and_merge(record(time=hour(number)), record(time=hour(0), temperature_2m=float(number)), b"{")
    stream.refresh()
    states = {"rows": stream.snapshot(), "ledger": stream.ledger, "derived": stream.refresh()}
    return stream, {**states, "first": stream.maintain(), "second": stream.maintain()}


@pytest.fixture
def stream(spark, broker) -> MaintainedStream:
    return MaintainedStream.create(spark, broker)


def test_small_files_become_one_and_no_row_changes(maintenance_runs):
    stream, states = maintenance_runs
    result = states["first"][""]
    assert (result.files_before > result.files_after, result.files_after, result.kept) == (True, 1, None)
    assert stream.snapshot() == states["rows"]


@pytest.mark.invariant("10.7")
def test_maintenance_changes_neither_feed_nor_rollup(maintenance_runs):
    stream, states = maintenance_runs
    for outcome_before, outcome in zip(states["derived"], stream.refresh(), strict=True):
        assert (outcome.source_version, outcome.changed, outcome.rebuilt) == (outcome_before.source_version, 0, False)
    stream.assert_rollup_is_right()


def test_a_second_run_does_nothing(maintenance_runs):
    _, states = maintenance_runs
    assert {name for name, result in states["first"].items() if not result.idle} == {
        "", "_rejected", "_base", "_changes", "_by_location"
    }  # fmt: skip
    assert all(result.idle for result in states["second"].values())
    versions = [{name: result.version for name, result in states[run].items()} for run in ("first", "second")]
    assert versions[0] == versions[1]


@pytest.mark.invariant("1.12")
def test_maintenance_carries_the_ledger_forward_without_foreign_commits(maintenance_runs):
    stream, states = maintenance_runs
    ledger_before, ledger_after = states["ledger"], stream.ledger
    assert (ledger_after.newest.commit.kind, ledger_after.newest.commit.number) == (
        "maintenance",
        ledger_before.next_number,
    )
    for name in ("progress", "totals", "consumed", "rows_version"):
        assert getattr(ledger_after, name) == getattr(ledger_before, name), name
    assert stream.operations()[:4] == ["MERGE", "VACUUM END", "VACUUM START", "OPTIMIZE"]
    assert ledger_after.foreign == ()
    stream.assert_accounted()


@pytest.mark.invariant("10.7")
def test_compacted_base_rows_are_not_merged_again(maintenance_runs):
    stream, _ = maintenance_runs
    assert stream.merge() == []


@pytest.mark.invariant("1.18")
def test_every_table_has_the_declared_retention(maintenance_runs):
    stream, states = maintenance_runs
    for name in states["first"]:
        configuration = DeltaTable(stream.settings.table_uri(stream.table.name + name)).metadata().configuration
        assert configuration["delta.deletedFileRetentionDuration"] == "interval 604800 seconds", name
        assert configuration["delta.logRetentionDuration"] == "interval 2592000 seconds", name


@pytest.mark.invariant("1.12")
def test_batches_and_feed_continue_after_the_log_expired(spark, broker, tmp_path):
    stream = MaintainedStream.create(spark, broker)
    load_base(TableContext(spark, broker, stream.table), base_folder(tmp_path / "1"))
    stream.send_and_merge(record(time=hour(0)))
    stream.maintain()
    ledger_before = stream.ledger
    for name in ("", "_base", "_changes", "_by_location"):
        clean_log(stream.settings.table_uri(stream.table.name + name))
    ledger_after = stream.ledger
    assert (ledger_after.complete, len(ledger_after.entries)) == (False, 1)
    carried_fields = (ledger_after.progress, ledger_after.totals, ledger_after.consumed)
    assert carried_fields == (ledger_before.progress, ledger_before.totals, ledger_before.consumed)
    stream.send(record(time=hour(1)))
    (outcome,) = stream.merge()
    assert (outcome.entry.commit.kind, outcome.entry.commit.read) == ("batch", 1)
    changes, rollup = stream.refresh()
    assert (changes.changed, changes.rebuilt, rollup.rebuilt) == (1, False, False)
    stream.assert_rollup_is_right()
    stream.assert_accounted()


def test_files_within_the_retention_stay_and_time_travel_works(stream):
    stream.set_retention(HOUR)
    stream.send_and_merge(record(time=hour(0), temperature_2m=1.0))
    rows = stream.snapshot()
    stream.send_and_merge(record(time=hour(0), temperature_2m=2.0))
    stream.refresh()
    stray_file = Path(stream.uri, "observed_month=2023-01-01", "part-of-a-batch-that-never-committed.parquet")
    stray_file.write_bytes(b"")
    new_file = stray_file.with_name("part-of-a-batch-that-runs.parquet")
    new_file.write_bytes(b"")
    backdate({file for file in Path(stream.uri).rglob("*.parquet") if file != new_file})
    needed_files = stream.files() - {stray_file.name}
    changes = {file.name for file in Path(stream.uri, "_change_data").rglob("*.parquet")}
    assert changes
    result = stream.maintain()[""]
    assert result.removed == len(changes) + 1
    assert stream.files() == needed_files - changes
    assert stream.sql("SELECT * FROM {t} VERSION AS OF 1") == rows


@pytest.mark.timeout(300)
def test_files_beyond_the_retention_are_removed(stream):
    stream.set_retention(SECOND)
    for number in range(2):
        stream.send_and_merge(record(time=hour(0), temperature_2m=float(number)))
        stream.refresh()
    result = stream.maintain()[""]
    assert result.removed > 0

    def only_the_newest_files_are_left() -> bool:
        stream.maintain()  # files that this run replaced expire only later
        return stream.files() == {Path(path).name for path in DeltaTable(stream.uri).file_uris()}

    assert wait_until(only_the_newest_files_are_left, 120)
    assert stream.temperatures() == {hour(0): 1.0}
    with pytest.raises(Exception, match="DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND"):
        stream.sql("SELECT * FROM {t} VERSION AS OF 1")


@pytest.mark.invariant("1.18", "10.7")
def test_another_retention_is_written_once_and_is_not_foreign(stream):
    stream.send_and_merge(record(time=hour(0)))
    stream.set_retention(timedelta(days=60))
    stream.merge()
    version = stream.ledger.version
    stream.merge()
    assert stream.ledger.version == version == 2
    configuration = DeltaTable(stream.uri).metadata().configuration
    assert {configuration[f"delta.{name}RetentionDuration"] for name in ("deletedFile", "log")} == {
        "interval 5184000 seconds"
    }
    assert (stream.ledger.foreign, stream.ledger.rows_version) == ((), 1)


@pytest.mark.invariant("10.9")
def test_files_stay_until_every_derived_table_has_read_them(stream):
    stream.send_and_merge(record(time=hour(0)))
    stream.send_and_merge(record(time=hour(0), temperature_2m=1.0))
    feed = stream.settings.table_uri(stream.table.changes_name)
    stream.spark.sql(f"CREATE TABLE delta.`{feed}` (change BIGINT) USING DELTA")
    results = stream.maintain()
    assert (results[""].kept, results[""].removed) == (None, 0)
    assert f"change of {stream.table.changes_name} is bigint" in results["_changes"].kept
    stream.set_retention(SECOND)
    files = stream.files()
    for _ in range(2):
        results = stream.maintain()
        assert f"{stream.table.changes_name} has not read {stream.table.name}" in results[""].kept
        assert (results[""].idle, results[""].removed, stream.files()) == (False, None, files)
    assert results["_by_location"].kept is None
    shutil.rmtree(feed)
    results = stream.maintain()
    assert (results[""].kept, results[""].removed > 0) == (None, True)


@pytest.mark.invariant("10.5")
def test_after_a_foreign_vacuum_the_rollup_is_rebuilt_and_the_feed_warns(stream):
    stream.send_and_merge(*(record(time=hour(number), temperature_2m=float(number)) for number in range(2)))
    stream.refresh()
    stream.send_and_merge(record(time=hour(1), temperature_2m=5.0), record(time=hour(3), temperature_2m=3.0))
    stream.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 seconds')")
    stream.sql("VACUUM {t}")
    changes, rollup = stream.refresh()
    assert (changes.rebuilt, rollup.rebuilt) == (True, True)
    feed = "SELECT date_format(observed_at, 'HH'), change, temperature_2m_before, temperature_2m_after"
    reconciled_rows = stream.sql(f"{feed} FROM {{changes}} WHERE reconciled ORDER BY 1")
    assert reconciled_rows == [("01", "update", 1.0, 5.0), ("03", "insert", None, 3.0)]
    stream.assert_rollup_is_right()
    stream.send_and_merge(record(time=hour(4)))
    changes, _ = stream.refresh()
    assert not changes.rebuilt
    finding = every_change_kept(stream.ledger_of(stream.table.changes_name))
    assert (finding.passed, "Version 2 holds a net difference" in finding.detail) == (False, True)


@pytest.mark.invariant("11.1")
def test_a_batch_committed_during_maintenance_is_not_undone(stream, monkeypatch):
    """One batch before maintenance plans its commit, and one between plan and commit."""
    stream.send_and_merge(record(time=hour(0)))
    new_records = iter([record(time=hour(1)), record(time=hour(2))])

    def merge_before(real_step: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            value = next(new_records, None)
            if value:
                stream.send_and_merge(value)
            return real_step(*arguments)

        return step

    monkeypatch.setattr(StoredTable, "run_upkeep", merge_before(StoredTable.run_upkeep))
    monkeypatch.setattr(StoredTable, "commit_nothing", merge_before(StoredTable.commit_nothing))
    stream.maintain()
    assert next(new_records, None) is None
    assert set(stream.temperatures()) == {hour(number) for number in range(3)}
    assert stream.ledger.progress.positions[0] == 3
    assert stream.ledger.newest.commit.kind == "maintenance"
    stream.assert_accounted()


@pytest.mark.invariant("1.6")
def test_a_restore_across_maintenance_moves_the_progress_back_and_loses_no_record(stream):
    """First to a version within the maintenance, then to one before it."""
    stream.send_and_merge(record(time=hour(0)))
    stream.send_and_merge(record(time=hour(1)))
    stream.maintain()
    rows = stream.snapshot()
    vacuum_version = stream.operations()[::-1].index("VACUUM START")
    for version, progress in ((vacuum_version, 2), (1, 1)):
        stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
        assert stream.ledger.progress.positions[0] == progress
    stream.merge()
    assert stream.snapshot() == rows
    assert stream.ledger.totals.read == 2
    stream.assert_accounted()


def test_compaction_clusters_rows_by_the_declared_columns(spark, broker):
    stream = MaintainedStream.create(spark, broker, base=None)
    rollups = [replace(stream.table.rollups[0], by=["latitude", "longitude"])]
    added_columns = [Column("station", "STRING", "Where it was read."), Column("by", "STRING", "Who read it.")]
    columns = [*stream.table.columns, *added_columns]
    stream.table = replace(stream.table, partition_by=None, columns=columns, cluster_by=["station"], rollups=rollups)
    for number in (5, 1, 3):
        stream.send_and_merge(record(time=hour(number), station="x"), record(time=hour(number + 10), station="a"))
    rows = stream.snapshot()
    assert stream.maintain()[""].files_after == 1
    (optimization,) = [info for info in DeltaTable(stream.uri).history() if info["operation"] == "OPTIMIZE"]
    assert optimization["operationParameters"]["zOrderBy"] == '["station"]'
    assert stream.snapshot() == rows
    bounds = DeltaTable(stream.uri).get_add_actions(flatten=True)
    assert {"min.observed_at", "max.latitude", "min.station"} <= {*pa.table(bounds).column_names}
    stream.table = replace(stream.table, cluster_by=["by"])
    stream.send_and_merge(record(time=hour(2), by="me"))
    assert stream.maintain()[""].files_after == 1
    (optimization, _) = [info for info in DeltaTable(stream.uri).history() if info["operation"] == "OPTIMIZE"]
    assert optimization["operationParameters"]["zOrderBy"] == '["by"]'
    assert len(stream.snapshot()) == len(rows) + 1
    stream.assert_accounted()
