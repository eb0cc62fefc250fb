"""RESTORE to a moment, by Spark: after the next merge every record is in the table."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession

from lakehouse_tests.helpers.streams import Stream, hour, record

pytestmark = pytest.mark.invariant(1)


@pytest.fixture(scope="module")
def stream(spark, broker):
    """Two batches of one record."""
    stream = Stream.create(spark, broker)
    for number in (0, 1):
        stream.send(record(time=hour(number)))
        stream.merge()
    return stream


def file_of_the_newest(stream: Stream) -> Path:
    return Path(stream.uri, "_delta_log", f"{stream.ledger.version:020d}.json")


def restore(stream: Stream, moment: datetime) -> None:
    stream.sql(f"RESTORE TABLE {{t}} TO TIMESTAMP AS OF '{moment:%Y-%m-%d %H:%M:%S.%f}'")


@contextmanager
def zone(spark: SparkSession, name: str) -> Iterator[ZoneInfo]:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        yield ZoneInfo(name)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_a_restore_two_milliseconds_after_a_commit_loses_no_row(stream):
    """The log's file is as much younger than the commit as on a slow disk, and Delta goes by the file."""
    moment = stream.ledger.entries[0].committed_at + timedelta(milliseconds=2)
    written = (moment + timedelta(milliseconds=5)).timestamp()
    os.utime(file_of_the_newest(stream), (written, written))
    restore(stream, moment)
    assert set(stream.temperatures()) == {hour(0)}  # the second batch is undone
    stream.send(record(time=hour(2)))
    stream.merge()
    assert set(stream.temperatures()) == {hour(0), hour(1), hour(2)}
    stream.assert_accounted()


def test_a_restore_told_in_another_zone_loses_no_row(stream):
    before = set(stream.temperatures())
    moment = datetime.fromtimestamp(file_of_the_newest(stream).stat().st_mtime + 0.001, UTC)
    stream.send(record(time=hour(3)))
    stream.merge()
    for name in ("Asia/Tokyo", "America/New_York"):
        with zone(stream.spark, name) as there:
            restore(stream, moment.astimezone(there))
        assert set(stream.temperatures()) == before
        stream.merge()
        assert set(stream.temperatures()) == before | {hour(3)}
    stream.assert_accounted()
