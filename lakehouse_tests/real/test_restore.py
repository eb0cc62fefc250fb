"""RESTORE to a moment, by Spark: after the next merge every record is in the table."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse.errors import TableDamagedError
from lakehouse.upkeep.verify import verify_rollup
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


def test_what_a_power_cut_took_of_a_commit_is_told_restored_and_read_again(stream):
    """As the disk is after it: a file without its bytes, and of what was synced what was known then."""
    stream.merge()
    stream.refresh()
    marker = Path(stream.uri).parent / ".locks" / f"{stream.table.name}.synced"
    known, before, rows = marker.read_bytes(), stream.ledger.version, {*stream.temperatures()}
    stream.send(record(time=hour(5)), record(time=hour(6)))
    stream.merge()
    marker.write_bytes(known)
    (torn,) = {*DeltaTable(stream.uri).file_uris()} - {*DeltaTable(stream.uri, version=before).file_uris()}
    os.truncate(torn, 0)
    with pytest.raises(TableDamagedError, match=rf"{Path(torn).name}.*TO VERSION AS OF {before}\b"):
        stream.merge()
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {before}")
    Path(torn).unlink()
    stream.merge()
    assert {*stream.temperatures()} == rows | {hour(5), hour(6)}
    stream.refresh()
    told = stream.sql("SELECT count_if(change = 'insert') - count_if(change = 'delete') FROM {changes}")
    assert told == [(len(rows) + 2,)]
    assert verify_rollup(stream.engine, stream.table.rollups[0]).passed
    stream.assert_accounted()
