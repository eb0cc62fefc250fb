"""Derived tables are correct even if changes cannot be read or tables are restored; all tests share one history."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Measure
from lakehouse.derived.refresh import refresh_all
from lakehouse.errors import TableError
from lakehouse.kafka import create_topic
from lakehouse.ledger.audit import every_change_kept
from lakehouse.operations.maintain import maintain
from lakehouse.storage import spark_writer, stored_table
from lakehouse_tests.helpers.brokers.streams import Stream, clean_log, hour, record, unique_table
from lakehouse_tests.helpers.tables.derived import feed_changes, ledger_of, refresh_around, take
from lakehouse_tests.helpers.tables.rows import hour_of, rows_of

ROWS = Measure("count(*)", "BIGINT", "Rows.")


@pytest.fixture(scope="module")
def shared_stream(spark, broker) -> Stream:
    stream = Stream.create(spark, broker)
    stream.send_hours(1)
    return stream


@pytest.fixture
def stream(shared_stream: Stream) -> Iterator[Stream]:
    with refresh_around(shared_stream):
        yield shared_stream


@pytest.mark.invariant("1.13", "10.8")
def test_a_restore_of_the_feed_between_plan_and_commit_repeats_no_change(stream, monkeypatch):
    """The append is in the table but is void: its changes are appended again and are found to exist.

    Only with Spark: without it an append commits only on the planned version.
    """
    monkeypatch.setattr(stored_table, "can_append_quickly", lambda *_: False)
    version_before, (undone_hour, hour) = ledger_of(stream, stream.table.changes_name).version, stream.hours(2)
    take(stream, {undone_hour: 1.0})
    stream.refresh()
    take(stream, {hour: 1.0})
    append_options = []

    def restore_and_append(*arguments: Any, **options: Any) -> Any:
        append_options.append(options)
        stream.sql(f"RESTORE TABLE {{changes}} TO VERSION AS OF {version_before}")
        return spark_writer.commit_append(*arguments, **options)

    monkeypatch.setattr(stored_table, "commit_append", restore_and_append)
    stream.refresh()
    assert feed_changes(stream, hour) == feed_changes(stream, undone_hour) == [("insert", None, 1.0, False)]
    history = DeltaTable(stream.settings.table_uri(stream.table.changes_name)).history(3)
    assert [info["operation"] for info in history] == ["MERGE", "WRITE", "RESTORE"] and len(append_options) == 1


@pytest.mark.invariant("10.8")
def test_a_feed_whose_log_has_no_commit_of_our_own_repeats_no_change(stream):
    (hour,) = stream.hours(1)
    take(stream, {hour: 1.0})
    stream.refresh()
    stream.sql("ALTER TABLE {changes} SET TBLPROPERTIES ('theirs' = 'yes')")
    clean_log(stream.settings.table_uri(stream.table.changes_name))
    assert ledger_of(stream, stream.table.changes_name).consumed is None
    stream.refresh()
    assert feed_changes(stream, hour) == [("insert", None, 1.0, False)]


@pytest.mark.invariant("10.4")
def test_the_feed_records_a_restore_as_the_changes_it_made(stream):
    first_hour, second_hour = stream.hours(2)
    take(stream, {first_hour: 1.0, second_hour: 2.0})
    version = stream.ledger.version
    take(stream, {first_hour: 9.0})
    stream.refresh()
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
    changes, rollup = stream.refresh()
    assert feed_changes(stream, first_hour)[1:] == [("update", 1.0, 9.0, False), ("update", 9.0, 1.0, False)]
    assert feed_changes(stream, second_hour) == [("insert", None, 2.0, False)], (
        "an update to the same value is not a change"
    )
    assert (changes.rebuilt, rollup.rebuilt) == (False, False)


@pytest.mark.invariant("10.5")
def test_without_change_data_the_rollup_rebuilds_and_the_feed_reconciles_and_warns(stream):
    first_hour, second_hour = stream.hours(2)
    take(stream, {first_hour: 1.0})
    stream.refresh()
    consumed_version = stream.ledger.version
    take(stream, {first_hour: 5.0, second_hour: 3.0})
    take(stream, {first_hour: 6.0})
    shutil.rmtree(Path(stream.uri, "_change_data"))
    changes, rollup = stream.refresh()
    assert feed_changes(stream, first_hour)[1:] == [("update", 1.0, 6.0, True)]
    assert feed_changes(stream, second_hour) == [("insert", None, 3.0, True)]
    assert (changes.rebuilt, rollup.rebuilt) == (True, True)
    feed_rows = rows_of(stream.settings, stream.table.changes_name)
    spans = {(row["since_version"], row["source_version"]) for row in feed_rows if hour_of(row) == second_hour}
    assert spans == {(consumed_version, stream.ledger.version)}
    finding = every_change_kept(ledger_of(stream, stream.table.changes_name))
    assert not finding.passed
    assert "holds a net difference" in finding.detail


@pytest.mark.invariant("10.2")
def test_feed_and_rollup_follow_a_recreated_source(stream):
    (hour,) = stream.hours(1)
    take(stream, {hour: 1.0})
    stream.sql(f"UPDATE {{t}} SET temperature_2m = 2 WHERE observed_at = TIMESTAMP'{hour}'")
    stream.refresh()
    shutil.rmtree(stream.uri)
    shutil.rmtree(stream.settings.table_uri(stream.table.rejected_name))
    stream.merge()
    _, rollup = stream.refresh()
    assert feed_changes(stream, hour)[-1] == ("update", 2.0, 1.0, True)
    assert rollup.rebuilt


@pytest.mark.invariant("10.2")
def test_feed_and_rollup_notice_a_backup_that_repeats_version_numbers(stream, tmp_path):
    first_hour, second_hour = stream.hours(2)
    take(stream, {first_hour: 1.0})
    shutil.copytree(stream.uri, tmp_path / "backup")
    take(stream, {first_hour: 2.0})
    stream.refresh()
    consumed_version = stream.ledger.version
    shutil.rmtree(stream.uri)
    shutil.copytree(tmp_path / "backup", stream.uri)
    take(stream, {second_hour: 3.0})  # a change that is not in the backup, in the version that was consumed
    assert stream.ledger.version == consumed_version
    changes, rollup = stream.refresh()
    assert feed_changes(stream, second_hour) == [("insert", None, 3.0, True)]
    assert (changes.rebuilt, rollup.rebuilt) == (True, True)


def test_a_measure_that_fails_for_one_row_is_named_and_stops_neither_feed_nor_merges(spark, broker):
    table = unique_table()
    hundredths = Measure("sum(CAST(temperature_2m AS DECIMAL(3,2)))", "DECIMAL(20,2)", "")
    table = replace(table, rollups=[replace(table.rollups[0], measures={"rows": ROWS, "hundredths": hundredths})])
    create_topic(broker, table)
    stream = Stream(spark, broker, table)
    stream.send_and_merge(record(time=hour(0), temperature_2m=1.5))
    refresh_all(stream.context)
    stream.send_and_merge(record(time=hour(1), temperature_2m=20.0))
    with pytest.raises(TableError, match=rf"cannot be computed for some rows: .*{table.rollups[0].name}.*try_cast"):
        refresh_all(stream.context)
    assert len(rows_of(broker, table.changes_name)) == 2
    reasons = {result.name: result.kept for result in maintain(stream.context)}
    assert "cannot be computed" in (reasons[table.rollups[0].name] or "")
    stream.table = replace(table, rollups=[replace(table.rollups[0], measures={"rows": ROWS})])
    refresh_all(stream.context)
    assert [row["rows"] for row in rows_of(broker, table.rollups[0].name)] == [2]
