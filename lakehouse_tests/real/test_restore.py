"""RESTORE to a timestamp by Spark: after the next merge every record is in the table."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from lakehouse_tests.helpers.brokers.streams import Stream, hour, record

pytestmark = pytest.mark.invariant("1.6", "1.7")


@pytest.fixture(scope="module")
def stream(spark, broker):
    """Two batches of one record."""
    stream = Stream.create(spark, broker)
    for number in (0, 1):
        stream.send(record(time=hour(number)))
        stream.merge()
    return stream


def test_a_restore_two_milliseconds_after_a_commit_loses_no_row(stream):
    """Delta uses the time of the log file, which is later than that of the commit, as on a slow disk."""
    restore_time = stream.ledger.entries[0].committed_at + timedelta(milliseconds=2)
    file_time = (restore_time + timedelta(milliseconds=5)).timestamp()
    os.utime(Path(stream.uri, "_delta_log", f"{stream.ledger.version:020d}.json"), (file_time, file_time))
    stream.sql(f"RESTORE TABLE {{t}} TO TIMESTAMP AS OF '{restore_time:%Y-%m-%d %H:%M:%S.%f}'")
    assert set(stream.temperatures()) == {hour(0)}  # the second batch is undone
    stream.send(record(time=hour(2)))
    stream.merge()
    assert set(stream.temperatures()) == {hour(0), hour(1), hour(2)}
    stream.assert_accounted()
