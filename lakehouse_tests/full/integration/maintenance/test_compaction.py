"""Maintenance compacts files, changes no row and carries the ledger forward."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, Upkeep
from lakehouse.ingest.load import load_base
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.maintained_streams import MaintainedStream
from lakehouse_tests.helpers.brokers.streams import clean_log, hour, record


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
    assert stream.operations()[:2] == ["WRITE", "OPTIMIZE"], "the commit of no rows; no file is old enough for VACUUM"
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
    (outcome,) = stream.send_and_merge(record(time=hour(1)))
    assert (outcome.entry.commit.kind, outcome.entry.commit.read) == ("batch", 1)
    changes, rollup = stream.refresh()
    assert (changes.changed, changes.rebuilt, rollup.rebuilt) == (1, False, False)
    stream.assert_rollup_is_right()
    stream.assert_accounted()


def test_compaction_clusters_rows_by_the_declared_columns(spark, broker):
    stream = MaintainedStream.create(spark, broker, base=None)
    rollups = [replace(stream.table.rollups[0], by=["latitude", "longitude"])]
    added_columns = [Column("station", "STRING", "Where it was read."), Column("by", "STRING", "Who read it.")]
    columns = [*stream.table.columns, *added_columns]
    stream.table = replace(
        stream.table, partition_by=None, columns=columns, upkeep=Upkeep(cluster_by=["station"]), rollups=rollups
    )
    for number in (5, 1, 3):
        stream.send_and_merge(record(time=hour(number), station="x"), record(time=hour(number + 10), station="a"))
    rows = stream.snapshot()
    assert stream.maintain()[""].files_after == 1
    (optimization,) = [info for info in DeltaTable(stream.uri).history() if info["operation"] == "OPTIMIZE"]
    assert optimization["operationParameters"]["zOrderBy"] == '["station"]'
    assert stream.snapshot() == rows
    bounds = DeltaTable(stream.uri).get_add_actions(flatten=True)
    assert {"min.observed_at", "max.latitude", "min.station"} <= {*pa.table(bounds).column_names}
    stream.table = replace(stream.table, upkeep=Upkeep(cluster_by=["by"]))
    stream.send_and_merge(record(time=hour(2), by="me"))
    assert stream.maintain()[""].files_after == 1
    (optimization, _) = [info for info in DeltaTable(stream.uri).history() if info["operation"] == "OPTIMIZE"]
    assert optimization["operationParameters"]["zOrderBy"] == '["by"]'
    assert len(stream.snapshot()) == len(rows) + 1
    stream.assert_accounted()
