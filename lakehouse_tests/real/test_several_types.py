"""Several types of records in one topic: each table takes its own, and accounts for the others as filtered."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import FieldIs
from lakehouse.ingest.redrive import redrive
from lakehouse.ledger.audit import audit
from lakehouse.operations.verify import rejected_share
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream, counts, hour, record, unique_table
from lakehouse_tests.helpers.tables.tables import redeclare


@pytest.mark.invariant("7.1", "7.10")
def test_two_tables_share_a_topic_and_account_for_each_record(spark: SparkSession, broker: Settings) -> None:
    readings = Stream.create(spark, broker, where=FieldIs("type", ["reading"]), base=None)
    forecasts = Stream(spark, broker, redeclare(unique_table(base=None), topic=readings.table.topic))
    forecasts.table = replace(forecasts.table, where=FieldIs("type", ["forecast"]))
    readings.send(
        record(time=hour(0), type="reading"),
        record(time=hour(1), type="forecast"),
        b'{"type": "note", "text": "other fields"}',
        b'{"type": "reading", "time": 7}',
        b'{"type": "for',
    )
    (outcome,), (forecast_outcome,) = readings.merge(), forecasts.merge()
    figures = counts(outcome.entry)
    assert (figures["read"], figures["rejected"], figures["inserted"], outcome.entry.commit.filtered) == (5, 2, 1, 2)
    assert forecast_outcome.entry.commit.filtered == 3
    assert (set(readings.temperatures()), set(forecasts.temperatures())) == ({hour(0)}, {hour(1)})
    assert [reason for _, _, reason in readings.rejected()] == ["missing_field", "truncated"]
    assert [reason for _, _, reason in forecasts.rejected()] == ["truncated"]
    for stream in (readings, forecasts):
        stream.assert_accounted()
        assert all(finding.passed for finding in audit(stream.ledger))
    assert "2 of 3 records were rejected" in rejected_share(readings.ledger).detail


@pytest.mark.slow
@pytest.mark.invariant("7.10", "8.5")
def test_a_replay_of_filtered_records_changes_nothing_and_another_condition_takes_them(
    spark: SparkSession, broker: Settings
) -> None:
    stream = Stream.create(spark, broker, where=FieldIs("type", ["reading"]), base=None)
    stream.send(record(time=hour(0), type="reading"), record(time=hour(1), type="forecast"), b'{"type": "forecast"}')
    stream.merge()
    version = stream.snapshot()
    (replayed,) = stream.replay()
    assert (replayed.entry.commit.filtered, stream.snapshot()) == (2, version)
    stream.table = replace(stream.table, where=FieldIs("type", ["reading", "forecast"]))
    (replayed,) = stream.replay()
    commit = replayed.entry.commit
    assert (commit.filtered, commit.rejected, replayed.entry.metrics.inserted) == (0, 1, 1)
    stream.table = replace(stream.table, where=FieldIs("type", ["reading"]))
    (redriven,) = redrive(stream.context)
    assert (redriven.entry.commit.filtered, stream.rejected()) == (1, []), "a record of another type is not rejected"
    stream.assert_accounted()
