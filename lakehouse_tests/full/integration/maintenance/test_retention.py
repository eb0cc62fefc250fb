"""Maintenance removes the files beyond the retention, and keeps every file that is still needed."""

import os
import shutil
import time
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse_tests.helpers.brokers.streams import hour, record
from lakehouse_tests.helpers.waiting import wait_until

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def backdate(files: set[Path]) -> None:
    """Set the modification times of files back by two hours."""
    for file in files:
        os.utime(file, (time.time() - 7200,) * 2)


def test_files_within_the_retention_stay_and_time_travel_works(stream):
    stream.set_retention(HOUR)
    stream.send_and_merge(record(time=hour(0), temperature_2m=1.0))
    rows = stream.snapshot()
    stream.send_and_refresh(record(time=hour(0), temperature_2m=2.0))
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
        stream.send_and_refresh(record(time=hour(0), temperature_2m=float(number)))
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
