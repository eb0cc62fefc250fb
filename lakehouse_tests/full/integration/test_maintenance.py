"""Maintenance changes no row, keeps what is promised and what is still needed, and carries the ledger on."""

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

pytestmark = pytest.mark.invariant(1, 10)

SECOND, HOUR, WEEK = timedelta(seconds=1), timedelta(hours=1), timedelta(days=7)


class Kept(Stream):
    """A stream whose tables are maintained."""

    def maintain(self) -> dict[str, Maintained]:
        """What was done, by the part of the table's name that follows that of the merged one."""
        done = maintain(TableContext(self.spark, self.settings, self.table))
        return {one.name.removeprefix(self.table.name): one for one in done}

    def take(self, *values: bytes) -> None:
        self.send(*values)
        self.merge()

    def promise(self, retention: timedelta) -> None:
        """Also less than may be declared, so that no test waits an hour."""
        self.table = replace(self.table, retention=WEEK)
        object.__setattr__(self.table, "retention", retention)

    def ledger_of(self, name: str) -> Ledger:
        return read_ledger(self.settings.table_uri(name), name, whole=True)

    def operations(self) -> list[str]:
        return [commit["operation"] for commit in DeltaTable(self.uri).history()]

    def files(self) -> set[str]:
        """The data files of the merged table that are on disk."""
        return {file.name for file in Path(self.uri).rglob("*.parquet") if "_delta_log" not in file.parts}

    def assert_rollup_is_right(self) -> None:
        finding = verify_rollup(TableContext(self.spark, self.settings, self.table), self.table.rollups[0])
        assert finding.passed, finding.detail


def long_ago(files: set[Path]) -> None:
    """Set back when files were written, by two hours."""
    for file in files:
        os.utime(file, (time.time() - 7200,) * 2)


def base_folder(folder: Path) -> Path:
    folder.mkdir()
    hourly = '{"time": ["2023-01-05T00:00"], "temperature_2m": [4.5]}'
    (folder / "a.json").write_text(f'{{"latitude": 13.0, "longitude": 77.6, "hourly": {hourly}}}')
    return folder


@pytest.fixture(scope="module")
def calm(spark, broker, tmp_path_factory) -> tuple[Kept, dict[str, Any]]:
    """A stream with base rows and three batches, before and after two runs of maintenance."""
    stream = Kept.create(spark, broker)
    load_base(TableContext(spark, broker, stream.table), base_folder(tmp_path_factory.mktemp("base") / "1"))
    for number in range(3):
        stream.take(record(time=hour(number)), record(time=hour(0), temperature_2m=float(number)), b"{")
    stream.refresh()
    before = {"rows": stream.snapshot(), "ledger": stream.ledger, "derived": stream.refresh()}
    return stream, {**before, "first": stream.maintain(), "second": stream.maintain()}


@pytest.fixture
def stream(spark, broker) -> Kept:
    return Kept.create(spark, broker)


def test_small_files_become_one_and_no_row_changes(calm):
    stream, seen = calm
    done = seen["first"][""]
    assert (done.files_before > done.files_after, done.files_after, done.kept) == (True, 1, None)
    assert stream.snapshot() == seen["rows"]


def test_maintenance_is_no_change_in_feed_and_rollup(calm):
    stream, seen = calm
    for before, after in zip(seen["derived"], stream.refresh(), strict=True):
        assert (after.source_version, after.changed, after.rebuilt) == (before.source_version, 0, False)
    stream.assert_rollup_is_right()


def test_a_second_run_does_nothing(calm):
    _, seen = calm
    assert {name for name, done in seen["first"].items() if not done.idle} == {
        "", "_rejected", "_base", "_changes", "_by_location"
    }  # fmt: skip
    assert all(done.idle for done in seen["second"].values())
    versions = [{name: done.version for name, done in seen[run].items()} for run in ("first", "second")]
    assert versions[0] == versions[1]


def test_the_ledger_is_carried_on_and_nothing_in_it_is_foreign(calm):
    stream, seen = calm
    before, after = seen["ledger"], stream.ledger
    assert (after.newest.commit.kind, after.newest.commit.number) == ("maintenance", before.next_number)
    for name in ("progress", "totals", "consumed", "rows_version"):
        assert getattr(after, name) == getattr(before, name), name
    assert stream.operations()[:4] == ["MERGE", "VACUUM END", "VACUUM START", "OPTIMIZE"]
    assert after.foreign == ()
    stream.assert_accounted()


def test_base_rows_that_were_only_compacted_do_not_come_again(calm):
    stream, _ = calm
    assert stream.merge() == []


def test_every_table_of_the_declaration_promises_the_retention(calm):
    stream, seen = calm
    for name in seen["first"]:
        kept = DeltaTable(stream.settings.table_uri(stream.table.name + name)).metadata().configuration
        assert kept["delta.deletedFileRetentionDuration"] == "interval 604800 seconds", name
        assert kept["delta.logRetentionDuration"] == "interval 2592000 seconds", name


def test_after_the_log_expired_the_next_batch_and_the_feed_go_on(spark, broker, tmp_path):
    stream = Kept.create(spark, broker)
    load_base(TableContext(spark, broker, stream.table), base_folder(tmp_path / "1"))
    stream.take(record(time=hour(0)))
    stream.maintain()
    told = stream.ledger
    for name in ("", "_base", "_changes", "_by_location"):
        clean_log(stream.settings.table_uri(stream.table.name + name))
    left = stream.ledger
    assert (left.complete, len(left.entries)) == (False, 1)
    assert (left.progress, left.totals, left.consumed) == (told.progress, told.totals, told.consumed)
    stream.send(record(time=hour(1)))
    (outcome,) = stream.merge()
    assert (outcome.entry.commit.kind, outcome.entry.commit.read) == ("batch", 1)
    changes, rollup = stream.refresh()
    assert (changes.changed, changes.rebuilt, rollup.rebuilt) == (1, False, False)
    stream.assert_rollup_is_right()
    stream.assert_accounted()


def test_files_within_the_retention_stay_and_time_travel_works(stream):
    stream.promise(HOUR)
    stream.take(record(time=hour(0), temperature_2m=1.0))
    rows = stream.snapshot()
    stream.take(record(time=hour(0), temperature_2m=2.0))
    stream.refresh()
    stray = Path(stream.uri, "observed_month=2023-01-01", "part-of-a-batch-that-never-committed.parquet")
    stray.write_bytes(b"")
    young = stray.with_name("part-of-a-batch-that-runs.parquet")
    young.write_bytes(b"")
    long_ago({file for file in Path(stream.uri).rglob("*.parquet") if file != young})
    needed = stream.files() - {stray.name}
    changes = {file.name for file in Path(stream.uri, "_change_data").rglob("*.parquet")}
    assert changes
    done = stream.maintain()[""]
    assert done.removed == len(changes) + 1
    assert stream.files() == needed - changes
    assert stream.sql("SELECT * FROM {t} VERSION AS OF 1") == rows


@pytest.mark.timeout(300)
def test_files_beyond_the_retention_go(stream):
    stream.promise(SECOND)
    for number in range(2):
        stream.take(record(time=hour(0), temperature_2m=float(number)))
        stream.refresh()
    done = stream.maintain()[""]
    assert done.removed > 0

    def only_the_newest_files_are_left() -> bool:
        stream.maintain()  # what it compacted itself is not beyond it at once
        return stream.files() == {Path(path).name for path in DeltaTable(stream.uri).file_uris()}

    assert wait_until(only_the_newest_files_are_left, 120)
    assert stream.temperatures() == {hour(0): 1.0}
    with pytest.raises(Exception, match="DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND"):
        stream.sql("SELECT * FROM {t} VERSION AS OF 1")


def test_another_retention_is_written_once_and_is_not_foreign(stream):
    stream.take(record(time=hour(0)))
    stream.promise(timedelta(days=60))
    stream.merge()
    version = stream.ledger.version
    stream.merge()
    assert stream.ledger.version == version == 2
    kept = DeltaTable(stream.uri).metadata().configuration
    assert {kept[f"delta.{name}RetentionDuration"] for name in ("deletedFile", "log")} == {"interval 5184000 seconds"}
    assert (stream.ledger.foreign, stream.ledger.rows_version) == ((), 1)


def test_what_a_derived_table_has_not_read_stays_until_it_has(stream):
    stream.take(record(time=hour(0)))
    stream.take(record(time=hour(0), temperature_2m=1.0))
    feed = stream.settings.table_uri(stream.table.changes_name)
    stream.spark.sql(f"CREATE TABLE delta.`{feed}` (change BIGINT) USING DELTA")
    done = stream.maintain()
    assert (done[""].kept, done[""].removed) == (None, 0)
    assert f"change of {stream.table.changes_name} is bigint" in done["_changes"].kept
    stream.promise(SECOND)
    files = stream.files()
    for _ in range(2):
        done = stream.maintain()
        assert f"{stream.table.changes_name} has not read {stream.table.name}" in done[""].kept
        assert (done[""].idle, done[""].removed, stream.files()) == (False, None, files)
    assert done["_by_location"].kept is None
    shutil.rmtree(feed)
    done = stream.maintain()
    assert (done[""].kept, done[""].removed > 0) == (None, True)


def test_where_somebody_else_vacuumed_first_the_rollup_is_rebuilt_and_the_feed_warns_from_then_on(stream):
    stream.take(*(record(time=hour(number), temperature_2m=float(number)) for number in range(2)))
    stream.refresh()
    stream.take(record(time=hour(1), temperature_2m=5.0), record(time=hour(3), temperature_2m=3.0))
    stream.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 seconds')")
    stream.sql("VACUUM {t}")
    changes, rollup = stream.refresh()
    assert (changes.rebuilt, rollup.rebuilt) == (True, True)
    feed = "SELECT date_format(observed_at, 'HH'), change, temperature_2m_before, temperature_2m_after"
    reconciled = stream.sql(f"{feed} FROM {{changes}} WHERE reconciled ORDER BY 1")
    assert reconciled == [("01", "update", 1.0, 5.0), ("03", "insert", None, 3.0)]
    stream.assert_rollup_is_right()
    stream.take(record(time=hour(4)))
    changes, _ = stream.refresh()
    assert not changes.rebuilt
    finding = every_change_kept(stream.ledger_of(stream.table.changes_name))
    assert (finding.passed, "Version 2 holds a net difference" in finding.detail) == (False, True)


def test_a_batch_that_commits_meanwhile_is_not_put_back(stream, monkeypatch):
    """Once before the maintenance plans its commit, and once between plan and commit."""
    stream.take(record(time=hour(0)))
    meanwhile = iter([record(time=hour(1)), record(time=hour(2))])

    def first_a_batch(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            value = next(meanwhile, None)
            if value:
                stream.take(value)
            return real(*arguments)

        return step

    monkeypatch.setattr(StoredTable, "upkeep", first_a_batch(StoredTable.upkeep))
    monkeypatch.setattr(StoredTable, "commit_nothing", first_a_batch(StoredTable.commit_nothing))
    stream.maintain()
    assert next(meanwhile, None) is None
    assert set(stream.temperatures()) == {hour(number) for number in range(3)}
    assert stream.ledger.progress.positions[0] == 3
    assert stream.ledger.newest.commit.kind == "maintenance"
    stream.assert_accounted()


def test_a_restore_over_maintenance_puts_the_progress_back_and_loses_no_record(stream):
    """To a version amid the maintenance first, then to one before it."""
    stream.take(record(time=hour(0)))
    stream.take(record(time=hour(1)))
    stream.maintain()
    rows = stream.snapshot()
    amid = stream.operations()[::-1].index("VACUUM START")
    for version, progress in ((amid, 2), (1, 1)):
        stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
        assert stream.ledger.progress.positions[0] == progress
    stream.merge()
    assert stream.snapshot() == rows
    assert stream.ledger.totals.read == 2
    stream.assert_accounted()


def test_compaction_puts_like_values_together_where_that_is_declared(spark, broker):
    stream = Kept.create(spark, broker, base=None)
    rollups = [replace(stream.table.rollups[0], by=["latitude", "longitude"])]
    more = [Column("station", "STRING", "Where it was read."), Column("by", "STRING", "Who read it.")]
    columns = [*stream.table.columns, *more]
    stream.table = replace(stream.table, partition_by=None, columns=columns, cluster_by=["station"], rollups=rollups)
    for number in (5, 1, 3):
        stream.take(record(time=hour(number), station="x"), record(time=hour(number + 10), station="a"))
    rows = stream.snapshot()
    assert stream.maintain()[""].files_after == 1
    (made,) = [each for each in DeltaTable(stream.uri).history() if each["operation"] == "OPTIMIZE"]
    assert made["operationParameters"]["zOrderBy"] == '["station"]'
    assert stream.snapshot() == rows
    bounds = DeltaTable(stream.uri).get_add_actions(flatten=True)
    assert {"min.observed_at", "max.latitude", "min.station"} <= {*pa.table(bounds).column_names}
    stream.table = replace(stream.table, cluster_by=["by"])
    stream.take(record(time=hour(2), by="me"))
    assert stream.maintain()[""].files_after == 1
    (made, _) = [each for each in DeltaTable(stream.uri).history() if each["operation"] == "OPTIMIZE"]
    assert made["operationParameters"]["zOrderBy"] == '["by"]'
    assert len(stream.snapshot()) == len(rows) + 1
    stream.assert_accounted()
