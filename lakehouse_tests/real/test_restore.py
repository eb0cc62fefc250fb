"""A RESTORE to a timestamp by Spark, or by ``lakehouse restore``: after the next merge every record is in the table."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.commands import lakehouse_says
from lakehouse_tests.helpers.tables.log_tables import at_hours, is_right, list_rows

pytestmark = pytest.mark.invariant("1.6", "1.7")


@pytest.fixture(scope="module")
def stream(spark, broker):
    """Two batches of one record."""
    stream = Stream.create(spark, broker)
    for number in (0, 1):
        stream.send_and_merge(record(time=hour(number)))
    return stream


@pytest.mark.slow
def test_a_restore_two_milliseconds_after_a_commit_loses_no_row(stream):
    """Delta uses the time of the log file, which is later than that of the commit, as on a slow disk."""
    restore_time = stream.ledger.entries[0].committed_at + timedelta(milliseconds=2)
    file_time = (restore_time + timedelta(milliseconds=5)).timestamp()
    os.utime(Path(stream.uri, "_delta_log", f"{stream.ledger.version:020d}.json"), (file_time, file_time))
    stream.sql(f"RESTORE TABLE {{t}} TO TIMESTAMP AS OF '{restore_time:%Y-%m-%d %H:%M:%S.%f}'")
    assert set(stream.temperatures()) == {hour(0)}  # the second batch is undone
    stream.send_and_merge(record(time=hour(2)))
    assert set(stream.temperatures()) == {hour(0), hour(1), hour(2)}
    stream.assert_accounted()


def restore(stream: Stream, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the command for a table that only this test declares."""
    monkeypatch.setenv("LAKEHOUSE_HOME", str(stream.settings.home))
    monkeypatch.setattr("lakehouse.discovery.declared_tables", lambda _: (stream.table,))
    result = lakehouse_says("restore", stream.table.name, "--version", str(version), "--yes")
    assert result.code == 0, result.err
    assert f"Next: lakehouse merge {stream.table.name}" in result.out


def test_the_merge_after_the_command_reads_the_undone_records_again(spark, broker, monkeypatch):
    stream = Stream.create(spark, broker, base=None)
    stream.send_and_refresh(record(time=hour(0), temperature_2m=1.0))
    version = stream.ledger.version
    stream.send_and_refresh(record(time=hour(0), temperature_2m=2.0), record(time=hour(1), temperature_2m=3.0))
    restore(stream, version, monkeypatch)
    assert stream.temperatures() == {hour(0): 1.0}
    (outcome,) = stream.merge()
    assert outcome.entry.commit.read == 2
    assert stream.temperatures() == {hour(0): 2.0, hour(1): 3.0}
    stream.refresh()
    row_balance = stream.sql("SELECT count_if(change = 'insert') - count_if(change = 'delete') FROM {changes}")
    assert row_balance == [(2,)]
    assert stream.merge() == []
    stream.assert_accounted()


@pytest.mark.slow
def test_the_merge_after_the_command_adds_each_record_of_a_log_table_once(log_stream, monkeypatch):
    log_stream.send_and_merge(*at_hours(0))
    version = log_stream.ledger.version
    log_stream.send_and_merge(*at_hours(1, 2))
    rows = list_rows(log_stream)
    restore(log_stream, version, monkeypatch)
    assert len(list_rows(log_stream)) == 1
    log_stream.merge()
    assert list_rows(log_stream) == rows
    assert len(rows) == 3
    is_right(log_stream)
