"""A log table: every accepted record is a row exactly once, however often it is read."""

from dataclasses import replace
from typing import Any

import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, Computed, Time
from lakehouse.errors import TableError
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.rejected_records import covered_sql
from lakehouse.ingest.replay import replay
from lakehouse.ledger.positions import Plan, Range
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import Stream, counts, hour, record
from lakehouse_tests.helpers.tables.log_tables import COLUMNS, at_hours, is_right, list_rows, operations

PARTS = [Computed(part, "INT", sql=f"{part}(observed_at)", doc="UTC.") for part in ("year", "month", "day", "hour")]
LEAP = "2024-02-29T23:00"


def fields(stream: Stream) -> list[tuple[Any, ...]]:
    """Every field of every row and the parts of its time, in the order of the records."""
    return stream.sql(
        "SELECT CAST(latitude AS STRING), CAST(longitude AS STRING), date_format(observed_at, \"yyyy-MM-dd'T'HH:mm\"),"
        " temperature_2m, year, month, day, hour FROM {t} ORDER BY _record.partition, _record.position"
    )


@pytest.mark.invariant("4.5")
@pytest.mark.parametrize("spark_writes", [pytest.param(True, marks=pytest.mark.slow), False])
def test_every_record_is_a_row_with_all_fields_even_if_records_are_equal(log_stream, spark_writes):
    log_stream.table = replace(log_stream.table, columns=[*COLUMNS, *PARTS])
    repeated_record = record(latitude=-33.5, longitude=151.2500004, time=LEAP, temperature_2m=None)
    log_stream.send(repeated_record, *at_hours(0, 30), repeated_record)
    log_stream.send(repeated_record, b"{", partition=1)
    with by_spark(spark_writes):
        (outcome,) = log_stream.merge()
    assert counts(outcome.entry) == dict(read=6, rejected=1, superseded=0, inserted=5, updated=0, stale=0)
    assert (outcome.entry.commit.rounded, log_stream.ledger.totals.rounded) == (3, 3)
    assert operations(log_stream) == ["WRITE"]
    writer = "Apache" if spark_writes else "delta-rs"
    assert DeltaTable(log_stream.uri).history(1)[0]["engineInfo"].startswith(writer)
    assert [row[:2] for row in list_rows(log_stream)] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    leap_row = ("-33.500000", "151.250000", LEAP, None, 2024, 2, 29, 23)
    first_row = ("13.000000", "77.600006", hour(0), 0.0, 2023, 1, 1, 0)
    second_row = ("13.000000", "77.600006", hour(30), 30.0, 2023, 1, 2, 6)
    assert fields(log_stream) == [leap_row, first_row, second_row, leap_row, leap_row]
    assert log_stream.rejected() == [(1, 1, "truncated")]
    is_right(log_stream)
    log_stream.send(*at_hours(5))
    with by_spark(spark_writes):
        log_stream.merge()
    assert operations(log_stream) == ["WRITE", "WRITE"]
    assert log_stream.sql("SELECT sum(readings), max(hottest) FROM {rollup}") == [(5, 30.0)]
    is_right(log_stream)
    assert log_stream.sql("SELECT sum(readings), max(hottest) FROM {rollup}") == [(6, 30.0)]


@pytest.mark.invariant("3.1", "3.3", "4.5")
@pytest.mark.slow
def test_a_replay_in_any_split_writes_no_row_and_no_file(log_stream):
    log_stream.send(*at_hours(0, 1, 2, 3, 4))
    log_stream.merge(max_records=2)
    before, files = list_rows(log_stream), set(DeltaTable(log_stream.uri).file_uris())
    for size in (None, 2):
        outcomes = log_stream.replay(max_records=size)
        assert sum(counts(outcome.entry)["stale"] for outcome in outcomes) == 5
        assert not any(counts(outcome.entry)["inserted"] for outcome in outcomes)
    assert (list_rows(log_stream), set(DeltaTable(log_stream.uri).file_uris())) == (before, files)
    is_right(log_stream)


@pytest.mark.slow
def test_a_batch_of_rejected_records_is_a_commit_without_rows(log_stream):
    (outcome,) = log_stream.send_and_merge(b"{", None)
    assert counts(outcome.entry) == dict(read=2, rejected=2, superseded=0, inserted=0, updated=0, stale=0)
    assert log_stream.merge() == []
    is_right(log_stream)


@pytest.mark.invariant("8.12")
@pytest.mark.slow
def test_records_that_a_new_declaration_accepts_are_redriven_once(log_stream):
    log_stream.send_and_merge(*at_hours(0), record(time=hour(1), temperature_2m=99.0))
    wider_table = replace(log_stream.table, columns=[*COLUMNS[:3], replace(COLUMNS[3], between=(-100, 100))])
    log_stream.table = wider_table
    (outcome,) = redrive(log_stream.context)
    assert counts(outcome.entry)["inserted"] == 1
    assert redrive(log_stream.context) == []
    assert log_stream.rejected() == []
    assert list_rows(log_stream) == [(0, 0, hour(0), 0.0), (0, 1, hour(1), 99.0)]
    log_stream.replay()
    assert len(list_rows(log_stream)) == 2
    is_right(log_stream)


def test_a_table_with_a_key_cannot_become_a_log_table_nor_the_reverse(log_stream):
    log_table, keyed_table = log_stream.table, replace(log_stream.table, key=["latitude", "longitude", "observed_at"])
    log_stream.send_and_merge(*at_hours(0))
    for stored_table, new_table, problem in ((log_table, keyed_table, "have no"), (keyed_table, log_table, "have")):
        name = f"{log_table.name}_{'k' if stored_table is keyed_table else 'l'}"
        log_stream.table = replace(stored_table, name=name)
        log_stream.merge()
        version = DeltaTable(log_stream.uri).version()
        log_stream.table = replace(new_table, name=name)
        with pytest.raises(TableError, match=rf"{problem} _record\.base: .*table with another name"):
            log_stream.merge()
        assert DeltaTable(log_stream.uri).version() == version


@pytest.mark.slow
def test_a_column_declared_later_is_null_in_rows_from_before(log_stream):
    log_stream.send_and_merge(*at_hours(0))
    new_columns = [
        Column("station", "STRING", doc="Its name."),
        Column("sent_at", "TIMESTAMP", written=Time(epoch="seconds"), doc="When, UTC."),
    ]
    log_stream.table = replace(log_stream.table, columns=[*COLUMNS, *new_columns])
    log_stream.send_and_merge(record(time=hour(1), station="north", sent_at=0))
    new_values = log_stream.sql("SELECT station, unix_seconds(sent_at) FROM {t} ORDER BY observed_at")
    assert new_values == [(None, None), ("north", 0)]
    assert DeltaTable(log_stream.uri).history(1)[0]["engineInfo"].startswith("delta-rs"), (
        "declared statistics suffice for delta-rs"
    )
    is_right(log_stream)


@pytest.mark.slow
@pytest.mark.invariant("4.5")
def test_file_statistics_have_positions_so_that_a_replay_skips_other_files(log_stream):
    """Files of few rows that delta-rs wrote have these statistics after they are compacted."""
    for number in range(2):
        log_stream.send(*at_hours(number))
        with by_spark():
            log_stream.merge()
    plan = Plan(log_stream.table.topic, log_stream.ledger.progress.source, (Range(0, 1, 2),))
    rows = log_stream.spark.read.format("delta").load(log_stream.uri).where(covered_sql("_record", plan))
    assert len(rows.inputFiles()) == 1
    files = DeltaTable(log_stream.uri).get_add_actions(flatten=True)
    assert (
        sorted(files["min._record.position"].to_pylist()) == sorted(files["max._record.position"].to_pylist()) == [0, 1]
    )
    (outcome,) = replay(log_stream.context, [Range(0, 1, 2)])
    assert counts(outcome.entry) == dict(read=1, rejected=0, superseded=0, inserted=0, updated=0, stale=1)
