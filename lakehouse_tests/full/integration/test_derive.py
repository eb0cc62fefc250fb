"""Derived tables say what they consumed, and are right also where the changes can no longer be read."""

import shutil
from pathlib import Path

import pytest

from lakehouse.ledger import read_ledger
from lakehouse.verify import verify_keys, verify_rollup
from lakehouse_tests.helpers.streams import Stream, hour, record

pytestmark = pytest.mark.invariant(10)

CHANGES = "SELECT date_format(observed_at, 'HH'), change, temperature_2m_before, temperature_2m_after, reconciled"


@pytest.fixture(scope="module")
def calm(spark, broker):
    """A stream for tests that leave rows, feed and rollup as they are."""
    return refreshed(spark, broker)


@pytest.fixture
def stream(spark, broker):
    return refreshed(spark, broker)


def refreshed(spark, broker) -> Stream:
    """Three hours, of which one was updated, in two versions; feed and rollup are up to date."""
    stream = Stream.create(spark, broker)
    stream.send(*(record(time=hour(number), temperature_2m=float(number)) for number in range(3)))
    stream.merge()
    stream.send(record(time=hour(1), temperature_2m=9.0))
    stream.merge()
    stream.refresh()
    return stream


def feed(stream: Stream) -> list[tuple]:
    return stream.sql(f"{CHANGES} FROM {{changes}} ORDER BY number, source_version, observed_at")


def figures(stream: Stream) -> list[tuple]:
    return stream.sql(
        "SELECT rows, readings, temperature_min, temperature_max, CAST(temperature_sum AS DOUBLE), temperature_avg,"
        " CAST(first_observed_at AS STRING), CAST(last_observed_at AS STRING) FROM {rollup} ORDER BY observed_month"
    )


def assert_rollup_is_right(stream: Stream) -> None:
    finding = verify_rollup(stream.spark, stream.settings, stream.table, stream.table.rollups[0])
    assert finding.passed, finding.detail


def test_the_feed_holds_inserts_and_updates_with_values_before_and_after(calm):
    assert feed(calm) == [
        ("00", "insert", None, 0.0, False),
        ("01", "insert", None, 1.0, False),
        ("02", "insert", None, 2.0, False),
        ("01", "update", 1.0, 9.0, False),
    ]


def test_a_rollup_has_the_figures_of_each_place_and_month(calm):
    assert figures(calm) == [(3, 3, 0.0, 9.0, 11.0, 11 / 3, "2023-01-01 00:00:00", "2023-01-01 02:00:00")]
    assert_rollup_is_right(calm)


def test_a_second_refresh_writes_nothing(calm):
    versions = [read_ledger(calm.settings.table_uri(calm.table.changes_name), calm.table.changes_name).version]
    changes, rollup = calm.refresh()
    assert (changes.version, changes.changed, rollup.changed) == (versions[0], 0, 0)


def test_versions_that_change_no_row_advance_what_was_consumed(calm):
    calm.replay()
    changes, rollup = calm.refresh()
    version = calm.ledger.version
    assert (changes.source_version, changes.changed) == (version, 0)
    assert (rollup.source_version, rollup.changed, rollup.rebuilt) == (version, 0, False)


def test_a_newer_record_of_equal_values_is_no_change(calm):
    calm.send(record(time=hour(1), temperature_2m=9.0))
    calm.merge()
    changes, _ = calm.refresh()
    assert changes.changed == 0


def test_a_restore_is_told_as_the_changes_it_made(stream):
    stream.sql("RESTORE TABLE {t} TO VERSION AS OF 1")
    changes, rollup = stream.refresh()
    assert feed(stream)[4:] == [("01", "update", 9.0, 1.0, False)]
    assert (changes.rebuilt, rollup.rebuilt) == (False, False)
    assert figures(stream)[0][4] == 3.0
    assert_rollup_is_right(stream)


def test_a_group_whose_rows_were_deleted_is_gone(stream):
    stream.sql("DELETE FROM {t}")
    stream.refresh()
    assert figures(stream) == []
    assert {change for _, change, *_ in feed(stream)[4:]} == {"delete"}


def test_where_change_data_is_gone_the_rollup_rebuilds_and_the_feed_reconciles(stream):
    stream.send(record(time=hour(1), temperature_2m=5.0), record(time=hour(3), temperature_2m=3.0))
    stream.merge()
    stream.send(record(time=hour(1), temperature_2m=6.0))
    stream.merge()
    shutil.rmtree(Path(stream.uri, "_change_data"))
    changes, rollup = stream.refresh()
    assert feed(stream)[4:] == [("01", "update", 9.0, 6.0, True), ("03", "insert", None, 3.0, True)]
    assert stream.sql("SELECT DISTINCT since_version, source_version FROM {changes} WHERE reconciled") == [(2, 4)]
    assert (changes.rebuilt, rollup.rebuilt) == (True, True)
    assert_rollup_is_right(stream)


def test_where_the_source_was_made_anew_both_follow_the_new_table(stream):
    shutil.rmtree(stream.uri)
    shutil.rmtree(stream.settings.table_uri(stream.table.rejected_name))
    stream.send(record(time=hour(2), temperature_2m=7.0))
    stream.merge()
    _, rollup = stream.refresh()
    assert feed(stream)[4:] == [("02", "update", 2.0, 7.0, True)]
    assert rollup.rebuilt
    assert_rollup_is_right(stream)


def test_the_checks_name_the_rows_that_are_wrong(stream):
    rollup = stream.table.rollups[0]
    stream.sql("UPDATE {rollup} SET rows = 99")
    finding = verify_rollup(stream.spark, stream.settings, stream.table, rollup)
    assert not finding.passed
    assert "13.000000, 77.600006, 2023-01-01 differs" in finding.detail
    stream.sql("INSERT INTO {t} SELECT * FROM {t} WHERE observed_at = TIMESTAMP'2023-01-01 02:00:00'")
    keys = verify_keys(stream.spark, stream.settings, stream.table)
    assert not keys.passed
    assert "13.000000, 77.600006, 2023-01-01 02:00:00 stands 2 times" in keys.detail


def test_figures_by_year_and_of_all_time_derive_from_the_months(stream):
    stream.send(
        record(time="2023-02-01T00:00", temperature_2m=-4.0), record(time="2022-02-01T00:00", temperature_2m=1.5)
    )
    stream.merge()
    stream.refresh()
    columns = "count(*), count(temperature_2m), min(temperature_2m), max(temperature_2m), avg(temperature_2m)"
    derived = (
        "sum(rows), sum(readings), min(temperature_min), max(temperature_max),"
        " CAST(sum(temperature_sum) / sum(readings) AS DOUBLE)"
    )
    by_year = stream.sql(f"SELECT year(observed_at), {columns} FROM {{t}} GROUP BY 1 ORDER BY 1")
    assert stream.sql(f"SELECT year(observed_month), {derived} FROM {{rollup}} GROUP BY 1 ORDER BY 1") == by_year
    assert stream.sql(f"SELECT {derived} FROM {{rollup}}") == stream.sql(f"SELECT {columns} FROM {{t}}")
