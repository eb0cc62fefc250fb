"""Derived tables say what they consumed, and are right also where the changes cannot be read; one shared history."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakehouse.batch.replay import replay
from lakehouse.delta import write
from lakehouse.delta.audit import every_change_kept
from lakehouse.delta.ledger import Ledger, read_ledger
from lakehouse.derive import feed
from lakehouse.topic.offsets import Range
from lakehouse.upkeep.verify import verify_keys, verify_rollup
from lakehouse_tests.helpers.rows import hour_of, rows_of
from lakehouse_tests.helpers.streams import Stream, clean_log, record
from lakehouse_tests.helpers.writers import by_spark

pytestmark = pytest.mark.invariant(10)


@pytest.fixture(scope="module")
def shared(spark, broker) -> Stream:
    stream = Stream.create(spark, broker)
    stream.send_hours(1)
    return stream


@pytest.fixture
def stream(shared: Stream) -> Iterator[Stream]:
    """Feed and rollup are up to date before and after a test; the rollup equals its recomputation."""
    shared.merge()
    shared.refresh()
    yield shared
    shared.refresh()
    finding = verify_rollup(shared.engine, shared.table.rollups[0])
    assert finding.passed, finding.detail
    shared.assert_accounted()


def take(stream: Stream, temperatures: dict[str, float]) -> None:
    """Merge a temperature for each of these hours, in one batch."""
    stream.send(*(record(time=hour, temperature_2m=value) for hour, value in temperatures.items()))
    stream.merge()


def told(stream: Stream, hour: str, latitude: float = 13.0) -> list[tuple[Any, ...]]:
    """What the feed tells of an hour, oldest first: change, before, after, and whether it is a net difference."""
    of_all = rows_of(stream.settings, stream.table.changes_name)
    rows = [row for row in of_all if hour_of(row) == hour and row["latitude"] == latitude]
    rows.sort(key=lambda row: (row["number"], row["source_version"]))
    names = ("change", "temperature_2m_before", "temperature_2m_after", "reconciled")
    return [tuple(row[name] for name in names) for row in rows]


def ledger_of(stream: Stream, name: str) -> Ledger:
    return read_ledger(stream.settings.table_uri(name), name, whole=True)


def figures(stream: Stream, latitude: float) -> list[tuple[Any, ...]]:
    """What the rollup says of a place, month by month."""
    rows = [row for row in rows_of(stream.settings, stream.table.rollups[0].name) if row["latitude"] == latitude]
    names = ("rows", "readings", "temperature_min", "temperature_max", "temperature_sum", "temperature_avg")
    return [
        (*(float(row[name]) for name in names), f"{row['first_observed_at']:%H}", f"{row['last_observed_at']:%H}")
        for row in sorted(rows, key=lambda row: row["observed_month"])
    ]


@pytest.mark.parametrize("quick", [True, False])
def test_few_changes_give_the_same_rows_with_and_without_spark(stream, quick):
    first, second, third = stream.hours(3)
    take(stream, {first: 1.0, second: 2.0})
    stream.refresh()
    take(stream, {first: 9.0, third: 3.0})
    with by_spark(not quick):
        changes, groups = stream.refresh()
    assert (changes.changed, changes.rebuilt, groups.changed, groups.rebuilt) == (2, False, 1, False)
    assert told(stream, first)[-1] == ("update", 1.0, 9.0, False) and told(stream, third)[-1][0] == "insert"
    for derived in (changes, groups):
        engine = DeltaTable(stream.settings.table_uri(derived.name)).history(1)[0]["engineInfo"]
        assert engine.startswith("delta-rs") == quick


def test_a_restore_of_the_feed_between_plan_and_commit_tells_no_change_twice(stream, monkeypatch):
    """The append stands in the table, but does not count: what it told is told again, and found there.

    Spark's append: the one without Spark is made on the version it was planned on, or not at all.
    """
    monkeypatch.setattr(feed, "is_quick", lambda *_: False)
    before, (undone, hour) = ledger_of(stream, stream.table.changes_name).version, stream.hours(2)
    take(stream, {undone: 1.0})
    stream.refresh()
    take(stream, {hour: 1.0})
    appended = []

    def interfered(*arguments: Any, **commit: Any) -> Any:
        appended.append(commit)
        stream.sql(f"RESTORE TABLE {{changes}} TO VERSION AS OF {before}")
        return write.commit_append(*arguments, **commit)

    monkeypatch.setattr(feed, "commit_append", interfered)
    stream.refresh()
    assert told(stream, hour) == told(stream, undone) == [("insert", None, 1.0, False)]
    history = DeltaTable(stream.settings.table_uri(stream.table.changes_name)).history(3)
    assert [info["operation"] for info in history] == ["MERGE", "WRITE", "RESTORE"] and len(appended) == 1


def test_a_feed_whose_log_tells_no_commit_of_ours_tells_no_change_twice(stream):
    (hour,) = stream.hours(1)
    take(stream, {hour: 1.0})
    stream.refresh()
    stream.sql("ALTER TABLE {changes} SET TBLPROPERTIES ('theirs' = 'yes')")
    clean_log(stream.settings.table_uri(stream.table.changes_name))
    assert ledger_of(stream, stream.table.changes_name).source is None
    stream.refresh()
    assert told(stream, hour) == [("insert", None, 1.0, False)]


def test_the_feed_holds_inserts_and_updates_and_both_say_what_they_consumed(stream):
    (hour,) = stream.hours(1)
    take(stream, {hour: 1.0})
    take(stream, {hour: 9.0})
    changes, rollup = stream.refresh()
    assert told(stream, hour) == [("insert", None, 1.0, False), ("update", 1.0, 9.0, False)]
    assert (changes.changed, changes.rebuilt, rollup.rebuilt) == (2, False, False)
    for derived in (changes, rollup):
        newest = ledger_of(stream, derived.name).newest.commit
        assert (newest.source.table_id, newest.source.version) == (stream.ledger.table_id, stream.ledger.version)
    numbers = [entry.commit.number for entry in ledger_of(stream, changes.name).entries]
    assert numbers == sorted(set(numbers), reverse=True)


def test_a_rollup_has_the_figures_of_each_place_and_month(stream):
    day = "2023-01-01T{:02d}:00"
    values = {day.format(0): 0.0, day.format(1): 9.0, day.format(2): 2.0, "2023-02-01T05:00": -4.0}
    stream.send(*(record(latitude=50.5, time=time, temperature_2m=value) for time, value in values.items()))
    stream.merge()
    stream.refresh()
    assert figures(stream, 50.5) == [
        (3, 3, 0.0, 9.0, 11.0, 11 / 3, "00", "02"),
        (1, 1, -4.0, -4.0, -4.0, -4.0, "05", "05"),
    ]
    stream.sql("DELETE FROM {t} WHERE latitude = 50.5 AND observed_month = DATE'2023-02-01'")
    stream.refresh()
    assert len(figures(stream, 50.5)) == 1, "a group whose rows were deleted is gone"
    assert told(stream, "2023-02-01T05:00", 50.5)[-1] == ("delete", -4.0, None, False)


def test_what_changes_no_row_is_no_change_and_a_second_refresh_writes_nothing(stream):
    (hour,) = stream.hours(1)
    take(stream, {hour: 9.0})
    stream.refresh()
    take(stream, {hour: 9.0})  # a newer record of equal values
    end = stream.ledger.progress.offsets[0]
    replay(stream.engine, [Range(0, end - 2, end)])
    changes, rollup = stream.refresh()
    assert (changes.changed, changes.source_version) == (0, stream.ledger.version)
    assert (rollup.source_version, rollup.rebuilt) == (stream.ledger.version, False)
    assert told(stream, hour) == [("insert", None, 9.0, False)]
    versions = [changes.version, rollup.version]
    assert [derived.version for derived in stream.refresh()] == versions


def test_a_restore_is_told_as_the_changes_it_made(stream):
    first, second = stream.hours(2)
    take(stream, {first: 1.0, second: 2.0})
    version = stream.ledger.version
    take(stream, {first: 9.0})
    stream.refresh()
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
    changes, rollup = stream.refresh()
    assert told(stream, first)[1:] == [("update", 1.0, 9.0, False), ("update", 9.0, 1.0, False)]
    assert told(stream, second) == [("insert", None, 2.0, False)], "a pair that is equal is no change"
    assert (changes.rebuilt, rollup.rebuilt) == (False, False)


def test_where_change_data_is_gone_the_rollup_rebuilds_and_the_feed_reconciles_and_warns(stream):
    first, second = stream.hours(2)
    take(stream, {first: 1.0})
    stream.refresh()
    consumed = stream.ledger.version
    take(stream, {first: 5.0, second: 3.0})
    take(stream, {first: 6.0})
    shutil.rmtree(Path(stream.uri, "_change_data"))
    changes, rollup = stream.refresh()
    assert told(stream, first)[1:] == [("update", 1.0, 6.0, True)]
    assert told(stream, second) == [("insert", None, 3.0, True)]
    assert (changes.rebuilt, rollup.rebuilt) == (True, True)
    of_all = rows_of(stream.settings, stream.table.changes_name)
    spans = {(row["since_version"], row["source_version"]) for row in of_all if hour_of(row) == second}
    assert spans == {(consumed, stream.ledger.version)}
    finding = every_change_kept(ledger_of(stream, stream.table.changes_name))
    assert not finding.passed
    assert "holds a net difference" in finding.detail


def test_where_the_source_was_made_anew_both_follow_the_new_table(stream):
    (hour,) = stream.hours(1)
    take(stream, {hour: 1.0})
    stream.sql(f"UPDATE {{t}} SET temperature_2m = 2 WHERE observed_at = TIMESTAMP'{hour}'")
    stream.refresh()
    shutil.rmtree(stream.uri)
    shutil.rmtree(stream.settings.table_uri(stream.table.rejected_name))
    stream.merge()
    _, rollup = stream.refresh()
    assert told(stream, hour)[-1] == ("update", 2.0, 1.0, True)
    assert rollup.rebuilt


def test_where_a_backup_goes_through_the_same_versions_again_both_notice_it(stream, tmp_path):
    first, second = stream.hours(2)
    take(stream, {first: 1.0})
    shutil.copytree(stream.uri, tmp_path / "backup")
    take(stream, {first: 2.0})
    stream.refresh()
    consumed = stream.ledger.version
    shutil.rmtree(stream.uri)
    shutil.copytree(tmp_path / "backup", stream.uri)
    take(stream, {second: 3.0})  # and what the backup lacks, in the version that was consumed
    assert stream.ledger.version == consumed
    changes, rollup = stream.refresh()
    assert told(stream, second) == [("insert", None, 3.0, True)]
    assert (changes.rebuilt, rollup.rebuilt) == (True, True)


def test_the_checks_name_the_rows_that_are_wrong(stream):
    (hour,) = stream.hours(1)
    stream.send(record(latitude=60.5, time=hour))
    stream.merge()
    stream.refresh()
    version = stream.ledger.version
    rollup = stream.table.rollups[0]
    stream.sql("UPDATE {rollup} SET rows = 99 WHERE latitude = 60.5")
    finding = verify_rollup(stream.engine, rollup)
    assert not finding.passed
    assert "60.500000, 77.600006, 2023-01-01 differs" in finding.detail
    stream.sql("INSERT INTO {t} SELECT * FROM {t} WHERE latitude = 60.5")
    keys = verify_keys(stream.engine)
    assert not keys.passed
    assert f"60.500000, 77.600006, {hour.replace('T', ' ')}:00 stands 2 times" in keys.detail
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
    stream.sql("UPDATE {rollup} SET rows = 1 WHERE latitude = 60.5")


def test_figures_by_year_and_of_all_time_derive_from_the_months(stream):
    times = {"2023-02-01T00:00": -4.0, "2022-02-01T00:00": 1.5}
    stream.send(*(record(latitude=40.5, time=time, temperature_2m=value) for time, value in times.items()))
    stream.merge()
    stream.refresh()
    columns = "count(*), count(temperature_2m), min(temperature_2m), max(temperature_2m), round(avg(temperature_2m), 5)"
    derived = (
        "sum(rows), sum(readings), min(temperature_min), max(temperature_max),"
        " round(CAST(sum(temperature_sum) / sum(readings) AS DOUBLE), 5)"
    )
    by_year = stream.sql(f"SELECT year(observed_at), {columns} FROM {{t}} GROUP BY 1 ORDER BY 1")
    assert stream.sql(f"SELECT year(observed_month), {derived} FROM {{rollup}} GROUP BY 1 ORDER BY 1") == by_year
    assert stream.sql(f"SELECT {derived} FROM {{rollup}}") == stream.sql(f"SELECT {columns} FROM {{t}}")
