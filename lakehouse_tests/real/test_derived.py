"""Derived tables record what they consumed and match it; all tests share one history."""

from collections.abc import Iterator

import pytest
from deltalake import DeltaTable

from lakehouse.ingest.replay import replay
from lakehouse.ledger.positions import Range
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import Stream, record
from lakehouse_tests.helpers.tables.derived import feed_changes, figures, ledger_of, refresh_around, take


@pytest.fixture(scope="module")
def shared_stream(spark, broker) -> Stream:
    stream = Stream.create(spark, broker)
    stream.send_hours(1)
    return stream


@pytest.fixture
def stream(shared_stream: Stream) -> Iterator[Stream]:
    with refresh_around(shared_stream):
        yield shared_stream


@pytest.mark.slow
@pytest.mark.parametrize("without_spark", [True, False])
def test_few_changes_give_the_same_rows_with_and_without_spark(stream, without_spark):
    first, second, third = stream.hours(3)
    take(stream, {first: 1.0, second: 2.0})
    stream.refresh()
    take(stream, {first: 9.0, third: 3.0})
    with by_spark(not without_spark):
        changes, groups = stream.refresh()
    assert (changes.changed, changes.rebuilt, groups.changed, groups.rebuilt) == (2, False, 1, False)
    assert (
        feed_changes(stream, first)[-1] == ("update", 1.0, 9.0, False)
        and feed_changes(stream, third)[-1][0] == "insert"
    )
    for derived in (changes, groups):
        engine = DeltaTable(stream.settings.table_uri(derived.name)).history(1)[0]["engineInfo"]
        assert engine.startswith("delta-rs") == without_spark


@pytest.mark.invariant("10.1")
def test_the_feed_has_inserts_and_updates_and_derived_tables_record_what_they_consumed(stream):
    (hour,) = stream.hours(1)
    take(stream, {hour: 1.0})
    take(stream, {hour: 9.0})
    changes, rollup = stream.refresh()
    assert feed_changes(stream, hour) == [("insert", None, 1.0, False), ("update", 1.0, 9.0, False)]
    assert (changes.changed, changes.rebuilt, rollup.rebuilt) == (2, False, False)
    for derived in (changes, rollup):
        newest = ledger_of(stream, derived.name).newest.commit
        assert (newest.consumed.table_id, newest.consumed.version) == (stream.ledger.table_id, stream.ledger.version)
    numbers = [entry.commit.number for entry in ledger_of(stream, changes.name).entries]
    assert numbers == sorted(set(numbers), reverse=True)


@pytest.mark.invariant("10.3")
def test_a_rollup_has_the_figures_of_each_place_and_month(stream):
    day = "2023-01-01T{:02d}:00"
    values = {day.format(0): 0.0, day.format(1): 9.0, day.format(2): 2.0, "2023-02-01T05:00": -4.0}
    stream.send_and_refresh(*(record(latitude=50.5, time=time, temperature_2m=value) for time, value in values.items()))
    assert figures(stream, 50.5) == [
        (3, 3, 0.0, 9.0, 11.0, 11 / 3, "00", "02"),
        (1, 1, -4.0, -4.0, -4.0, -4.0, "05", "05"),
    ]
    stream.sql("DELETE FROM {t} WHERE latitude = 50.5 AND observed_month = DATE'2023-02-01'")
    stream.refresh()
    assert len(figures(stream, 50.5)) == 1, "a group without rows is deleted"
    assert feed_changes(stream, "2023-02-01T05:00", 50.5)[-1] == ("delete", -4.0, None, False)


@pytest.mark.invariant("10.4", "10.7")
def test_an_unchanged_row_is_not_a_change_and_a_second_refresh_writes_nothing(stream):
    (hour,) = stream.hours(1)
    take(stream, {hour: 9.0})
    stream.refresh()
    take(stream, {hour: 9.0})  # a newer record with equal values
    end = stream.ledger.progress.positions[0]
    replay(stream.context, [Range(0, end - 2, end)])
    changes, rollup = stream.refresh()
    assert (changes.changed, changes.source_version) == (0, stream.ledger.version)
    assert (rollup.source_version, rollup.rebuilt) == (stream.ledger.version, False)
    assert feed_changes(stream, hour) == [("insert", None, 9.0, False)]
    versions = [changes.version, rollup.version]
    assert [derived.version for derived in stream.refresh()] == versions


@pytest.mark.slow
def test_figures_by_year_and_of_all_time_derive_from_the_months(stream):
    times = {"2023-02-01T00:00": -4.0, "2022-02-01T00:00": 1.5}
    stream.send_and_refresh(*(record(latitude=40.5, time=time, temperature_2m=value) for time, value in times.items()))
    columns = "count(*), count(temperature_2m), min(temperature_2m), max(temperature_2m), round(avg(temperature_2m), 5)"
    derived = (
        "sum(rows), sum(readings), min(temperature_min), max(temperature_max),"
        " round(CAST(sum(temperature_sum) AS DOUBLE) / sum(readings), 5)"  # a quotient of DECIMAL is rounded, too
    )
    by_year = stream.sql(f"SELECT year(observed_at), {columns} FROM {{t}} GROUP BY 1 ORDER BY 1")
    assert stream.sql(f"SELECT year(observed_month), {derived} FROM {{rollup}} GROUP BY 1 ORDER BY 1") == by_year
    assert stream.sql(f"SELECT {derived} FROM {{rollup}}") == stream.sql(f"SELECT {columns} FROM {{t}}")
