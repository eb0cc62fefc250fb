"""RESTORE to a moment, by Spark: after the next merge every record is in the table."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from lakehouse_tests.helpers.brokers.streams import Stream, hour, record

pytestmark = pytest.mark.invariant(1)


@pytest.fixture(scope="module")
def stream(spark, broker):
    """Two batches of one record."""
    stream = Stream.create(spark, broker)
    for number in (0, 1):
        stream.send(record(time=hour(number)))
        stream.merge()
    return stream


def test_a_restore_two_milliseconds_after_a_commit_loses_no_row(stream):
    """The log's file is as much younger than the commit as on a slow disk, and Delta goes by the file."""
    moment = stream.ledger.entries[0].committed_at + timedelta(milliseconds=2)
    written = (moment + timedelta(milliseconds=5)).timestamp()
    os.utime(Path(stream.uri, "_delta_log", f"{stream.ledger.version:020d}.json"), (written, written))
    stream.sql(f"RESTORE TABLE {{t}} TO TIMESTAMP AS OF '{moment:%Y-%m-%d %H:%M:%S.%f}'")
    assert set(stream.temperatures()) == {hour(0)}  # the second batch is undone
    stream.send(record(time=hour(2)))
    stream.merge()
    assert set(stream.temperatures()) == {hour(0), hour(1), hour(2)}
    stream.assert_accounted()
